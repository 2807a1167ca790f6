//! The processes that a server's process started, so that none is left behind when it has to be ended.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// The descendants that were seen, each with its time of start, since an id alone can come again.
#[derive(Default)]
pub(crate) struct Tree {
    seen: BTreeSet<(u32, String)>,
}

struct Process {
    id: u32,
    parent: u32,
    started: String,
}

impl Tree {
    /// Adds what descends from a process now: once the process is gone, nothing tells any more.
    pub(crate) fn note(&mut self, root: u32) {
        let all = processes();
        let mut family = BTreeSet::from([root]);
        loop {
            let before = family.len();
            let children = all.iter().filter(|process| family.contains(&process.parent));
            let children: Vec<u32> = children.map(|process| process.id).collect();
            family.extend(children);
            if family.len() == before {
                break;
            }
        }
        family.remove(&root);
        let descendants = all.into_iter().filter(|process| family.contains(&process.id));
        self.seen.extend(descendants.map(|process| (process.id, process.started)));
    }

    /// Asks a process that is not reaped yet, and the descendants that were seen, to end; false where that
    /// cannot be asked.
    pub(crate) fn terminate(&self, root: u32) -> bool {
        signal("TERM", self.seen.iter().map(|(id, _)| *id).chain([root]))
    }

    /// Kills the descendants that were seen and are still there.
    pub(crate) fn kill(&mut self) {
        if self.seen.is_empty() {
            return;
        }
        let alive =
            processes().into_iter().filter(|process| self.seen.contains(&(process.id, process.started.clone())));
        let alive: Vec<u32> = alive.map(|process| process.id).collect();
        if !alive.is_empty() {
            signal("KILL", alive.into_iter());
        }
    }
}

/// Every process; none where there is no `ps` that knows POSIX's options.
fn processes() -> Vec<Process> {
    if !cfg!(unix) {
        return Vec::new();
    }
    let output = Command::new("ps")
        .args(["-A", "-o", "pid=", "-o", "ppid=", "-o", "lstart="])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let listed = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let process = |line: &str| {
        let mut words = line.split_whitespace();
        let (id, parent) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Process { id, parent, started: words.collect::<Vec<_>>().join(" ") })
    };
    listed.lines().filter_map(process).collect()
}

/// The shell's own `kill`, since a shell is there even where the program is not.
fn signal(name: &str, processes: impl Iterator<Item = u32>) -> bool {
    if !cfg!(unix) {
        return false;
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -s \"$@\"", "sh", name]).args(processes.map(|id| id.to_string()));
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}
