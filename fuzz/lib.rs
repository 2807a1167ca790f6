//! The bodies of the fuzz targets, and what they take from the tests of the crate.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/hub.rs"]
mod rig;

mod bodies;

pub use self::bodies::*;
