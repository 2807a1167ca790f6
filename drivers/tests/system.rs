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
    processes(&["ProcessId"]).iter().any(|process| process == &[pid.to_string()])
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

/// Columns of the system's table of processes, in the order of the alphabet. Wine has no `tasklist` that prints anything.
#[cfg(windows)]
fn processes(columns: &[&str]) -> Vec<Vec<String>> {
    let listed = std::process::Command::new("wmic").args(["process", "get", &columns.join(",")]).output().unwrap();
    // Wine prints UTF-16.
    let table: Vec<_> = listed.stdout.into_iter().filter(|byte| *byte != 0).collect();
    let table = String::from_utf8_lossy(&table);
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let rows: Vec<_> = rows.filter(|row| !row.is_empty()).collect();
    assert!(!rows.is_empty(), "`wmic` lists no process");
    rows
}
