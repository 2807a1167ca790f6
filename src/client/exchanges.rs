//! What the HTTP binding reports to the engine, asks of it, and has it queue. The router for exchanges.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
#[cfg(feature = "snapshot")]
use alloc::vec::Vec;

use serde_json::value::RawValue;

use super::core::{BindingState, Signal, Signals, Timer};
use super::handshake::{Via, detect_era_change};
use super::request::{Block, Purpose};
use super::{
    Challenge, Engine, Event, FailureKind, Outcome, Outgoing, Output, RequestError, RequestId, ResendReason,
    ShutdownStep, StartId, Timeouts, calls,
};
use crate::Time;
use crate::jsonrpc::{Decoded, ErrorObject, Incoming, Noise};
use crate::machine::http_response::refusal::{Access, Authority, Authorization, Refused, authorization};
use crate::machine::{QuirkKind, link, request};
use crate::text::excerpt;

/// What the HTTP binding reports about the exchanges of requests.
#[derive(Debug)]
pub(crate) enum Report<'a> {
    /// The exchange of the request with this id broke or ended without a response. `sent`: it may have reached the server.
    Lost { id: u64, sent: bool, why: &'a str },
    /// The server refused a request with a status, without a JSON-RPC error.
    Refused { id: u64, status: u16, why: &'a str },
    /// The error with which a request was refused, whatever id it has. `unprocessed`: the status is a 4xx, so that the
    /// request did not run. With `headers`, a call was refused because of headers that the tool's schema requires. The
    /// schema may have changed, so the tools are listed again, once, and the call is made again (specification 2026-07-28,
    /// "Streamable HTTP", Client Behavior).
    Error { id: u64, error: ErrorObject, unprocessed: bool, headers: bool },
    /// The session expired (specification 2025-11-25, "Session Management"). The request with this id was refused because of
    /// it, and did not run.
    Expired { id: Option<u64> },
    /// A 2xx response to a request says that the session expired. The request may have run: it ends with this response,
    /// unless it may run twice.
    ExpiredResponse { id: u64, error: ErrorObject },
    /// A request cannot be sent: its proof of possession (DPoP, RFC 9449) was not signed.
    Unproved { id: u64, why: &'a str },
    /// There is no token: the requests that wait for one end, for this reason.
    Denied { why: &'a str },
    /// The token or nonce that a call lacked has arrived: the call is sent again.
    CallAuthorized { id: u64 },
    /// The token or nonce that the handshake lacked has arrived: the client connects again.
    ConnectionAuthorized,
    /// Nobody was reached, while requests of the embedder wait for their responses: what is in flight is tried again at this
    /// time.
    Unreached { why: &'a str, until: Time },
    /// After that, a response began.
    Reached,
    /// A message was dropped before it was sent, or did not reach the server.
    Unsent,
    /// A message with this method, or a response, was dropped, because the server did not accept those before it.
    Undelivered { method: Option<&'a str> },
}

/// A request that the server refused for lack of authorization: with 401, or with 403 an authorized one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unauthorized<'a> {
    /// The request's id on the wire.
    pub(crate) id: Option<u64>,
    /// The status is 403.
    pub(crate) forbidden: bool,
    /// The server's text, or why nobody obtains the authorization.
    pub(crate) why: &'a str,
    /// The challenges of the response.
    pub(crate) challenges: &'a [Challenge],
    /// Who obtains the authorization.
    pub(crate) authority: Authority,
}

/// What a binding needs to know of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestInfo<'a> {
    /// The embedder's id, if it is the embedder's request. Only such a one has the other members, apart from the task.
    pub(crate) of: Option<RequestId>,
    pub(crate) params: Option<&'a RawValue>,
    /// The task that the request is about.
    pub(crate) task: Option<&'a str>,
    /// How often it was refused for lack of authorization.
    pub(crate) refusals: u8,
    /// It was sent again for an expired session, so that it is not sent again for another one.
    pub(crate) is_expired_again: bool,
}

/// Why a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It was redirected, and keeps its id.
    Redirected,
    /// The server refused it for now.
    Refused,
    /// It did not reach the server.
    Unreached,
}

/// What the binding queues, reports and asks.
impl Engine {
    /// Adds the server's address, without its secrets, to its name in messages, unless the name is an address.
    pub(crate) fn locate(&mut self, address: &str) {
        self.core.locate(address);
    }

    /// Changes the texts of the server that the engine keeps, the last errors of lists and why a connection was lost, and
    /// the events after the first `seen`. Returns how many there were.
    #[cfg(feature = "http")]
    pub(crate) fn amend(&mut self, seen: u64, event: impl Fn(&mut Event), text: impl Fn(&mut Box<str>)) -> u64 {
        self.lists.last_errors().chain(self.link.last_error()).for_each(text);
        let quirks = &mut self.core.quirks;
        self.core.outbox.amend(seen, |it| {
            let recorded = if let Event::Quirk(quirk) = it { Some(quirk.clone()) } else { None };
            event(it);
            if let (Some(recorded), Event::Quirk(amended)) = (recorded, it) {
                quirks.amend(&recorded, amended);
            }
        });
        self.core.outbox.events()
    }

    /// Takes the next output. A message counts as sent after [`Self::handed_over`].
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        let output = self.core.outbox.pop()?;
        self.core.outbox.trim();
        Some(output)
    }

    /// Queues an exchange that is to begin, or to be dropped.
    pub(crate) fn queue(&mut self, action: Output) {
        self.core.outbox.push_action(action);
    }

    /// Queues exchanges that are to begin before everything that waits to be polled, but for others like them: their
    /// messages were polled before, and had to wait.
    pub(crate) fn queue_starts_first(&mut self, numbers: impl IntoIterator<Item = StartId>) {
        self.core.outbox.push_starts_first(numbers);
    }

    /// Withdraws exchanges that do not begin.
    pub(crate) fn withdraw_starts(&mut self, is_over: impl Fn(StartId) -> bool) {
        self.core.outbox.withdraw(|output| matches!(output, Output::Start(number) if is_over(*number)));
    }

    /// The session moved, and its exchanges have ended.
    #[cfg(feature = "snapshot")]
    pub(crate) fn withdraw_drops(&mut self) {
        self.core.outbox.withdraw(|output| matches!(output, Output::Drop(_)));
    }

    /// The step of the shutdown that is in progress.
    pub(crate) const fn shutdown(&self) -> Option<ShutdownStep> {
        self.link.shutdown()
    }

    /// The embedder polled a request of the connection, which carries this message: it counts as sent.
    pub(crate) fn handed_over(&mut self, message: Option<&Outgoing>) {
        if let Some(id) = message.and_then(Outgoing::id) {
            self.core.requests.mark_sent(id);
        }
        self.link.mark_polled();
    }

    /// Restarts the timeout of engine requests that were not polled yet.
    pub(crate) fn renew_unsent(&mut self, now: Time) {
        self.core.advance(now);
        let deadline = self.core.request_deadline();
        for id in self.core.requests.unsent_before(deadline) {
            self.core.requests.set_deadline(id, Some(deadline));
        }
    }

    /// The next request that stopped waiting for its response, for whatever reason.
    pub(crate) fn next_ended(&mut self) -> Option<u64> {
        self.core.requests.next_ended()
    }

    /// Takes the state of the binding.
    pub(crate) fn set_binding(&mut self, state: BindingState) {
        if core::mem::replace(&mut self.core.binding, state).holds_tools && !state.holds_tools {
            self.write_requests();
        }
    }

    /// Whether a request waits for its response.
    pub(crate) fn is_sent(&self, id: u64) -> bool {
        self.core.is_sent(id)
    }

    /// Whether a request of the embedder is among these, and waits for its response.
    pub(crate) fn has_call(&self, requests: impl IntoIterator<Item = u64>) -> bool {
        requests.into_iter().any(|id| self.core.is_sent(id) && self.core.requests.call(id).is_some())
    }

    /// Whether a refusal of `initialize` by this error ends the handshake.
    pub(crate) fn is_last_offer(&self, error: &ErrorObject) -> bool {
        self.connection.handshake.is_last_offer(&self.core, &RequestError::Server(error.clone()))
    }

    /// Whether a session expired since the last answered call.
    pub(crate) const fn has_expired(&self) -> bool {
        self.link.has_expired()
    }

    /// Whether a request that was refused for now is sent again. `may_run`: the refusal does not say that it does not run.
    pub(crate) fn repeat(&mut self, id: u64, may_run: bool) -> bool {
        let repeats = calls::repeat(&mut self.core, id, may_run);
        if repeats && self.core.requests.get(id).is_some_and(|open| matches!(open.purpose, Purpose::Discover(_))) {
            // A server that is busy is not silent.
            self.core.timers.set(Timer::Discover, None);
        }
        repeats
    }

    /// A request did not reach the server, and is tried again: until then there is nothing to cancel.
    pub(crate) fn note_unreached(&mut self, id: u64) {
        self.core.requests.note_refused(id);
    }

    /// Encodes a request that is sent again. `None` if it does not wait for its response any more, or has begun to run after
    /// all and may not run twice.
    pub(crate) fn encode_again(&mut self, id: u64, again: Again) -> Option<Outgoing> {
        if !self.core.is_sent(id) {
            return None;
        }
        // Whether one that may run is sent again was decided when it was refused.
        let was_not_run = again != Again::Refused || self.core.requests.is_refused(id);
        if was_not_run && !calls::may_resend(&self.core, id) {
            calls::on_exchange_lost(&mut self.core, id, true, "it has begun, and may not run twice");
            return None;
        }
        let id = match again {
            Again::Redirected => {
                self.core.requests.redirect(id);
                id
            }
            Again::Refused => self.restart(id, ResendReason::Busy)?,
            Again::Unreached => self.restart(id, ResendReason::NotSent)?,
        };
        self.core.requests.get(id).map(|open| self.core.encode_request(id, &open.purpose))
    }

    /// Gives a request a new id: ids are never reused on a connection.
    fn restart(&mut self, id: u64, reason: ResendReason) -> Option<u64> {
        let new = self.core.requests.rename(id)?;
        self.core.requests.step(new, request::Input::Restarted);
        self.release(new);
        calls::report_resend(&mut self.core, new, Some(reason));
        self.connection.handshake.rename(&mut self.core, id, new);
        self.subscriptions.rename(id, new);
        let open = self.core.requests.get(new)?;
        if let Purpose::List { family, .. } = &open.purpose {
            self.lists.rename(*family, id, new);
        }
        Some(new)
    }

    /// A request of the engine waits until the client has a token. Its time stands still, and so does that of the discovery
    /// that it is a part of, up to a maximum.
    fn hold(&mut self, id: u64) {
        let Timeouts { server_request: wait, request, discovery, connect, .. } = self.core.options.timeouts;
        self.core.requests.note_refused(id);
        self.core.requests.set_deadline(id, Some(self.core.after(wait.max(request))));
        self.core.extend(wait.max(discovery), connect.map(|connect| connect.max(wait)));
    }

    /// The requests of the engine that were refused, and are to be sent again.
    #[cfg(feature = "snapshot")]
    pub(crate) fn held(&self) -> Vec<u64> {
        let requests = &self.core.requests;
        requests.engine().into_iter().filter(|id| requests.is_refused(*id) && requests.is_sent(*id)).collect()
    }

    /// The time of a request that was held goes on.
    fn release(&mut self, id: u64) {
        let timeouts = self.core.options.timeouts;
        let deadline = Some(self.core.request_deadline());
        if self.core.requests.call(id).is_none() && self.core.requests.deadline(id) > deadline {
            self.core.requests.set_deadline(id, deadline);
            self.core.extend(timeouts.discovery, timeouts.connect);
        }
    }

    /// What is known of a request that an exchange carries.
    pub(crate) fn request_info(&self, id: u64) -> RequestInfo<'_> {
        match self.core.requests.get(id).map(|open| &open.purpose) {
            Some(Purpose::Call(call)) => RequestInfo {
                of: Some(call.handle),
                params: call.request.params.as_deref(),
                task: call.task.as_ref().map(|task| &*task.id),
                refusals: call.unauthorized,
                is_expired_again: calls::is_expired_again(call),
            },
            Some(Purpose::CancelTask(task) | Purpose::PollTask(task)) => {
                RequestInfo { task: Some(task), ..RequestInfo::default() }
            }
            Some(
                Purpose::Discover(_)
                | Purpose::Initialize(_)
                | Purpose::List { .. }
                | Purpose::SetLevel
                | Purpose::Keepalive(_)
                | Purpose::Rediscover
                | Purpose::Listen { .. }
                | Purpose::Subscribe(_)
                | Purpose::Unsubscribe(_),
            )
            | None => RequestInfo::default(),
        }
    }

    /// Records a deviation of the server on the transport.
    pub(crate) fn transport_quirk(&mut self, kind: QuirkKind, method: Option<&str>, detail: impl Into<Box<str>>) {
        self.core.quirk(kind, None, method, detail);
    }
}

