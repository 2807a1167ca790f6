//! What the tests of both drivers ask the system.
#![allow(dead_code, reason = "each test uses some of it")]

/// Whether a process runs. A zombie does not: it waits for its parent, which is the system's first process for a descendant.
#[cfg(target_os = "linux")]
pub(crate) fn is_alive(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(std::path::Path::new("/proc/self/stat").exists(), "this test requires /proc");
    !state.is_empty() && !state.contains(") Z ")
}

#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn is_alive(pid: u32) -> bool {
    let shown = std::process::Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8(shown.stdout).unwrap();
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}

#[cfg(windows)]
pub(crate) fn is_alive(pid: u32) -> bool {
    !alive(&[pid]).is_empty()
}

/// Those of these processes that run.
#[cfg(unix)]
pub(crate) fn alive(pids: &[u32]) -> Vec<u32> {
    pids.iter().copied().filter(|pid| is_alive(*pid)).collect()
}

#[cfg(windows)]
pub(crate) fn alive(pids: &[u32]) -> Vec<u32> {
    let known: Vec<_> = processes(&["ProcessId"]).into_iter().flatten().collect();
    pids.iter().copied().filter(|pid| known.contains(&pid.to_string())).collect()
}

/// How many threads this process has.
#[cfg(target_os = "linux")]
pub(crate) fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[cfg(windows)]
pub(crate) fn threads() -> usize {
    let own = std::process::id().to_string();
    let processes = processes(&["ProcessId", "ThreadCount"]);
    let process = processes.iter().find(|process| process.first() == Some(&own)).unwrap();
    process.last().unwrap().parse().unwrap()
}

/// Columns of the system's table of processes, in the order of the alphabet. Wine has no `tasklist` that prints anything, and a
/// newer Windows no `wmic`.
#[cfg(windows)]
fn processes(columns: &[&str]) -> Vec<Vec<String>> {
    use std::sync::atomic::{AtomicU32, Ordering};

    static FILES: AtomicU32 = AtomicU32::new(0);
    // A pipe would not end: Wine's `explorer`, which `wmic` may start, holds it.
    let name = format!("mcp-proto-{}-{}-processes", std::process::id(), FILES.fetch_add(1, Ordering::Relaxed));
    let file = std::env::temp_dir().join(name);
    let run = |program: &str, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        command.args(args).stdout(std::fs::File::create(&file).unwrap());
        command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::null()).status()
    };
    run("wmic", &["process", "get", &columns.join(",")]).unwrap_or_else(|_| {
        let values: Vec<_> = columns.iter().map(|column| format!("$($_.{column})")).collect();
        let script =
            format!("'columns'; Get-CimInstance Win32_Process | ForEach-Object {{ \"{}\" }}", values.join(" "));
        run("powershell", &["-NoProfile", "-Command", &script]).unwrap()
    });
    let table = std::fs::read(&file).unwrap();
    let _ = std::fs::remove_file(file);
    // Wine prints UTF-16.
    let table: Vec<_> = table.into_iter().filter(|byte| *byte != 0).collect();
    let table = String::from_utf8_lossy(&table);
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let rows: Vec<_> = rows.filter(|row| !row.is_empty()).collect();
    assert!(!rows.is_empty(), "no process is listed");
    rows
}
