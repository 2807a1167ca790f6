//! The tests of the crate, except those that measure memory. They are one binary because linking takes long.

#![cfg(feature = "testkit")]
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
#[cfg(feature = "snapshot")]
#[path = "../common/moved.rs"]
mod moved;
#[cfg(feature = "http")]
#[path = "../common/hub.rs"]
mod rig;
#[cfg(all(feature = "http", feature = "snapshot"))]
#[path = "../common/simulation.rs"]
mod simulation;
#[cfg(feature = "http")]
#[path = "../common/http.rs"]
mod web;

#[cfg(feature = "http")]
mod approval;
mod calls;
mod cancellation;
mod catalog;
#[cfg(all(feature = "http", feature = "snapshot"))]
mod changed_snapshots;
mod connect_timeout;
mod content;
mod diagnosis;
mod envelope;
mod extensions;
#[cfg(feature = "http")]
mod fake_server;
mod first_connection;
mod freshness;
#[cfg(all(feature = "http", feature = "journal"))]
mod fuzz_bodies;
#[cfg(all(feature = "http", feature = "journal"))]
mod hidden;
mod host_config;
mod host_config_others;
#[cfg(feature = "http")]
mod host_inspection;
mod host_names;
mod host_oauth;
#[cfg(feature = "http")]
mod host_overrides;
#[cfg(feature = "http")]
mod host_profiles;
#[cfg(feature = "http")]
mod host_reserved;
mod host_results;
mod host_session_keys;
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
mod hub_deadlines;
#[cfg(feature = "http")]
mod hub_idle;
#[cfg(all(feature = "http", feature = "journal"))]
mod hub_journal;
#[cfg(all(feature = "http", feature = "journal"))]
mod hub_laws;
#[cfg(all(feature = "http", feature = "journal"))]
mod hub_playback;
#[cfg(feature = "http")]
mod hub_saved;
mod input;
#[cfg(all(feature = "http", feature = "journal"))]
mod journal;
#[cfg(feature = "validate")]
mod json_schema;
mod jsonrpc;
mod keepalive;
mod laws;
mod lines;
mod links;
mod model;
#[cfg(feature = "oauth")]
mod oauth;
#[cfg(feature = "http")]
mod outages;
#[cfg(all(feature = "http", feature = "journal"))]
mod plain_values;
mod play;
#[cfg(all(feature = "http", feature = "journal"))]
mod playback;
mod refresh;
mod refresh_outcome;
mod regressions;
mod requests;
#[cfg(feature = "http")]
mod requirements;
#[cfg(feature = "http")]
mod resends;
#[cfg(feature = "http")]
mod resumption;
mod roots;
#[cfg(feature = "http")]
mod rows;
mod sampling;
#[cfg(feature = "http")]
mod secrets;
mod seeds;
mod sim_steps;
#[cfg(all(feature = "http", feature = "snapshot"))]
mod simulated;
#[cfg(feature = "skills")]
mod skills;
#[cfg(all(feature = "http", feature = "snapshot"))]
mod snapshot;
mod specification;
mod sse;
mod subscriptions;
mod tasks;
#[cfg(feature = "http")]
mod tasks_http;
#[cfg(feature = "template")]
mod templates;
mod testkit;
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
mod url_elicitation;
mod validation;
#[cfg(all(feature = "http", feature = "serde"))]
mod values;