impl Engine {
    /// Takes a message that was read by [`Self::decode`], and the request in whose exchange it came, if any. A message that
    /// answers nothing by its own id answers that request.
    pub(crate) fn handle_exchange(
        &mut self,
        id: Option<u64>,
        decoded: Result<Decoded<'_>, Noise>,
        source: &Incoming<'_>,
    ) {
        self.on_incoming(decoded, source, id);
        self.write_requests();
    }

    /// Takes a report on the exchange of a request.
    pub(crate) fn handle_report(&mut self, report: Report<'_>) {
        match report {
            Report::Lost { id, sent, why } => self.on_exchange_lost(id, sent, why),
            Report::Refused { id, status, why } => self.on_status(id, status, why),
            Report::Error { id, error, unprocessed, headers } => self.on_error(id, error, unprocessed, headers),
            Report::Expired { id } => self.on_expired(id),
            Report::ExpiredResponse { id, error } => {
                if self.core.is_sent(id) {
                    calls::on_expired_response(&mut self.core, id, error);
                    self.act(Signals::one(Signal::Expired(None)));
                }
            }
            Report::Unproved { id, why } => self.on_unproved(id, why),
            Report::Denied { why } => calls::deny(&mut self.core, why),
            Report::CallAuthorized { id } => {
                calls::unblock_one(&mut self.core, id, Block::Authorization, request::Input::Admitted);
            }
            Report::ConnectionAuthorized => self.admit_connection(),
            Report::Unreached { why, until } => {
                let signals = self.link.on_unreached(&mut self.core, why, until);
                self.act(signals);
            }
            Report::Reached => {
                let signals = self.link.step(&mut self.core, link::Input::Reached);
                self.act(signals);
            }
            Report::Unsent => self.core.stats.undelivered = self.core.stats.undelivered.saturating_add(1),
            Report::Undelivered { method } => self.core.drop_undelivered(method),
        }
        self.write_requests();
    }

