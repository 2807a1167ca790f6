//! Exchanges: requests and their responses, the exchanges in flight, the messages that wait for one, and the timers.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use http::HeaderValue;

use super::connection::Former;
use super::refusal::Refusal;
use super::response::{Events, Kind};
use super::tokens::Sent;
use crate::Time;
use crate::binding::address::Address;
use crate::client::{ExchangeId, Limits, Outgoing, StartId};
use crate::collections::{Series, trim};
use crate::machine::http_response::Received;

/// The purpose of an exchange.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum ExchangeKind {
    /// The POST of a message.
    Message(Outgoing),
    /// The GET of the GET stream.
    Stream,
    /// The GET that resumes the stream of a request.
    Resume(u64, Box<ResumePoint>),
    /// The GET of the HTTP+SSE stream.
    Sse,
    /// The DELETE of the previous session; then this request is sent again.
    DeleteFormer(u64, Box<Former>),
    /// The DELETE of the session.
    Delete(#[cfg_attr(feature = "snapshot", serde(with = "super::snapshot::header"))] HeaderValue),
}

/// Where the stream of a request broke.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct ResumePoint {
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    pub(super) last_id: Vec<u8>,
    /// The `retry` time of the server.
    pub(super) retry: Option<Duration>,
    /// The last wait after a refusal of the GET for now.
    pub(super) waited: Duration,
    /// Streams in a row that brought nothing.
    pub(super) barren: u32,
}

/// What a request waits for without an exchange.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Paused {
    /// Its stream is resumed.
    Resume(Box<ResumePoint>),
    /// It is sent again, after this wait.
    Resend(Duration),
    /// It did not reach the server, and is tried again.
    Unreached,
}

/// A request and its response.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Exchange {
    pub(super) purpose: ExchangeKind,
    pub(super) url: Address,
    pub(super) redirects: u8,
    /// The last wait after a refusal of the message for now.
    pub(super) waited: Duration,
    /// The status of the response; 0 until it begins.
    pub(super) status: u16,
    pub(super) reply: Reply,
    /// The credentials that it was sent with.
    #[cfg_attr(feature = "snapshot", serde(skip))]
    pub(super) sent: Sent,
    /// When the exchange is dropped, if it does not end by itself.
    pub(super) release: Option<Timer>,
}

/// What happened to a message before this exchange.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past {
    pub(super) redirects: u8,
    /// The last wait after a refusal for now.
    pub(super) waited: Duration,
    /// How often it was refused for lack of authorization.
    pub(super) refused: u8,
    /// Its timeout, which runs since it waited for an exchange.
    pub(super) timer: Option<Timer>,
}

/// The part of the response that was received.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Reply {
    /// Nothing.
    Nothing,
    /// A success status; whether JSON or a stream follows is not known yet.
    Begun(Option<Kind>),
    /// JSON.
    Json(#[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))] Vec<u8>),
    /// A stream of events.
    Events(Box<Events>),
    /// An error status.
    Refusal(Box<Refusal>),
    /// Nothing relevant.
    Ignored,
}

impl Exchange {
    /// One that begins when it is polled.
    pub(super) fn new(purpose: ExchangeKind, url: Address, past: Past) -> Self {
        let Past { redirects, waited, refused, timer } = past;
        Self {
            purpose,
            url,
            redirects,
            waited,
            status: 0,
            reply: Reply::Nothing,
            sent: Sent::after(refused),
            release: timer,
        }
    }
}

impl ExchangeKind {
    /// The message that it posts.
    pub(super) const fn message(&self) -> Option<&Outgoing> {
        if let Self::Message(message) = self { Some(message) } else { None }
    }

    /// The request, by its JSON-RPC id, whose response is in the exchange.
    pub(super) fn request(&self) -> Option<u64> {
        match self {
            Self::Message(message) => message.id(),
            Self::Resume(id, _) => Some(*id),
            Self::Stream | Self::Sse | Self::DeleteFormer(..) | Self::Delete(_) => None,
        }
    }

    /// The message that it posts, if that is a notification or a response.
    pub(super) fn one_way(&self) -> Option<&Outgoing> {
        self.message().filter(|message| message.id().is_none())
    }
}

