//! A client of one MCP server: inputs are messages and time, outputs are actions.

#![cfg_attr(not(feature = "http"), allow(dead_code, unreachable_pub, reason = "only an HTTP binding has exchanges"))]

mod action;
mod binding;
mod calls;
mod command;
mod core;
mod engine;
mod event;
#[cfg(feature = "http")]
mod exchanges;
mod handshake;
mod inputs;
mod keepalive;
mod link;
mod lists;
mod notifications;
mod options;
mod outcome;
mod request;
mod request_table;
mod result_type;
mod server;
mod server_requests;
mod subscriptions;

#[cfg(feature = "http")]
pub use action::ExchangeId;
pub use action::{Action, ConnectionId, OpenFailure, Outgoing, ShutdownStep, Transport, WireId};
pub use binding::{Binding, Client, Messages};
pub use command::Command;
pub use engine::Engine;
pub use event::{
    Cause, Event, Failure, FailureKind, InputRequest, LogLevel, Progress, Quirk, Recovery, RequestId, ServerMethod,
    ServerRequestId, Stats, Task, TaskStatus,
};
pub use lists::FamilyReport;
pub use options::{
    Eras, Keepalive, KeepaliveMethod, KnownEra, Limits, ListErrors, Options, Reconnect, SamplingPolicy, Timeouts,
    Tolerance,
};
pub use outcome::{Challenge, CommandError, Outcome, RefreshOutcome, RequestError, ResendReason, TaskError, TimeBound};
#[cfg(feature = "http")]
pub(crate) use request::AUTHORIZATIONS;
pub use request::{Reference, Request, TraceContext};
pub use server::{FamilyStatus, Server, ServerInfo};

pub(crate) use crate::machine::Wire;
pub(crate) use action::Output;
#[cfg(feature = "http")]
pub(crate) use action::StartId;
#[cfg(feature = "snapshot")]
pub(crate) use binding::{ClientState, Persist};
pub(crate) use binding::{Operate, poll_pipe};
pub(crate) use command::command_methods;
#[cfg(feature = "http")]
pub(crate) use core::{BindingState, Stage};
#[cfg(feature = "http")]
pub(crate) use exchanges::{Again, Report, RequestInfo, Unauthorized};
#[cfg(feature = "http")]
pub(crate) use options::Headers;