    /// Takes a refusal for lack of authorization. Returns what follows: where the request is held, the binding sends it
    /// again.
    pub(crate) fn handle_unauthorized(&mut self, refused: Unauthorized<'_>) -> Authorization {
        let decision = self.on_unauthorized(refused);
        self.write_requests();
        decision
    }

    /// The server refused a request with a JSON-RPC error.
    fn on_error(&mut self, id: u64, error: ErrorObject, unprocessed: bool, headers: bool) {
        if !self.core.is_sent(id) {
            return;
        }
        if headers && calls::may_block(&self.core, id, Block::Headers) {
            let outcome = Outcome::Error(RequestError::Server(error));
            let signals = calls::block(&mut self.core, id, Block::Headers, outcome);
            self.act(signals);
        } else {
            let renewed = detect_era_change(&mut self.core, id, Via::HttpError, Some(&error));
            if renewed.is_empty() || !unprocessed || !calls::on_version_refused(&mut self.core, id) {
                self.answer(id, Err(RequestError::Server(error)));
            }
            self.act(renewed);
        }
    }

    /// A request cannot be sent.
    fn on_unproved(&mut self, id: u64, why: &str) {
        let core = &mut self.core;
        let Some(open) = core.requests.get(id) else { return };
        if matches!(open.purpose, Purpose::Call(_)) {
            calls::step(core, id, request::Input::Denied);
        } else {
            self.recover(id, request::Input::Withdrawn, why, format!("it was not sent ({why})"));
        }
    }

