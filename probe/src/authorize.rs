//! The authorizations of a run: carries out what they require, and records what comes of it.

use mcp_proto::binding::oauth::{OAuthAction, OAuthError, OAuthEvent, OAuthExchangeId, OAuthInput, Stage};
use mcp_proto::host::config::Endpoint;

use crate::advice;
use crate::exchanges::Piece;
use crate::io::Io;
use crate::record::FailureReport;
use crate::run_state::Run;

/// The input of a piece of an exchange.
pub(crate) fn input_of(exchange: OAuthExchangeId, piece: &Piece) -> OAuthInput<'_> {
    match piece {
        Piece::Head(status, headers) => OAuthInput::Head { exchange, status: *status, headers },
        Piece::Body(chunk) => OAuthInput::Body { exchange, chunk },
        Piece::End => OAuthInput::End { exchange },
        Piece::Failure(_, why) => OAuthInput::Failure { exchange, why },
    }
}

impl Run<'_> {
    /// Carries out an action of the authorization of a server.
    pub(crate) fn authorize(&mut self, io: &Io, at: usize, action: OAuthAction) {
        let server = self.server_url(at);
        let (Some(access), Some(peer)) = (&mut self.access, self.peers.get_mut(at)) else { return };
        match action {
            OAuthAction::Request(request) => {
                let _context = io.enter();
                peer.request_oauth(request);
            }
            OAuthAction::Drop(exchange) => peer.drop_oauth(exchange),
            OAuthAction::Browse(url) => access.browse(at, &url),
            OAuthAction::Unbrowse => access.end_browsing(at),
            OAuthAction::Store(action) => access.store(at, &server, action),
            OAuthAction::Event(event) => self.authorization_event(at, event),
            // The probe has no keys.
            OAuthAction::Sign(_) | _ => {}
        }
    }

    /// The URL of a server, under which its credentials are kept.
    fn server_url(&self, at: usize) -> String {
        let only = self.access.as_ref().and_then(|access| access.url.clone());
        let entry = self.engine.entry(at).map(|entry| &entry.endpoint);
        match (only, entry) {
            (None, Some(Endpoint::Http(http))) => http.url.to_string(),
            (only, _) => only.unwrap_or_default(),
        }
    }

    /// Reports a revocation that failed.
    pub(crate) fn note_revocation(&self, piece: &Piece) {
        if !self.is_signing_out {
            return;
        }
        let why = match piece {
            Piece::Head(status, _) if !status.is_success() => format!("HTTP {}", status.as_u16()),
            Piece::Failure(_, why) => why.clone(),
            Piece::Head(..) | Piece::Body(_) | Piece::End => return,
        };
        crate::output::write_stderr(&format!(
            "probe: --sign-out: a token was not revoked, and may still be valid: {why}\n"
        ));
    }

    fn authorization_event(&mut self, at: usize, event: OAuthEvent) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        match event {
            OAuthEvent::Authorized(grant) => {
                peer.trace.note(format!("authorized: {}", grant.kind.as_str()));
                peer.record.authorization.get_or_insert_default().granted(grant);
            }
            // A sign-out is no failure of the run.
            OAuthEvent::Failed(_) if self.is_signing_out => {}
            OAuthEvent::Failed(error) => {
                peer.trace.note(error.to_string());
                peer.record.authorization.get_or_insert_default().failed(&error);
                // Closing ends it, too.
                if !peer.record.ready && self.closing.is_none() {
                    self.unauthorized(at, &error);
                }
            }
            OAuthEvent::RecordUnreadable => {
                crate::output::write_stderr("probe: --tokens: the file cannot be read, and is replaced\n");
            }
            OAuthEvent::NotStored => {
                crate::output::write_stderr(
                    "probe: --tokens: the credentials were not stored, and end with this run\n",
                );
            }
            _ => {}
        }
    }

    /// A server that demands a token has none.
    fn unauthorized(&mut self, at: usize, error: &OAuthError) {
        let is_hub = self.is_hub();
        let Some(peer) = self.peers.get_mut(at) else { return };
        let kind = if error.stage == Stage::StepUp { "forbidden" } else { "unauthorized" };
        let message = format!("{error}. {}", advice::authorization(error.stage));
        let text = format!("failed: {kind}: {message}");
        peer.record.failure = Some(FailureReport { kind: kind.into(), message });
        peer.is_authorizing = false;
        if is_hub {
            self.announce(at, &text);
            self.proceed();
        } else {
            self.close();
        }
    }
}
