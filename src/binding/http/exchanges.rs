//! The exchanges that are under way, and what they hold together.

use alloc::collections::BTreeMap;

use super::exchange::Exchange;
use crate::Time;

/// The exchanges by their ids, with sums over all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchanges {
    under_way: BTreeMap<u64, Exchange>,
    buffered: usize,
    one_way: usize,
    one_way_bytes: usize,
}

impl Exchanges {
    pub(super) fn insert(&mut self, id: u64, exchange: Exchange) {
        self.buffered = self.buffered.saturating_add(exchange.reply.buffered());
        if let Some(message) = exchange.purpose.one_way() {
            self.one_way = self.one_way.saturating_add(1);
            self.one_way_bytes = self.one_way_bytes.saturating_add(message.line().len());
        }
        self.under_way.insert(id, exchange);
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Exchange> {
        let exchange = self.under_way.remove(&id)?;
        self.buffered = self.buffered.saturating_sub(exchange.reply.buffered());
        if let Some(message) = exchange.purpose.one_way() {
            self.one_way = self.one_way.saturating_sub(1);
            self.one_way_bytes = self.one_way_bytes.saturating_sub(message.line().len());
        }
        Some(exchange)
    }

    pub(super) fn take(&mut self) -> BTreeMap<u64, Exchange> {
        core::mem::take(self).under_way
    }

    pub(super) fn get(&self, id: u64) -> Option<&Exchange> {
        self.under_way.get(&id)
    }

    /// Notes when an exchange is to be let go.
    pub(super) fn set_let_go(&mut self, id: u64, due: (Time, u64)) {
        if let Some(exchange) = self.under_way.get_mut(&id) {
            exchange.let_go = Some(due);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Exchange)> {
        self.under_way.iter().map(|(id, exchange)| (*id, exchange))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Exchange> {
        self.under_way.values()
    }

    /// Bytes of answers that are kept until they are whole.
    pub(super) const fn buffered(&self) -> usize {
        self.buffered
    }

    /// How many carry a message that has no answer of its own, and the bytes of those messages.
    pub(super) const fn one_way(&self) -> (usize, usize) {
        (self.one_way, self.one_way_bytes)
    }
}
