//! Detects that the server changed its era or version under a live connection.

use alloc::format;

use super::super::FailureKind;
use super::super::core::Core;
use super::super::request_table::Purpose;
use super::super::signal::Signals;
use super::Handshake;
use crate::jsonrpc::ErrorObject;
use crate::machine::era_change::{
    Carrier, Effect, Input, Phase, Reconnect, Response, State, Watch, take, take_shown, take_watch,
};
use crate::machine::{Verdict, loss};
use crate::protocol::{Capability, error_code};
use crate::text::excerpt;

impl Handshake {
    /// Takes the response to a request. Returns the loss of the connection if there has to be a new handshake.
    pub(in crate::client) fn on_response(
        &mut self,
        core: &mut Core,
        id: u64,
        carrier: Carrier,
        error: Option<&ErrorObject>,
    ) -> Signals {
        let phase = if core.is_ready() { Phase::Ready } else { Phase::Connecting };
        let reconnect = if core.options.reconnect.is_some() { Reconnect::On } else { Reconnect::Off };
        match take_watch(phase, reconnect) {
            Watch::Judge => {}
            Watch::Ignore => return Signals::NONE,
        }
        let Some(era) = core.era() else { return Signals::NONE };
        let response = error.map_or(Response::Other, |error| classify(core, id, error));
        let input = take_shown(carrier, response, era);
        // Nearly every response shows what is known.
        if (self.change, input) == (State::Settled, Input::Expected) {
            return Signals::NONE;
        }
        let row = take(self.change, input);
        self.change = row.next;
        let words = error.map(|error| excerpt(&format!("{error}")).into_owned()).unwrap_or_default();
        if let Verdict::Quirk(kind) = row.verdict {
            let detail = format!("a response that shows another era or version ({words}); a new handshake follows");
            core.quirk(kind, None, None, detail);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                Effect::Renew => {
                    self.known_era = None;
                    let message = format!("{} changed its era or version: {words}", core.server_name());
                    signals.extend(Signals::lost(FailureKind::Protocol, message, loss::Transport::Open));
                }
            }
        }
        signals
    }
}

fn classify(core: &Core, id: u64, error: &ErrorObject) -> Response {
    match error.code {
        error_code::UNSUPPORTED_PROTOCOL_VERSION => Response::VersionUnsupported,
        error_code::HEADER_MISMATCH | error_code::MISSING_REQUIRED_CLIENT_CAPABILITY => Response::ModernError,
        error_code::METHOD_NOT_FOUND if is_implied(core, id) => Response::MethodNotFound,
        _ => Response::Other,
    }
}

/// Whether the server's capabilities imply that it has the method of the request.
fn is_implied(core: &Core, id: u64) -> bool {
    let Some(open) = core.requests.get(id) else { return false };
    let capability = match &open.purpose {
        Purpose::List { family, .. } => Some(family.capability()),
        Purpose::Call(call) => Capability::needed_for(&call.request.method),
        Purpose::Discover(_)
        | Purpose::Initialize(_)
        | Purpose::SetLevel
        | Purpose::Keepalive(_)
        | Purpose::Rediscover
        | Purpose::Listen { .. }
        | Purpose::Subscribe(_)
        | Purpose::Unsubscribe(_)
        | Purpose::CancelTask(_) => None,
    };
    let server = core.server.as_ref();
    capability.is_some_and(|capability| server.is_some_and(|server| server.has(capability) == Some(true)))
}
