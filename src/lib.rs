// The program of README is a test of `mcp-proto-std`, which it needs.
#![cfg_attr(not(doctest), doc = include_str!("../README.md"))]
//!
//! # In this documentation
//!
//! The [`guide`] explains the use; start with [`guide::embedding`]. [`Client`] has the inputs and commands, [`Engine`] the
//! getters, [`Action`] and [`Event`] what a client returns, [`Options`] what can be set.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "host"),
    allow(dead_code, unused_imports, reason = "some of what the layers share is for the host layer only")
)]

extern crate alloc;
#[cfg(any(test, feature = "http", feature = "rows", feature = "skills", feature = "testkit", feature = "validate"))]
#[macro_use]
extern crate std;

pub mod binding;
pub mod catalog;
mod client;
mod collections;
mod diagnosis;
#[cfg(any(feature = "journal", feature = "http"))]
mod encodings;
#[cfg(feature = "serde")]
mod form;
#[cfg(any(doc, doctest))]
pub mod guide;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "journal")]
pub mod journal;
pub mod jsonrpc;
mod machine;
pub mod protocol;
#[cfg(feature = "skills")]
pub mod skills;
#[cfg(feature = "snapshot")]
mod snapshot;
#[cfg(feature = "testkit")]
pub mod testkit;
mod text;
mod time;
pub mod validation;

pub use binding::Lines;
#[cfg(feature = "http")]
pub use binding::http::{Http, UrlError};
pub use catalog::Catalog;
pub use client::{
    Action, Binding, Cause, Challenge, Client, Command, CommandError, ConnectionId, Engine, Eras, Event, Failure,
    FailureKind, FamilyReport, FamilyStatus, InputRequest, Keepalive, KeepaliveMethod, KnownEra, Limits, ListErrors,
    LogLevel, Messages, OpenFailure, Options, Outcome, Outgoing, Progress, Quirk, Reconnect, Recovery, Reference,
    RefreshOutcome, Request, RequestError, RequestId, ResendReason, SamplingPolicy, Server, ServerInfo, ServerMethod,
    ServerRequestId, ShutdownStep, Stats, Task, TaskError, TaskStatus, TimeBound, Timeouts, Tolerance, TraceContext,
    Transport, WireId,
};
pub use diagnosis::{Diagnosis, FailureCause, FailureStage, StderrLines};
pub use machine::QuirkKind;
pub use protocol::{ClientCapabilities, Era, Family, Implementation, ProtocolVersion};
pub use serde_json::value::RawValue;
#[cfg(feature = "snapshot")]
pub use snapshot::{Moved, Secrets, Snapshot, SnapshotError};
pub use time::Time;
