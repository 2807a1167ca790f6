//! The tests of the crate, but for those that measure memory: one binary, since linking is what takes long.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::match_wildcard_for_single_variants,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a helper may fail as a test may"
)]

#[path = "../common/collisions.rs"]
mod collisions;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "http")]
#[path = "../common/hub.rs"]
mod rig;
#[cfg(feature = "http")]
#[path = "../common/http.rs"]
mod web;

mod calls;
mod catalog;
mod envelope;
mod explore;
#[cfg(feature = "http")]
mod fuzz_bodies;
mod host_config;
mod host_names;
mod host_toolset;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod http_laws;
#[cfg(feature = "http")]
mod http_regressions;
#[cfg(feature = "http")]
mod http_replay;
#[cfg(feature = "http")]
mod hub;
#[cfg(feature = "http")]
mod hub_laws;
mod input;
mod jsonrpc;
mod keepalive;
mod laws;
mod lines;
mod model;
mod refresh;
mod regressions;
mod requests;
#[cfg(feature = "http")]
mod rows;
mod sampling;
#[cfg(feature = "http")]
mod secrets;
mod seeds;
mod sse;
mod subscriptions;
mod tolerance_capabilities;
mod tolerance_handshake;
#[cfg(feature = "http")]
mod tolerance_http;
mod tolerance_jsonrpc;
mod tolerance_pagination;
mod tolerance_runtime;
mod transcripts;
#[cfg(feature = "http")]
mod unpolled;
