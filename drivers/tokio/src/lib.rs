#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(clippy::wildcard_enum_match_arm, reason = "a driver handles a few events, and passes all others on")]

mod call;
mod driver;
mod endpoint;
mod group;
mod host;
#[cfg(feature = "http")]
mod http;
mod hub;
mod machine;
#[cfg(feature = "oauth")]
mod oauth;
mod process;
mod queue;
mod session;
mod status;
mod stream;
#[cfg(feature = "testkit")]
pub mod testkit;
mod trace;

#[doc = include_str!("inside.md")]
pub mod inside {}

pub use mcp_proto_std::{CallError, CallErrorKind, Piece, Program, Reply, ReplyError};

pub use crate::call::Call;
pub use crate::endpoint::Endpoint;
pub use crate::host::{Ask, Elicited, Host, HostOptions};
#[cfg(feature = "http")]
pub use crate::http::{HttpClient, HttpClientBuilder, HttpPiece, HttpTransport, Purpose, Remote, Roots, TakePiece};
pub use crate::hub::Hub;
pub use crate::machine::{Input, Output, Passed, Passing};
#[cfg(feature = "oauth")]
pub use crate::oauth::{FileRecord, FileStore, Loopback, OAuth, StoreResult, entropy, unix_time};
pub use crate::process::Process;
pub use crate::queue::Reports;
pub use crate::session::Session;
pub use crate::status::{StartError, Status};
pub use crate::stream::{Channels, Streams};
