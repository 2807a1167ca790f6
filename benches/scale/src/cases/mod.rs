//! The cases: each makes one parameter as large as it is told, through the public interface.

mod catalog;
mod config;
mod http;
mod hub;
mod names;
mod runtime;
mod schema;
mod stream;
mod wire;

use crate::meter::Cost;

/// One parameter, made large.
pub struct Case {
    /// The row in the table beside `Limits`.
    pub name: &'static str,
    /// The least of the four sizes.
    pub n: usize,
    /// What the limits allow beyond what came in, in bytes.
    pub allowed: usize,
    /// What each of what is counted takes beyond what came in, in bytes: where short texts become values with fields.
    pub each: usize,
    /// The limits bound the memory, however much comes in.
    pub bounded: bool,
    /// Runs it at a size.
    pub run: fn(usize) -> Cost,
}

impl Case {
    /// A case whose memory is in proportion to what comes in.
    const fn new(name: &'static str, n: usize, run: fn(usize) -> Cost) -> Self {
        Self { name, n, allowed: 0, each: 0, bounded: false, run }
    }

    /// The limits allow this much more, in bytes.
    const fn allow(self, allowed: usize) -> Self {
        Self { allowed, ..self }
    }

    /// Each takes this much more, in bytes.
    const fn each(self, each: usize) -> Self {
        Self { each, ..self }
    }

    /// The limits allow this much, in bytes, and no more, however much comes in.
    const fn at_most(self, allowed: usize) -> Self {
        Self { allowed, bounded: true, ..self }
    }
}

pub fn all() -> Vec<Case> {
    let mut cases = wire::cases();
    cases.extend(catalog::cases());
    cases.extend(runtime::cases());
    cases.extend(stream::cases());
    cases.extend(http::cases());
    cases.extend(config::cases());
    cases.extend(names::cases());
    cases.extend(schema::cases());
    cases.extend(hub::cases());
    cases
}

pub fn find(name: &str) -> Option<Case> {
    all().into_iter().find(|case| case.name == name)
}