impl Reply {
    /// Buffered bytes.
    pub(super) fn buffered(&self) -> usize {
        match self {
            Self::Json(body) => body.len(),
            Self::Events(events) => events.decoder.buffered(),
            Self::Refusal(refusal) => refusal.body.len(),
            Self::Nothing | Self::Begun(_) | Self::Ignored => 0,
        }
    }

    /// What was received, at the end of the exchange.
    pub(super) fn received(&self) -> Received {
        match self {
            Self::Nothing => Received::Nothing,
            Self::Begun(Some(Kind::Events)) => Received::EmptyStream,
            Self::Begun(Some(Kind::Json) | None) => Received::Empty,
            Self::Json(_) => Received::Json,
            Self::Events(events) if events.sure => Received::Events,
            Self::Events(_) => Received::NoEvents,
            Self::Refusal(refusal) => refusal.received(),
            Self::Ignored => Received::Ignored,
        }
    }
}

/// What carries a request that waits for its response.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Carrier {
    /// An exchange that begins when it is polled.
    Start(StartId),
    /// An exchange.
    Exchange(ExchangeId),
    /// A timer: there is no exchange until it fires.
    Timer(Timer, Paused),
}

/// The exchanges that begin when they are polled, by numbers, and those in flight, by their ids.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Exchanges {
    starts: Series<Box<Exchange>>,
    last_start: u64,
    in_flight: Series<Box<Exchange>>,
    /// By the JSON-RPC ids of their requests.
    carriers: Series<Carrier>,
    /// Bytes of buffered responses.
    buffered: usize,
    last: u64,
}

impl Exchanges {
    /// Adds an exchange that begins when it is polled. Returns its number.
    pub(super) fn add(&mut self, exchange: Exchange) -> StartId {
        self.last_start = self.last_start.saturating_add(1);
        let number = StartId(self.last_start);
        if let Some(request) = exchange.purpose.request() {
            self.carry(request, Carrier::Start(number));
        }
        self.starts.insert(self.last_start, Box::new(exchange));
        number
    }

    pub(super) fn start(&self, number: StartId) -> Option<&Exchange> {
        self.starts.get(number.0).map(|exchange| &**exchange)
    }

    /// What begins when it is polled, in order.
    pub(super) fn starts(&self) -> impl Iterator<Item = (StartId, &Exchange)> {
        self.starts.iter().map(|(number, exchange)| (StartId(number), &**exchange))
    }

    /// An exchange does not begin.
    pub(super) fn withdraw(&mut self, number: StartId) -> Option<Box<Exchange>> {
        let exchange = self.starts.remove(number.0)?;
        if let Some(request) = exchange.purpose.request() {
            self.carriers.remove(request);
        }
        Some(exchange)
    }

    /// The request of an exchange is polled.
    pub(super) fn begin(&mut self, number: StartId) -> Option<(ExchangeId, &mut Exchange)> {
        let exchange = self.starts.remove(number.0)?;
        self.last = self.last.saturating_add(1);
        let id = ExchangeId::from_u64(self.last);
        if let Some(request) = exchange.purpose.request() {
            self.carry(request, Carrier::Exchange(id));
        }
        self.in_flight.insert(id.as_u64(), exchange);
        self.get_mut(id).map(|exchange| (id, exchange))
    }

    /// Removes an exchange, which then no longer carries its request.
    pub(super) fn remove(&mut self, id: ExchangeId) -> Option<Box<Exchange>> {
        let exchange = self.in_flight.remove(id.as_u64())?;
        self.buffered = self.buffered.saturating_sub(exchange.reply.buffered());
        if let Some(request) = exchange.purpose.request() {
            self.carriers.remove(request);
        }
        Some(exchange)
    }

    pub(super) fn get(&self, id: ExchangeId) -> Option<&Exchange> {
        self.in_flight.get(id.as_u64()).map(|exchange| &**exchange)
    }

    /// The size of the response must not change, except by [`Self::grown`].
    pub(super) fn get_mut(&mut self, id: ExchangeId) -> Option<&mut Exchange> {
        self.in_flight.get_mut(id.as_u64()).map(|exchange| &mut **exchange)
    }

