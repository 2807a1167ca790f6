//! The cases: each makes one parameter as large as requested, through the public interface.

mod catalog;
mod config;
mod http;
mod hub;
mod journal;
mod names;
mod oauth;
mod results;
mod runtime;
mod schema;
mod skills;
mod snapshot;
mod stream;
mod validation;
mod wire;

use crate::meter::Cost;

/// One parameter to enlarge.
pub struct Case {
    /// Name of the row in the table of `Limits`.
    pub name: &'static str,
    /// The smallest of the four sizes.
    pub n: usize,
    /// The ratio of a size to the one before.
    pub factor: usize,
    /// Bytes that the limits allow in addition to the input.
    pub allowed: usize,
    /// Bytes per counted item in addition to the input, where short texts become values with fields.
    pub each: usize,
    /// Whether the limits bound the memory regardless of the input.
    pub bounded: bool,
    /// Runs the case at a size.
    pub run: fn(usize) -> Cost,
}

impl Case {
    /// A case whose memory is proportional to the input.
    const fn new(name: &'static str, n: usize, run: fn(usize) -> Cost) -> Self {
        Self { name, n, factor: 2, allowed: 0, each: 0, bounded: false, run }
    }

    /// Each size is ten times the one before.
    const fn wide(self) -> Self {
        Self { factor: 10, ..self }
    }

    /// The sizes.
    pub fn sizes(&self) -> [usize; 4] {
        std::array::from_fn(|at| self.n * self.factor.pow(at as u32))
    }

    /// Allows this many bytes in addition.
    const fn allow(self, allowed: usize) -> Self {
        Self { allowed, ..self }
    }

    /// Allows this many bytes in addition per item.
    const fn each(self, each: usize) -> Self {
        Self { each, ..self }
    }

    /// Allows this many bytes in total, regardless of the input.
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
    cases.extend(oauth::cases());
    cases.extend(results::cases());
    cases.extend(schema::cases());
    cases.extend(validation::cases());
    cases.extend(skills::cases());
    cases.extend(hub::cases());
    cases.extend(journal::cases());
    cases.extend(snapshot::cases());
    cases
}

pub fn find(name: &str) -> Option<Case> {
    all().into_iter().find(|case| case.name == name)
}
