//! A client of one MCP server: inputs are messages and time, outputs are actions.

#![cfg_attr(not(feature = "http"), allow(dead_code, reason = "only an HTTP binding has exchanges"))]

mod action;
mod binding;
mod binding_access;
mod binding_report;
mod calls;
mod cancellation;
mod challenge;
mod command_error;
mod commands;
mod compare;
mod core;
mod encode;
mod engine;
mod error_class;
mod event;
mod forms;
mod freshness;
mod handshake;
mod keepalive;
mod link;
mod lists;
mod messages;
mod notifications;
mod options;
mod outbox;
mod outcome;
#[cfg(feature = "snapshot")]
mod persist;
mod quirks;
mod reaction;
mod request_table;
mod requests;
mod result_type;
mod route;
#[cfg(feature = "serde")]
mod serialize;
mod server;
mod server_requests;
mod signal;
#[cfg(feature = "snapshot")]
mod snapshot;
mod stats;
mod subscriptions;
mod timers;
mod transport;
mod url_elicitations;
mod views;

pub use action::{Action, ConnectionId, Outgoing, ShutdownStep, WireId};
pub use binding::Binding;
pub use challenge::Challenge;
pub use command_error::CommandError;
pub use commands::Client;
pub use engine::Engine;
pub use event::{Cause, Event, Failure, FailureKind, InputRequest, Quirk, Recovery, RequestId, ServerRequestId};
pub use lists::{FamilyReport, FamilyStatus};
pub use messages::Messages;
pub use options::{
    Eras, Keepalive, KeepaliveMethod, KnownEra, Limits, ListErrors, Options, Reconnect, SamplingPolicy, Timeouts,
    Tolerance,
};
pub use outcome::{Outcome, RefreshOutcome, RequestError, ResendReason, TaskError, TimeBound};
pub use requests::{Reference, Request, TraceContext};
pub use server::{Server, ServerInfo};
pub use stats::Stats;
pub use transport::{OpenFailure, Transport};
pub use views::{LogLevel, Progress, ServerMethod, Task, TaskStatus};

pub(crate) use crate::machine::loss::Wire;
pub(crate) use action::Output;
pub(crate) use binding::{Operate, poll_pipe};
#[cfg(feature = "snapshot")]
pub(crate) use persist::Persist;
#[cfg(feature = "snapshot")]
pub(crate) use snapshot::ClientState;
#[cfg(feature = "http")]
pub(crate) use transport::{Report, Unauthorized};