    #[cfg(feature = "snapshot")]
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Exchange> {
        self.starts.values_mut().chain(self.in_flight.values_mut()).map(|exchange| &mut **exchange)
    }

    /// Whether each exchange is what carries its request, and no id or number is beyond the newest one.
    #[cfg(feature = "snapshot")]
    pub(super) fn is_consistent(&self) -> bool {
        let all = self.starts.iter().chain(self.in_flight.iter());
        let requests = all.filter(|(_, it)| it.purpose.request().is_some()).count();
        let carriers = self.carriers.iter().filter(|(_, it)| !matches!(it, Carrier::Timer(..))).count();
        let carried = self.carriers.iter().all(|(request, carrier)| match carrier {
            Carrier::Start(number) => self.start(*number).is_some_and(|it| it.purpose.request() == Some(request)),
            Carrier::Exchange(id) => self.get(*id).is_some_and(|it| it.purpose.request() == Some(request)),
            Carrier::Timer(..) => true,
        });
        carried
            && requests == carriers
            && self.starts.iter().next_back().is_none_or(|(number, _)| number <= self.last_start)
            && self.in_flight.iter().next_back().is_none_or(|(id, _)| id <= self.last)
    }

    /// The buffered bytes of an exchange changed from `before` to `after`.
    pub(super) fn grown(&mut self, before: usize, after: usize) {
        self.buffered = self.buffered.saturating_sub(before).saturating_add(after);
    }

    pub(super) const fn buffered(&self) -> usize {
        self.buffered
    }

    /// Changes an exchange, and counts what it buffers then. One that has ended stays so.
    pub(super) fn update(&mut self, id: ExchangeId, change: impl FnOnce(&mut Exchange)) {
        if let Some(exchange) = self.in_flight.get_mut(id.as_u64()) {
            let before = exchange.reply.buffered();
            change(exchange);
            self.buffered = self.buffered.saturating_sub(before).saturating_add(exchange.reply.buffered());
        }
    }

    /// The first exchange in flight that is for this.
    pub(super) fn find(&self, is_it: impl Fn(&ExchangeKind) -> bool) -> Option<ExchangeId> {
        self.iter().find(|(_, exchange)| is_it(&exchange.purpose)).map(|(id, _)| id)
    }

    /// The exchanges in flight, in the order in which they began.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ExchangeId, &Exchange)> {
        self.in_flight.iter().map(|(id, exchange)| (ExchangeId::from_u64(id), &**exchange))
    }

    /// The requests that an exchange or a timer carries.
    pub(super) fn carried(&self) -> impl Iterator<Item = u64> {
        self.carriers.iter().map(|(request, _)| request)
    }

    pub(super) fn carrier(&self, request: u64) -> Option<&Carrier> {
        self.carriers.get(request)
    }

    fn carry(&mut self, request: u64, carrier: Carrier) {
        self.carriers.insert(request, carrier);
    }

    /// A request waits for a timer.
    pub(super) fn pause(&mut self, request: u64, timer: Timer, paused: Paused) {
        self.carry(request, Carrier::Timer(timer, paused));
    }

    /// The wait of a request is over; returns what for.
    pub(super) fn resume(&mut self, request: u64) -> Option<Paused> {
        match self.forget(request)? {
            Carrier::Timer(_, paused) => Some(paused),
            Carrier::Start(_) | Carrier::Exchange(_) => None,
        }
    }

    /// Takes the requests that never reached the server.
    pub(super) fn take_unreached(&mut self) -> Vec<u64> {
        let waits = |carrier: &Carrier| matches!(carrier, Carrier::Timer(_, Paused::Unreached));
        let unreached: Vec<_> = self.carriers.iter().filter(|(_, it)| waits(it)).map(|(id, _)| id).collect();
        for id in &unreached {
            self.carriers.remove(*id);
        }
        unreached
    }

    /// Whether a request waits for its time, to begin, or for the beginning of its response.
    pub(super) fn has_attempt(&self) -> bool {
        self.carriers.iter().any(|(_, carrier)| match carrier {
            Carrier::Exchange(id) => self.get(*id).is_some_and(|it| it.status == 0),
            Carrier::Start(_) | Carrier::Timer(..) => true,
        })
    }

    /// No request waits for a timer any more.
    pub(super) fn forget_paused(&mut self) {
        self.carriers.retain(|carrier| !matches!(carrier, Carrier::Timer(..)));
    }

    /// Nothing carries a request any more.
    pub(super) fn forget(&mut self, request: u64) -> Option<Carrier> {
        self.carriers.remove(request)
    }
}

