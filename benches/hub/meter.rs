//! Measures time and memory.

use std::alloc::System;
use std::time::{Duration, Instant};

use stats_alloc::{INSTRUMENTED_SYSTEM, Stats, StatsAlloc};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes currently held.
pub fn held() -> i64 {
    held_of(&MEMORY.stats())
}

fn held_of(stats: &Stats) -> i64 {
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64
}

#[derive(Clone, Copy)]
pub struct Cost {
    pub time: Duration,
    pub allocations: u64,
    /// Change of held bytes.
    pub held: i64,
    /// Change of held blocks.
    pub blocks: i64,
}

pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let clock = Clock::start();
    let before = MEMORY.stats();
    let result = work();
    let after = MEMORY.stats();
    let time = clock.elapsed();
    let allocations = after.allocations + after.reallocations - before.allocations - before.reallocations;
    let blocks_of = |stats: &Stats| stats.allocations as i64 - stats.deallocations as i64;
    let (held, blocks) = (held_of(&after) - held_of(&before), blocks_of(&after) - blocks_of(&before));
    (result, Cost { time, allocations: allocations as u64, held, blocks })
}

/// The thread's CPU time if the system provides it, otherwise wall time.
struct Clock {
    on_processor: Option<Duration>,
    wall: Instant,
}

impl Clock {
    fn start() -> Self {
        Self { on_processor: on_processor(), wall: Instant::now() }
    }

    fn elapsed(&self) -> Duration {
        match (self.on_processor, on_processor()) {
            (Some(start), Some(end)) => end - start,
            _ => self.wall.elapsed(),
        }
    }
}

fn on_processor() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(told.split(' ').next()?.parse().ok()?))
}

impl Cost {
    /// Prints a row of the table: a phase and its cost per operation.
    pub fn print(self, phase: &str, each: &str, count: u64) {
        let per = |whole: f64| whole / count.max(1) as f64;
        let (time, allocations) = (per(self.time.as_nanos() as f64), per(self.allocations as f64));
        println!("{phase:<34} {count:>9} {each:<14} {time:>10.0} ns {allocations:>9.1} allocations");
    }
}
