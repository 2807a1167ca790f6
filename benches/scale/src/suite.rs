//! Runs cases under callgrind, and checks how their costs grow.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::cases::{self, Case};

/// Number of parallel cases.
const WORKERS: usize = 2;

/// Cases of one process: a process starts slowly under callgrind.
const TOGETHER: usize = 8;

/// Maximum time of a process under callgrind. A usual case takes a second; only an excessive cost reaches the maximum,
/// however busy the machine is.
const LONGEST: Duration = Duration::from_secs(300);

/// Maximum exponent of the growth from one step to the next: n log n stays below, n^1.33 does not.
const STEEPEST: f64 = 1.32;

/// Minimum exponent of the growth of the total cost in the last step that counts as more than linear.
const WHOLE: f64 = 1.14;

/// Maximum bytes of memory per byte of input.
const MEMORY: usize = 4;

/// Bytes of memory that a case may use regardless of its input.
const BASE: usize = 64 << 10;

/// The counts at one size.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    n: usize,
    input: usize,
    peak: usize,
    blocks: usize,
    bytes: usize,
    instructions: usize,
}

struct Verdict {
    line: String,
    failed: Option<String>,
}

/// Runs the named cases; all if none is named.
pub fn check(names: &[&str]) -> Result<(), String> {
    let mut cases = cases::all();
    if !names.is_empty() {
        if let Some(unknown) = names.iter().find(|name| cases::find(name).is_none()) {
            return Err(format!("there is no case `{unknown}`"));
        }
        cases.retain(|case| names.contains(&case.name));
    }
    let folder = std::env::temp_dir().join(format!("mcp-proto-scale-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|why| why.to_string())?;
    println!(
        "{:<32} {:>7} {:>43} {:>31} {:>5} {:>5} {:>5} {:>6}  verdict",
        "parameter",
        "n",
        "instructions for each at four sizes",
        "allocations for each",
        "instr",
        "alloc",
        "bytes",
        "memory"
    );
    let batches: Vec<_> = cases.chunks(TOGETHER).collect();
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(cases) = batches.get(next.fetch_add(1, Relaxed)) {
                    for (case, figures) in measure(cases, &folder) {
                        let verdict = judge(case, figures);
                        println!("{}", verdict.line);
                        verdicts.lock().unwrap().push((case.name, verdict));
                    }
                }
            });
        }
    });
    let _ = fs::remove_dir_all(&folder);
    let mut verdicts = verdicts.into_inner().unwrap();
    verdicts.sort_unstable_by_key(|(name, _)| *name);
    let failed: Vec<_> = verdicts
        .iter()
        .filter_map(|(name, verdict)| Some(format!("FAILED: {name}: {}", verdict.failed.as_ref()?)))
        .collect();
    println!("{} parameters, {} failed", verdicts.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

type Measured = Result<[Figures; 4], String>;

fn judge(case: &Case, figures: Measured) -> Verdict {
    match figures {
        Ok(figures) => verdict(case, figures),
        Err(why) => Verdict { line: format!("{:<32} {:>7} FAILED: {why}", case.name, case.n), failed: Some(why) },
    }
}

/// Measures each of these cases. The cases after one that fails are measured by another process.
fn measure<'a>(cases: &'a [Case], folder: &Path) -> Vec<(&'a Case, Measured)> {
    let mut measured = Vec::new();
    while let Some(first) = cases.get(measured.len()) {
        let rest = &cases[measured.len()..];
        match run(rest, &folder.join(first.name)) {
            Ok((figures, failed)) => {
                measured.extend(rest.iter().zip(figures.into_iter().map(Ok)));
                if let (Some(why), Some(case)) = (failed, cases.get(measured.len())) {
                    measured.push((case, Err(why)));
                }
            }
            Err(why) => measured.push((first, Err(why))),
        }
    }
    measured
}