/// The messages of the engine that are not in an exchange yet.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Queue {
    /// They wait until `notifications/initialized` is accepted.
    held: VecDeque<Outgoing>,
    /// Notifications among these, and their bytes.
    held_notifications: usize,
    held_bytes: usize,
    /// Queued notifications and responses, each with its timeout.
    waiting: VecDeque<(Timer, Outgoing)>,
    /// Bytes of these.
    waiting_bytes: usize,
    /// Notifications and responses that are in an exchange, and their bytes.
    in_exchange: usize,
    in_exchange_bytes: usize,
}

impl Queue {
    pub(super) fn hold(&mut self, message: Outgoing) {
        if message.id().is_none() {
            self.held_notifications = self.held_notifications.saturating_add(1);
            self.held_bytes = self.held_bytes.saturating_add(message.line().len());
        }
        self.held.push_back(message);
    }

    /// The held messages, if there are any.
    pub(super) fn take_held(&mut self) -> Option<VecDeque<Outgoing>> {
        if self.held.is_empty() {
            return None;
        }
        (self.held_notifications, self.held_bytes) = (0, 0);
        Some(core::mem::take(&mut self.held))
    }

    /// Removes a held request.
    pub(super) fn retract(&mut self, id: u64) {
        self.held.retain(|message| message.id() != Some(id));
        release(&mut self.held);
    }

    pub(super) fn wait(&mut self, timer: Timer, message: Outgoing) {
        self.waiting_bytes = self.waiting_bytes.saturating_add(message.line().len());
        self.waiting.push_back((timer, message));
    }

    /// Takes the oldest queued message, if its timer is such a one.
    pub(super) fn next_waiting(&mut self, is_it: impl FnOnce(Timer) -> bool) -> Option<(Timer, Outgoing)> {
        self.waiting.front().filter(|(timer, _)| is_it(*timer))?;
        let (timer, message) = self.waiting.pop_front()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(message.line().len());
        trim(&mut self.waiting);
        release(&mut self.waiting);
        Some((timer, message))
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether as many messages wait as may.
    pub(super) fn is_full(&self, limits: &Limits) -> bool {
        self.waiting.len() >= limits.output || self.waiting_bytes >= limits.output_bytes
    }

    /// Drops all messages except the queued ones to `keep`. Returns the timers of the others.
    pub(super) fn clear(&mut self, keep: impl Fn(&Outgoing) -> bool) -> impl Iterator<Item = Timer> {
        drop(self.take_held());
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) =
            core::mem::take(&mut self.waiting).into_iter().partition(|(_, message)| keep(message));
        self.waiting = kept;
        self.waiting_bytes = self.waiting.iter().map(|(_, message)| message.line().len()).sum();
        dropped.into_iter().map(|(timer, _)| timer)
    }

    /// Gives each queued message a new timer with the same time.
    pub(super) fn rearm(&mut self, mut arm: impl FnMut(Time) -> Timer) {
        for ((due, number), _) in &mut self.waiting {
            (*due, *number) = arm(*due);
        }
    }

    /// Whether the byte count matches the messages.
    #[cfg(feature = "snapshot")]
    pub(super) fn is_counted(&self) -> bool {
        let lengths = self.held.iter().filter(|message| message.id().is_none()).map(|message| message.line().len());
        self.waiting.iter().map(|(_, message)| message.line().len()).sum::<usize>() == self.waiting_bytes
            && (lengths.clone().count(), lengths.sum()) == (self.held_notifications, self.held_bytes)
    }

    /// A notification or a response enters an exchange.
    pub(super) fn enter(&mut self, message: &Outgoing) {
        self.in_exchange = self.in_exchange.saturating_add(1);
        self.in_exchange_bytes = self.in_exchange_bytes.saturating_add(message.line().len());
    }

