//! Revokes tokens that are given up (RFC 7009). Nothing waits for it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use zeroize::Zeroizing;

use super::Secret;
use super::action::OAuthExchangeId;
use super::core::{Core, Exchange};
use super::form::Form;
use super::place::Place;
use super::record::Record;
use crate::Time;

#[derive(Clone, Debug, Default)]
pub(super) struct Revocation {
    endpoint: Option<Place>,
    client_id: alloc::boxed::Box<str>,
    client_secret: Option<Secret>,
    waiting: VecDeque<(&'static str, Secret)>,
    exchange: Option<Exchange>,
}

impl Revocation {
    pub(super) fn begin(&mut self, core: &mut Core, record: Record) {
        let endpoint = record.revocation_endpoint.as_deref().and_then(Place::parse);
        let Some(endpoint) = endpoint.filter(|place| place.check(core.zone).is_ok()) else { return };
        if let Some(exchange) = self.exchange.take() {
            core.drop_exchange(exchange.id);
        }
        self.endpoint = Some(endpoint);
        (self.client_id, self.client_secret) = (record.client.id, record.client.secret);
        let refresh = record.refresh_token.map(|token| ("refresh_token", token));
        self.waiting = refresh.into_iter().chain([("access_token", record.access_token)]).collect();
        self.next(core);
    }

    fn next(&mut self, core: &mut Core) {
        let (Some(endpoint), Some((hint, token))) = (&self.endpoint, self.waiting.pop_front()) else {
            (self.endpoint, self.client_secret) = (None, None);
            return;
        };
        let mut form = Form::default();
        form.push("token", token.expose());
        form.push("token_type_hint", hint);
        form.push("client_id", &self.client_id);
        form.push_some("client_secret", self.client_secret.as_ref().map(Secret::expose));
        let body: Vec<u8> = form.text().as_bytes().to_vec();
        self.exchange = core.post(endpoint, "application/x-www-form-urlencoded", Zeroizing::new(body));
    }

    /// Whether this is the exchange of a revocation.
    pub(super) fn has(&self, id: OAuthExchangeId) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.id == id)
    }

    /// The exchange ended, in whatever way.
    pub(super) fn ended(&mut self, core: &mut Core) {
        self.exchange = None;
        self.next(core);
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.exchange.as_ref().map(|exchange| exchange.deadline)
    }

    pub(super) fn handle_timeout(&mut self, core: &mut Core) {
        if let Some(exchange) = self.exchange.take_if(|exchange| exchange.deadline <= core.now) {
            core.drop_exchange(exchange.id);
            self.next(core);
        }
    }
}
