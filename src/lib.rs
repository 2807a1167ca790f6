#![doc = include_str!("../README.md")]
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(any(test, feature = "http", feature = "rows"))]
#[macro_use]
extern crate std;

mod address;
pub mod binding;
pub mod catalog;
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod host;
pub mod jsonrpc;
pub mod machine;
pub mod protocol;
mod session;
mod time;

pub use binding::LineSession;
pub use catalog::Catalog;
pub use machine::QuirkKind;
pub use protocol::{ClientCapabilities, Era, Family, Implementation, ProtocolVersion};
pub use serde_json::value::RawValue;
pub use session::{
    Action, Cause, Challenge, CommandError, Eras, Event, Failure, FailureKind, FamilyReport, FamilyStatus,
    InputRequest, Keepalive, KeepaliveMethod, KnownEra, Limits, ListErrors, LogLevel, Open, OpenFailure, Options,
    Outcome, Outgoing, Quirk, Reconnect, Recovery, Reference, Request, RequestId, SamplingPolicy, Server,
    ServerRequestId, Session, ShutdownStep, Stats, Timeouts, Tolerance, TraceContext, Transport, Wire,
};
pub use time::Time;
