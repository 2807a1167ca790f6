//! Clocks, memory and medians.

use std::fs;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Time that passed, and CPU time of this process.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub wall: f64,
    pub cpu: f64,
}

/// Seconds.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let (start, busy) = (Instant::now(), cpu());
    let result = work();
    let (wall, cpu) = (start.elapsed(), cpu() - busy);
    (result, Cost { wall: wall.as_secs_f64(), cpu: cpu.as_secs_f64() })
}

fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap().into()
}

/// Resident memory of this process, in bytes.
pub fn resident() -> f64 {
    const PAGE: f64 = 4096.0;
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * PAGE
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}
