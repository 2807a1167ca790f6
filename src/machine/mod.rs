//! The tables: every decision of the engine, as pure functions of a state and an input.
//!
//! Each machine is `const fn step(State, Input) -> Row`, a nested `match` without wildcards, so that the
//! compiler refuses a pair that nobody decided. States and inputs carry no data: payloads are judged before a
//! step, ids, deadlines and cursors are moved after it. The matrices below are rendered from the code, and a
//! test fails where they differ.

pub mod breaker;
pub mod discovery;
pub mod handshake;
pub mod keepalive;
pub mod ladder;
pub mod link;
pub mod member;
pub mod refresh;
pub mod request;
pub mod resource;
mod row;
pub mod stream;
pub mod subscription;

pub use row::{QuirkKind, Row, Verdict};

#[cfg(test)]
mod render;

/// A fieldless enum with the list of its values.
macro_rules! alphabet {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $value:ident),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $value),* }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];
        }
    };
}
pub(crate) use alphabet;
