//! The body of the target `host`.

mod config;
mod names;
mod schema;
mod text;
mod toolset;

use std::hash::{DefaultHasher, Hash, Hasher};

/// Takes the first byte for a part of the host floor and the others for what it reads, and checks what holds of it.
pub(crate) fn host(bytes: &[u8]) -> u64 {
    let mut print = DefaultHasher::new();
    match bytes.split_first() {
        Some((b'c', json)) => config::check(json).hash(&mut print),
        Some((b'n', steps)) => names::check(steps).hash(&mut print),
        Some((b's', json)) => schema::check(json).hash(&mut print),
        Some((b't', offer)) => toolset::check(offer).hash(&mut print),
        _ => text::check(&String::from_utf8_lossy(bytes)).hash(&mut print),
    }
    print.finish()
}