    /// The exchange of a notification or a response has ended.
    pub(super) fn leave(&mut self, message: &Outgoing) {
        self.in_exchange = self.in_exchange.saturating_sub(1);
        self.in_exchange_bytes = self.in_exchange_bytes.saturating_sub(message.line().len());
    }

    pub(super) const fn in_exchange(&self) -> usize {
        self.in_exchange
    }

    /// Notifications and responses that are not delivered yet, and their bytes.
    pub(super) fn undelivered(&self) -> (usize, usize) {
        let count = self.in_exchange.saturating_add(self.waiting.len()).saturating_add(self.held_notifications);
        (count, self.in_exchange_bytes.saturating_add(self.waiting_bytes).saturating_add(self.held_bytes))
    }
}

/// The effect of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Due {
    /// Continue a request that waits without an exchange, by its id on the wire.
    Continue(u64),
    /// Send `notifications/initialized` again.
    SendInitialized,
    /// Request the GET stream again.
    GetStream,
    /// Stop the wait for the GET stream.
    StreamLate,
    /// The attempts of an outage are not refused any more.
    Settled,
    /// Withdraw a message that waited for an exchange, and was not polled.
    Withdraw(StartId),
    /// Drop an exchange that is not needed.
    Release(ExchangeId),
    /// Drop the oldest message that waits for an exchange.
    GiveUp,
}

/// A timer: its time, and a number that distinguishes timers of the same time.
pub(super) type Timer = (Time, u64);

/// The timers of a connection.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Timers {
    /// Ordered by time. Most streamed calls use one, so the memory of a few is kept.
    due: VecDeque<(Timer, Due)>,
    last: u64,
}

impl Timers {
    pub(super) fn arm(&mut self, at: Time, due: Due) -> Timer {
        self.last = self.last.saturating_add(1);
        let timer = (at, self.last);
        let place = self.due.partition_point(|(other, _)| *other < timer);
        self.due.insert(place, (timer, due));
        timer
    }

    /// Changes the effect of a timer, not its time.
    pub(super) fn set(&mut self, timer: Timer, due: Due) {
        if let Some((_, known)) = self.find(timer).and_then(|place| self.due.get_mut(place)) {
            *known = due;
        }
    }

    pub(super) fn disarm(&mut self, timer: Option<Timer>) {
        if let Some(place) = timer.and_then(|timer| self.find(timer)) {
            self.due.remove(place);
            trim(&mut self.due);
        }
    }

    fn find(&self, timer: Timer) -> Option<usize> {
        self.due.binary_search_by_key(&timer, |(timer, _)| *timer).ok()
    }

    /// Whether the timers are ordered.
    #[cfg(feature = "snapshot")]
    pub(super) fn is_sorted(&self) -> bool {
        self.due.iter().is_sorted_by(|(one, _), (next, _)| one < next)
    }

    pub(super) fn clear(&mut self) {
        self.due = VecDeque::new();
    }

    /// The time of the next timer.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.front().map(|((at, _), _)| *at)
    }

    /// The newest timer so far.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Takes the next due timer up to `last`: at the end of time, a new one is due at once.
    pub(super) fn take(&mut self, now: Time, last: u64) -> Option<(Timer, Due)> {
        let due = self.due.iter().take_while(|((at, _), _)| *at <= now);
        let place = due.into_iter().position(|((_, number), _)| *number <= last)?;
        let due = self.due.remove(place);
        trim(&mut self.due);
        due
    }
}

/// Releases the memory of a rarely used queue when it is empty.
pub(super) fn release<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() {
        *queue = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_exchange_buffers_counts_while_it_is_there() {
        let mut exchanges = Exchanges::default();
        let number = exchanges.add(Exchange::new(ExchangeKind::Stream, Address::default(), Past::default()));
        let id = exchanges.begin(number).unwrap().0;
        let keep = |it: &mut Exchange| it.reply = Reply::Json(b"[1, 2]".to_vec());
        exchanges.update(id, keep);
        assert_eq!(exchanges.buffered(), 6);
        exchanges.remove(id).unwrap();
        exchanges.update(id, keep);
        assert_eq!(exchanges.buffered(), 0);
    }
}
