//! The body of the target `host`.

mod config;
mod names;
mod schema;
mod text;
mod toolset;
mod views;

use std::hash::{DefaultHasher, Hash, Hasher};

/// The first byte selects a part of the host layer, which reads the other bytes. Checks its invariants.
pub fn host(bytes: &[u8]) -> u64 {
    // The host's secret has it, and what a file says may be shown.
    #[cfg(feature = "oauth")]
    let bytes = &*super::oauth::without_marker(bytes);
    let mut print = DefaultHasher::new();
    match bytes.split_first() {
        Some((b'c', json)) => config::check(json).hash(&mut print),
        Some((b'n', steps)) => names::check(steps).hash(&mut print),
        Some((b's', json)) => schema::check(json).hash(&mut print),
        Some((b't', offer)) => toolset::check(offer).hash(&mut print),
        Some((b'v', lines)) => views::check(lines).hash(&mut print),
        _ => text::check(&String::from_utf8_lossy(bytes)).hash(&mut print),
    }
    print.finish()
}