    /// The exchange of a request broke.
    fn on_exchange_lost(&mut self, id: u64, sent: bool, why: &str) {
        let core = &mut self.core;
        let Some(open) = core.requests.get(id).filter(|_| core.is_sent(id)) else { return };
        if matches!(open.purpose, Purpose::Call(_)) {
            calls::on_exchange_lost(core, id, sent, why);
        } else {
            self.recover(id, request::Input::Lost, why, format!("the exchange broke before its response ({why})"));
        }
    }

    /// A request of the engine ended without a response.
    fn recover(&mut self, id: u64, input: request::Input, why: &str, error: String) {
        let core = &mut self.core;
        let ended = core.end_request(id, input, "");
        let signals = ended.map(|open| self.recover_from(id, open.purpose, why, error)).unwrap_or_default();
        self.act(signals);
    }

    fn recover_from(&mut self, id: u64, purpose: Purpose, why: &str, error: String) -> Signals {
        let core = &mut self.core;
        match purpose {
            purpose @ (Purpose::Discover(_) | Purpose::Initialize(_)) => {
                self.connection.handshake.on_broken(core, (id, &purpose), why)
            }
            Purpose::List { family, cursor } => self.lists.on_broken(core, family, cursor, error),
            Purpose::Listen { .. } => self.subscriptions.on_ended(core, id, None),
            purpose @ (Purpose::SetLevel
            | Purpose::Keepalive(_)
            | Purpose::Rediscover
            | Purpose::Subscribe(_)
            | Purpose::Unsubscribe(_)
            | Purpose::CancelTask(_)
            | Purpose::PollTask(_)
            | Purpose::Call(_)) => self.fail(purpose, error),
        }
    }

