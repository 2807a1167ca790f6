//! Exchanges whose proofs of possession are signed before they are sent.

use super::action::ExchangeId;
use super::exchange::{ExchangeKind, Reply};
use super::parts::Http;
use crate::client::Engine;
use crate::machine::http_end::End;

impl Http {
    /// Exchanges whose proofs were signed are sent; those whose proofs were not are over.
    pub(super) fn send_signed(&mut self, engine: &mut Engine) {
        while let Some((id, is_signed)) = self.tokens.next_signed() {
            if self.exchanges.get(id).is_none_or(|it| !matches!(it.reply, Reply::Unsent)) {
                self.tokens.forget(id);
            } else if is_signed {
                self.outbox.request(id);
            } else if let Some(it) = self.take(id) {
                let why = "the proof of possession was not signed";
                match it.purpose.request() {
                    Some(request) => engine.handle_unproved(engine.now(), request, why),
                    None => self.end(engine, it, End::Unreached, Some(why)),
                }
            }
        }
    }

    /// Sends an exchange, or has its proof signed first.
    pub(super) fn prove(&mut self, id: ExchangeId) -> bool {
        let Some(it) = self.exchanges.get(id) else { return false };
        let method = match &it.purpose {
            ExchangeKind::Message(_) => "POST",
            ExchangeKind::Stream | ExchangeKind::Resume(..) | ExchangeKind::Sse => "GET",
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => "DELETE",
        };
        let is_endpoint = matches!(it.purpose, ExchangeKind::Message(_)) && self.sse.endpoint().is_some();
        self.tokens.prepare(id, method, &it.url, is_endpoint)
    }
}
