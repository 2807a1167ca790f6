#![doc = include_str!("../README.md")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a driver handles a few events, and passes all others on")]

mod exit;
mod group;
mod pipes;
mod process;
mod program;
mod reply;
mod session;
mod unwritten;

pub use exit::Exit;
pub use process::{Piece, Process};
pub use program::{Program, Sink};
pub use reply::{CallError, CallErrorKind, Reply, ReplyError, arguments, reply};
pub use session::Session;
pub use unwritten::Unwritten;

// The program of the repository's README, compiled with the tests of this package.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
