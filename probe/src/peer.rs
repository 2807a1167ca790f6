//! A server of the run: what is known of its connection, and its records.

use std::collections::BTreeSet;

use http::HeaderMap;
use mcp_proto::binding::http::Broken;
use mcp_proto::binding::oauth::{Grant, OAuthAction, OAuthError, OAuthExchangeId, OAuthInput, Stage};
use mcp_proto::{ConnectionId, Engine, FailureKind, ShutdownStep, Time, Transport};
use mcp_proto_tokio::{HttpPiece, Input, Output};

use crate::args::OAuthSettings;
use crate::oauth::{advice, is_registration};
use crate::record::{FailureReport, Record};
use crate::trace::{Trace, without_query};

/// A server over HTTP. The headers are added to each request to it.
#[derive(Clone, Default)]
pub(crate) struct Site {
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
}

/// The final state of a server.
pub(crate) struct Ended {
    pub(crate) session: Engine,
    pub(crate) peer: Peer,
}

pub(crate) struct Peer {
    pub(crate) name: String,
    /// Where it is, if it is a server over HTTP.
    pub(crate) site: Option<Site>,
    /// The session's connection that the process belongs to.
    connection: ConnectionId,
    /// Whether the next process or HTTP response opens a new session. If not, it continues the handshake of the
    /// previous one.
    pub(crate) anew: bool,
    pub(crate) record: Record,
    pub(crate) trace: Trace,
    /// The final state of its session.
    pub(crate) last: Option<Engine>,
    /// Its process runs.
    is_open: bool,
    /// It waits for a token.
    pub(crate) is_authorizing: bool,
    /// Requests of its authorization that are in flight.
    requests: BTreeSet<OAuthExchangeId>,
    /// How many responses came too late.
    late_answers: u64,
}

impl Peer {
    pub(crate) fn new(name: String, site: Option<Site>, trace: Trace) -> Self {
        Self {
            name,
            site,
            connection: ConnectionId::default(),
            anew: true,
            record: Record::default(),
            trace,
            last: None,
            is_open: false,
            is_authorizing: false,
            requests: BTreeSet::new(),
            late_answers: 0,
        }
    }

    pub(crate) const fn is_web(&self) -> bool {
        self.site.is_some()
    }

    /// Takes an input of its session.
    pub(crate) fn input(&mut self, process: Option<u32>, closing: bool, input: &Input<'_>) {
        match input {
            Input::Transport(connection, _) | Input::Bytes(connection, _) if *connection != self.connection => {}
            Input::Bytes(_, bytes) => self.trace.bytes(bytes),
            Input::Transport(_, event) => self.transport(process, *event),
            Input::Http(exchange, piece) => {
                // If the server is unreachable, no connection was opened.
                if !matches!(piece, HttpPiece::Failure(Broken::Unreachable, _)) && !closing {
                    self.opened();
                }
                self.trace.piece(*exchange, piece);
            }
            Input::OAuth(OAuthInput::Head { status, .. }) => {
                self.trace.note(format!("authorization: HTTP {}", status.as_u16()));
            }
            Input::OAuth(OAuthInput::End { exchange } | OAuthInput::Failure { exchange, .. }) => {
                self.requests.remove(exchange);
            }
            Input::OAuth(_) | _ => {}
        }
    }

    fn transport(&mut self, process: Option<u32>, event: Transport<'_>) {
        match event {
            Transport::Opened => {
                self.record.starts = self.record.starts.saturating_add(u32::from(process.is_some()));
                let process = process.map(|id| format!(" {id}")).unwrap_or_default();
                self.trace.note(format!("process{process} started"));
                self.opened();
            }
            Transport::OpenFailed { why, .. } => self.trace.note(format!("not started: {why}")),
            Transport::Closed { why } => {
                self.is_open = false;
                self.trace.note(format!("process gone: {why}"));
                self.trace.reset();
            }
            Transport::SignOfLife | _ => {}
        }
    }

    /// Counts the openings of the session.
    fn opened(&mut self) {
        self.is_open = true;
        let anew = std::mem::take(&mut self.anew);
        self.record.connects = self.record.connects.saturating_add(u32::from(anew));
    }