    /// What the server refused.
    fn refused(&self, id: Option<u64>) -> Refused {
        match id.and_then(|id| self.core.requests.get(id)).map(|open| &open.purpose) {
            None => Refused::Nothing,
            Some(Purpose::Discover(_) | Purpose::Initialize(_)) => Refused::Handshake,
            Some(Purpose::List { .. }) => Refused::List,
            Some(
                Purpose::SetLevel
                | Purpose::Rediscover
                | Purpose::Listen { .. }
                | Purpose::Subscribe(_)
                | Purpose::Unsubscribe(_)
                | Purpose::CancelTask(_)
                | Purpose::PollTask(_),
            ) => Refused::Engine,
            Some(Purpose::Keepalive(_)) => Refused::Keepalive,
            Some(Purpose::Call(_)) => Refused::Call,
        }
    }

    /// The server refused a request with a status only.
    fn on_status(&mut self, id: u64, status: u16, why: &str) {
        if !self.core.is_sent(id) {
            return;
        }
        let refused = self.refused(Some(id));
        let core = &mut self.core;
        let error = RequestError::Status { status, message: excerpt(why).into() };
        match (refused, status) {
            (Refused::Handshake, _) => {
                let ended = core.end_request(id, request::Input::Answered, "");
                let why = error.to_string().into();
                let signals =
                    ended.map(|open| self.connection.handshake.on_status(core, (id, &open.purpose), status, why));
                self.act(signals.unwrap_or_default());
            }
            // A gateway got no response: the request may have run.
            (_, 502 | 504) => self.on_exchange_lost(id, true, &error.to_string()),
            (Refused::Call, 200..300) => calls::on_invalid(core, id, error.to_string()),
            (_, _) => self.answer(id, Err(error)),
        }
    }

    /// The session expired: one recovery for all requests.
    fn on_expired(&mut self, id: Option<u64>) {
        // A handshake has no session yet: what is refused beside it ends nothing.
        if self.core.is_established() && id.is_none_or(|id| self.core.is_sent(id)) {
            self.act(Signals::one(Signal::Expired(id)));
        }
    }

    /// The server refused a request for lack of authorization.
    fn on_unauthorized(&mut self, refused: Unauthorized<'_>) -> Authorization {
        let Unauthorized { id, forbidden, why, challenges, authority } = refused;
        if id.is_some_and(|id| !self.core.is_sent(id)) {
            return Authorization::Nothing;
        }
        let refused = self.refused(id);
        let connecting = !self.core.is_ready();
        let access = match (forbidden, challenges.is_empty()) {
            (false, _) => Access::Required,
            (true, false) => Access::Insufficient,
            (true, true) => Access::Denied,
        };
        let core = &mut self.core;
        let again = id.is_some_and(|id| calls::may_block(core, id, Block::Authorization));
        let decision = authorization(refused, connecting, access, again, authority);
        let status = if forbidden { 403 } else { 401 };
        let error = RequestError::Status { status, message: excerpt(why).into() };
        // A client that authorizes itself needs nothing of the embedder.
        let event = (authority != Authority::Client).then(|| Event::Unauthorized {
            request: id.and_then(|id| core.handle_of(id)),
            forbidden,
            why: excerpt(why).into(),
            challenges: challenges.into(),
        });
        let signals = match (decision, id) {
            (Authorization::Block, Some(id)) => {
                core.events(event);
                calls::block(core, id, Block::Authorization, Outcome::Error(error))
            }
            (Authorization::EndConnection, _) => {
                core.events(event);
                let (kind, says) = match access {
                    Access::Required => (FailureKind::Unauthorized, "requires authorization"),
                    Access::Insufficient | Access::Denied => (FailureKind::Forbidden, "refused access"),
                };
                let separator = if why.is_empty() { "" } else { ": " };
                let message = format!("{} {says} (HTTP {status}){separator}{}", core.server_name(), excerpt(why));
                let transport = match authority {
                    Authority::Client => link::Transport::Authorizing,
                    Authority::Embedder | Authority::Nobody => link::Transport::Open,
                };
                Signals::lost(kind, message, transport)
            }
            (Authorization::ByStatus, Some(id)) => {
                core.events(event);
                self.on_status(id, status, why);
                Signals::NONE
            }
            (Authorization::Hold, Some(id)) => {
                self.hold(id);
                Signals::NONE
            }
            (Authorization::Block | Authorization::ByStatus | Authorization::Hold | Authorization::Nothing, _) => {
                Signals::NONE
            }
        };
        self.act(signals);
        decision
    }
}
