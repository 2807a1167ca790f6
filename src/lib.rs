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
mod client;
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod host;
pub mod jsonrpc;
pub mod machine;
pub mod protocol;
mod time;

pub use binding::Lines;
#[cfg(feature = "http")]
pub use binding::http::Http;
pub use catalog::Catalog;
pub use client::{
    Action, Binding, Cause, Challenge, Client, CommandError, ConnectionId, Engine, Eras, Event, Failure, FailureKind,
    FamilyReport, FamilyStatus, InputRequest, Keepalive, KeepaliveMethod, KnownEra, Limits, ListErrors, LogLevel,
    Messages, OpenFailure, Options, Outcome, Outgoing, Progress, Quirk, Reconnect, Recovery, Reference, Request,
    RequestError, RequestId, SamplingPolicy, Server, ServerMethod, ServerRequestId, ShutdownStep, Stats, Timeouts,
    Tolerance, TraceContext, Transport, WireId,
};
pub use machine::QuirkKind;
pub use protocol::{ClientCapabilities, Era, Family, Implementation, ProtocolVersion};
pub use serde_json::value::RawValue;
pub use time::Time;
