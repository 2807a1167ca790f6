//! The tables: the decisions of a client and of a hub, as pure functions of a state and an input.
//!
//! A state table is `const fn step(State, Input) -> Row`; a decision table, which needs no state, is a `const fn` from
//! small enums to a decision. Both are nested `match`es without wildcards, so a missing combination does not compile.
//! States and inputs carry no data: payloads are classified before a step, and ids, deadlines and cursors are updated
//! after it. The tables in the documentation are rendered from the code, and a test fails if they differ. A cell has
//! the effects in order, then `→` and the next state; `stays` means no effect, `–` is ignored, *misuse* is a command
//! that returns an error, `any` stands for every value.

pub mod admission;
pub mod approval;
pub mod authorization;
pub mod authorization_plan;
pub mod breaker;
pub mod call_error;
pub mod cancellation;
pub mod challenge;
pub mod connection_proof;
pub mod credential_record;
pub mod credentials;
pub mod discovery;
pub mod era_change;
pub mod exchange_loss;
pub mod freshness;
pub mod gate;
pub mod get_stream;
pub mod handshake;
pub mod http;
pub mod http_answer;
pub mod http_end;
pub mod http_head;
pub mod http_initialized;
pub mod http_reach;
pub mod http_read;
pub mod http_refusal;
pub mod http_send;
pub mod http_sse;
pub mod http_waiting;
pub mod hub;
pub mod hub_offer;
pub mod hub_server;
pub mod keepalive;
pub mod keepalive_timeout;
pub mod link;
pub mod list_error;
pub mod list_watch;
pub mod listen_stream;
pub mod log_level;
pub mod loss;
pub mod notification;
pub mod offer;
pub mod paging;
pub mod refresh;
pub mod refresh_demand;
pub mod replay;
pub mod request;
pub mod request_timeout;
pub mod required_input;
pub mod resend;
pub mod resource_subscription;
pub mod response;
pub mod result_type;
mod row;
pub mod server_request;
pub mod setting;
pub mod shape;
pub mod shutdown;
pub mod store;
pub mod subscribe;
pub mod task;
pub mod turn;

pub use row::{Decision, QuirkKind, Row, Verdict};

#[cfg(test)]
mod render;
#[cfg(test)]
mod render_decisions;
#[cfg(test)]
mod render_http;
#[cfg(test)]
mod render_markdown;
#[cfg(test)]
mod render_oauth;
#[cfg(test)]
mod render_requests;
#[cfg(feature = "rows")]
mod rows;

/// A fieldless enum with the list of its values.
macro_rules! alphabet {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $value:ident),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $value),* }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];
        }
    };
}
pub(crate) use alphabet;

/// Gives a state table a `take`, by which the engine steps it: `step`, and with the feature `rows` a record of the row.
/// With `refuses`, also a question about a command that is not taken yet.
macro_rules! recorded {
    ($table:literal) => {
        /// [`step`], recorded with the feature `rows`.
        pub(crate) fn take(state: State, input: Input) -> Row<State, Effect> {
            #[cfg(feature = "rows")]
            super::rows::taken($table, &[&state, &input]);
            step(state, input)
        }
    };
    ($table:literal, refuses) => {
        recorded!($table);

        /// Whether a command is refused in a state. Its row is recorded only then: otherwise the command takes it later.
        pub(crate) fn refuses(state: State, command: Input) -> bool {
            let refused = matches!(step(state, command).verdict, super::Verdict::Reject);
            if refused {
                take(state, command);
            }
            refused
        }
    };
}
pub(crate) use recorded;