    /// Takes an output of its session that is no event.
    pub(crate) fn output<E>(&mut self, now: Time, output: &Output<E>) {
        match output {
            Output::Open(_, connection) => {
                self.connection = *connection;
                self.record.opened.get_or_insert(now);
                self.trace.reset();
            }
            Output::Send(_, message) => drop(self.trace.sent(message.bytes())),
            Output::Shutdown(_, how) => self.trace.note(match how {
                ShutdownStep::CloseInput => "input closed",
                ShutdownStep::Terminate => "told to terminate",
                ShutdownStep::Kill | _ => "killed",
            }),
            Output::Request(_, request) => {
                self.record.opened.get_or_insert(now);
                self.trace.started(request);
            }
            Output::Drop(_, exchange) => self.trace.dropped(*exchange),
            Output::OAuth(_, action) => self.authorize(action),
            Output::Event(_) | _ => {}
        }
    }

    fn authorize(&mut self, action: &OAuthAction) {
        match action {
            OAuthAction::Request(it) => {
                if is_registration(&it.request) {
                    self.record.authorization.get_or_insert_default().registers();
                }
                let url = without_query(it.request.uri());
                self.trace.note(format!("authorization: {} {url}", it.request.method()));
                self.requests.insert(it.exchange);
            }
            OAuthAction::Drop(exchange) => drop(self.requests.remove(exchange)),
            // The run has the rest.
            OAuthAction::Browse(_)
            | OAuthAction::EndBrowse
            | OAuthAction::Store(_)
            | OAuthAction::Sign(_)
            | OAuthAction::Event(_)
            | _ => {}
        }
    }

    /// How many responses came too late since the last call.
    pub(crate) fn late_answers(&mut self, session: &Engine) -> u64 {
        let late = session.stats().late_answers;
        late.saturating_sub(std::mem::replace(&mut self.late_answers, late))
    }

    /// There is a token.
    pub(crate) fn authorized(&mut self, grant: Grant) {
        self.trace.note(format!("authorized: {}", grant.kind.as_str()));
        self.record.authorization.get_or_insert_default().granted(grant);
    }

    /// The server demands a token, and there is none. Returns what the user is told.
    pub(crate) fn unauthorized(&mut self, error: &OAuthError, oauth: Option<&OAuthSettings>) -> String {
        let step_up = error.stage == Stage::StepUp;
        let kind = if step_up { FailureKind::Forbidden } else { FailureKind::Unauthorized };
        let advice = advice(error.stage, oauth);
        let is_metadata = matches!(error.stage, Stage::ResourceMetadata | Stage::ServerMetadata);
        let steps = if is_metadata { "; `probe auth URL` shows each step" } else { "" };
        let message = format!("{error}. {advice}{steps}");
        let text = format!("failed: {kind}: {message}");
        self.record.failure = Some(FailureReport::new(kind.as_str(), message, Some(kind)));
        self.is_authorizing = false;
        text
    }

    /// What the run waits for at this server, for people.
    pub(crate) fn waiting(&self, closing: bool) -> String {
        let waiting = match (closing, self.is_web()) {
            (true, true) => "the server to end the session",
            (true, false) => "the process to end",
            (false, _) if self.is_authorizing && !self.requests.is_empty() => "the authorization server",
            (false, _) if self.is_authorizing => "the user to authorize",
            (false, false) if !self.is_open => "the process to start",
            (false, _) => match self.trace.waiting() {
                Some(waiting) => return waiting,
                None if self.record.ready => "the end of the watch",
                None => "the server",
            },
        };
        waiting.into()
    }

    /// The time of the run is up, and this server is not done.
    pub(crate) fn fail_late(&mut self, now: Time) -> &FailureReport {
        let message = format!("not done after {:.1?}: waited for {}", now.since(Time::ZERO), self.waiting(false));
        let kind = if self.is_authorizing { FailureKind::Unauthorized } else { FailureKind::HandshakeTimeout };
        let of = (!self.record.ready).then_some(kind);
        self.record.failure.get_or_insert(FailureReport::new("timeout", message, of))
    }
}