/// Runs cases at four sizes in one process, with a profile after each size. Returns the figures of the cases before the
/// first that failed, and how it failed.
fn run(cases: &[Case], out: &Path) -> Result<(Vec<[Figures; 4]>, Option<String>), String> {
    let own = std::env::current_exe().map_err(|why| why.to_string())?;
    let (printed, said) = (out.with_extension("stdout"), out.with_extension("stderr"));
    let create = |path: &Path| fs::File::create(path).map_err(|why| why.to_string());
    let arguments = cases.iter().map(|case| {
        let sizes = case.sizes().map(|size| size.to_string());
        format!("{}:{}", case.name, sizes.join(","))
    });
    let mut child = Command::new("valgrind")
        // Preparing the input is not counted; each size has its own profile.
        .args(["--tool=callgrind", "--toggle-collect=mcp_proto_scale::meter::measured"])
        .arg("--dump-after=mcp_proto_scale::meter::measured")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(own)
        .arg("run")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(create(&printed)?)
        .stderr(create(&said)?)
        .spawn()
        .map_err(|why| format!("valgrind does not start: {why}"))?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|why| why.to_string())? {
            break Some(status);
        }
        if start.elapsed() > LONGEST {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let printed = fs::read_to_string(printed).map_err(|why| why.to_string())?;
    let mut figures = Vec::new();
    for (at, line) in printed.lines().enumerate() {
        let numbers: Vec<usize> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [n, input, peak, blocks, bytes] = *numbers else { return Err(format!("`{line}` was printed")) };
        let instructions = instructions(&PathBuf::from(format!("{}.{}", out.display(), at + 1)))?;
        figures.push(Figures { n, input, peak, blocks, bytes, instructions });
    }
    let figures = figures.as_chunks().0.to_vec();
    let failed = match status {
        Some(status) if status.success() && figures.len() == cases.len() => None,
        Some(_) => {
            let said = fs::read_to_string(said).unwrap_or_default();
            let said = said.lines().filter(|line| !line.starts_with("==")).take(3).collect::<Vec<_>>().join("; ");
            Some(format!("it did not run to its end: {said}"))
        }
        None => Some(format!("no end after {} s", LONGEST.as_secs())),
    };
    Ok((figures, failed))
}

/// The instructions in a profile between two dumps.
fn instructions(profile: &Path) -> Result<usize, String> {
    let text = fs::read_to_string(profile).map_err(|why| format!("there is no profile: {why}"))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = total.and_then(|total| total.trim().parse().ok()).filter(|total| *total > 0);
    total.ok_or_else(|| "the profile has no instructions".into())
}

/// The exponent by which the cost of the last step exceeds that of the one before; `None` if the cost is below `floor`.
fn steepness(figures: &[Figures; 4], factor: usize, floor: usize, of: fn(&Figures) -> usize) -> Option<f64> {
    let [_, second, third, fourth] = figures.each_ref().map(of);
    let (before, last) = (third.saturating_sub(second), fourth.saturating_sub(third));
    let exponent = |ratio: f64| ratio.ln() / (factor as f64).ln();
    let steepness = exponent(last as f64 / before.max(floor / 4) as f64);
    // A late increase counts only if the total cost grew more than the size.
    let whole = exponent(fourth as f64 / third.max(1) as f64);
    (last > floor).then_some(if whole > WHOLE { steepness } else { steepness.min(whole) })
}

fn verdict(case: &Case, figures: [Figures; 4]) -> Verdict {
    let growth = [
        ("instructions", steepness(&figures, case.factor, 200_000, |it| it.instructions)),
        ("allocations", steepness(&figures, case.factor, 256, |it| it.blocks)),
        ("bytes allocated", steepness(&figures, case.factor, 64 << 10, |it| it.bytes)),
    ];
    let last = figures[3];
    let mut wrong = Vec::new();
    for (what, steepness) in growth {
        if let Some(steepness) = steepness.filter(|steepness| *steepness > STEEPEST) {
            wrong.push(format!("{what} grow as n^{steepness:.2}"));
        }
    }
    let allowed = case.allowed.saturating_add(case.each.saturating_mul(last.n)).saturating_add(if case.bounded {
        0
    } else {
        MEMORY.saturating_mul(last.input)
    });
    if last.peak > allowed.saturating_add(BASE) {
        let ratio = last.peak as f64 / last.input.max(1) as f64;
        wrong.push(format!("memory of {} bytes, {ratio:.1} times the {} that came in", last.peak, last.input));
    }
    let each = |of: fn(&Figures) -> usize, width: usize| {
        let each =
            figures.map(|it| format!("{:>width$.*}", usize::from(of(&it) < 100 * it.n), of(&it) as f64 / it.n as f64));
        each.join(" ")
    };
    let exponent = |at: usize| growth[at].1.map_or("-".into(), |steepness| format!("{steepness:.2}"));
    let line = format!(
        "{:<32} {:>7} {} {} {:>5} {:>5} {:>5} {:>6.1}  {}",
        case.name,
        case.n,
        each(|it| it.instructions, 10),
        each(|it| it.blocks, 7),
        exponent(0),
        exponent(1),
        exponent(2),
        last.peak as f64 / last.input.max(1) as f64,
        if wrong.is_empty() { "ok" } else { "FAILED" }
    );
    Verdict { line, failed: (!wrong.is_empty()).then(|| wrong.join("; ")) }
}
