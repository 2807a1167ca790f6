//! What the parts share.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use zeroize::Zeroizing;

use super::action::OAuthError;
use super::action::{
    OAuthAction, OAuthEvent, OAuthExchangeId, OAuthRequest, SignId, SignKey, SignRequest, StoreAction, StoreId,
};
use super::options::OAuthOptions;
use super::place::{Place, Zone};
use super::proof::{Nonces, nonce_in};
use super::secret::Entropy;
use crate::Time;
use crate::binding::coding::{ACCEPTED, coding_of, encoded_detail};

#[derive(Clone, Debug)]
pub(super) struct Core {
    pub(super) options: OAuthOptions,
    /// Where the MCP server is.
    pub(super) server: Place,
    pub(super) zone: Zone,
    pub(super) entropy: Entropy,
    pub(super) now: Time,
    pub(super) clock: WallClock,
    pub(super) nonces: Nonces,
    /// Several authorizations share the browser.
    pub(super) is_browser_shared: bool,
    /// The authorization server that the server named when a configured client without an issuer was first used.
    pub(super) first_issuer: Option<Box<str>>,
    /// What requests that wait are told.
    pub(super) verdict: Option<Result<(), OAuthError>>,
    pub(super) outbox: VecDeque<OAuthAction>,
    last_id: u64,
}

/// The wall clock, as the embedder reported it last.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct WallClock {
    at: Time,
    /// The time since the Unix epoch then.
    unix: Duration,
}

impl WallClock {
    pub(crate) const fn new(at: Time, unix: Duration) -> Self {
        Self { at, unix }
    }

    /// The time since the Unix epoch.
    pub(crate) fn unix(self, now: Time) -> Duration {
        self.unix.saturating_add(now.since(self.at)).saturating_sub(self.at.since(now))
    }

    /// The time of a number of seconds since the Unix epoch.
    pub(super) fn time_of(self, unix: u64) -> Time {
        let unix = Duration::from_secs(unix);
        let since = self.at.since(Time::ZERO).saturating_sub(self.unix.saturating_sub(unix));
        Time::from_epoch(since.saturating_add(unix.saturating_sub(self.unix)))
    }
}

/// A request that runs, and its response so far.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) id: OAuthExchangeId,
    pub(super) deadline: Time,
    pub(super) status: Option<StatusCode>,
    pub(super) location: Option<Vec<u8>>,
    /// The nonce for proofs of possession.
    pub(super) nonce: Option<Box<str>>,
    /// The coding that the body is said to have.
    coding: Option<Box<str>>,
    pub(super) body: Zeroizing<Vec<u8>>,
}

impl Core {
    pub(super) fn new(options: OAuthOptions, server: Place, entropy: Entropy, clock: WallClock) -> Self {
        let zone = match server.zone() {
            Zone::Public if options.private_network => Zone::Private,
            zone @ (Zone::Public | Zone::Private | Zone::Loopback) => zone,
        };
        Self {
            options,
            server,
            zone,
            entropy,
            now: clock.at,
            clock,
            nonces: Nonces::default(),
            is_browser_shared: false,
            first_issuer: None,
            verdict: None,
            outbox: VecDeque::new(),
            last_id: 0,
        }
    }

    /// Seconds since the Unix epoch.
    pub(super) fn unix(&self) -> u64 {
        self.clock.unix(self.now).as_secs()
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    /// Adds an event. Of events that follow each other the last one of each kind stays, so that refusals that are not
    /// polled do not add up.
    pub(super) fn event(&mut self, event: OAuthEvent) {
        match &event {
            OAuthEvent::Authorized(_) => self.verdict = Some(Ok(())),
            OAuthEvent::Failed(error) => self.verdict = Some(Err(error.clone())),
            OAuthEvent::ChallengeIgnored(_)
            | OAuthEvent::RecordUnreadable
            | OAuthEvent::NotStored
            | OAuthEvent::NotRevoked(_) => {}
        }
        self.outbox.push_back(OAuthAction::Event(event));
        self.merge_events(self.outbox.len());
    }

    /// Merges the events before and from this place on.
    fn merge_events(&mut self, place: usize) {
        let before = self.outbox.iter().take(place).rev().take_while(|action| is_event(action)).count();
        let after = self.outbox.iter().skip(place).take_while(|action| is_event(action)).count();
        let mut known = Vec::new();
        for at in (place.saturating_sub(before)..place.saturating_add(after)).rev() {
            let Some(OAuthAction::Event(event)) = self.outbox.get(at) else { continue };
            let kind = core::mem::discriminant(event);
            if !known.contains(&kind) {
                known.push(kind);
            } else if !matches!(event, OAuthEvent::NotRevoked(_)) {
                self.outbox.remove(at);
            }
        }
    }

    pub(super) fn store(&mut self, action: impl FnOnce(StoreId) -> StoreAction) -> StoreId {
        let id = StoreId(self.next_id());
        self.outbox.push_back(OAuthAction::Store(action(id)));
        id
    }

    /// Asks the store for this, unless an action that was not polled does, and none of an `opposite` kind follows it.
    fn store_once(&mut self, action: StoreAction, is_opposite: fn(&StoreAction) -> bool) {
        let is_same = |it: &StoreAction| core::mem::discriminant(it) == core::mem::discriminant(&action);
        let last = self.outbox.iter().rev().find_map(|it| {
            let OAuthAction::Store(it) = it else { return None };
            (is_same(it) || is_opposite(it)).then(|| is_same(it))
        });
        if last != Some(true) {
            self.store(|_| action);
        }
    }

    /// Removes the record.
    pub(super) fn remove_record(&mut self) {
        self.store_once(StoreAction::Remove, |it| matches!(it, StoreAction::Save { .. }));
    }

    /// Releases the lock of the store.
    pub(super) fn release_lock(&mut self) {
        self.store_once(StoreAction::Release, |it| matches!(it, StoreAction::Acquire(_)));
    }

    /// Withdraws what the store was asked for by actions that were not polled. A lock that is not asked for any more is not
    /// released either.
    pub(super) fn withdraw_store(&mut self) {
        let is_release = |action: &OAuthAction| matches!(action, OAuthAction::Store(StoreAction::Release));
        let is_acquire = |action: &OAuthAction| matches!(action, OAuthAction::Store(StoreAction::Acquire(_)));
        let is_load = |action: &OAuthAction| matches!(action, OAuthAction::Store(StoreAction::Load(_)));
        while let Some(at) = self.outbox.iter().position(|action| is_acquire(action) || is_load(action)) {
            let acquires = self.outbox.get(at).is_some_and(is_acquire);
            let release = self.outbox.iter().skip(at).position(is_release).filter(|_| acquires);
            for place in release.map(|after| at.saturating_add(after)).into_iter().chain([at]) {
                self.outbox.remove(place);
                self.merge_events(place);
            }
        }
    }

    pub(super) fn get(&mut self, place: &Place) -> Exchange {
        self.request(place, Method::GET, Zeroizing::default(), None)
    }

    /// Sends a request with a body of this kind, and with these headers besides.
    pub(super) fn post(
        &mut self,
        place: &Place,
        kind: &'static str,
        body: Zeroizing<Vec<u8>>,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
    ) -> Exchange {
        let kind = (CONTENT_TYPE, HeaderValue::from_static(kind));
        self.request(place, Method::POST, body, headers.into_iter().chain([kind]))
    }

    fn request(
        &mut self,
        place: &Place,
        method: Method,
        mut body: Zeroizing<Vec<u8>>,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
    ) -> Exchange {
        let mut request = http::Request::new(core::mem::take(&mut *body));
        *request.method_mut() = method;
        *request.uri_mut() = place.uri().clone();
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        request.headers_mut().insert(ACCEPT_ENCODING, ACCEPTED);
        request.headers_mut().extend(headers);
        let id = OAuthExchangeId(self.next_id());
        let reach = place.reach(&self.server, self.zone);
        self.outbox.push_back(OAuthAction::Request(OAuthRequest { exchange: id, reach, request }));
        let deadline = self.now + self.options.timeouts.request;
        let (coding, body) = (None, Zeroizing::default());
        Exchange { id, deadline, status: None, location: None, nonce: None, coding, body }
    }

    /// Signs, or has the embedder sign.
    pub(super) fn sign(&mut self, key: SignKey, algorithm: &str, input: &str) -> Signing {
        #[cfg(feature = "sign")]
        if let Some(signature) = self.options.signature(key, input) {
            return Signing::Done(signature);
        }
        let id = SignId(self.next_id());
        let request = SignRequest { id, key, algorithm: algorithm.into(), input: input.into() };
        self.outbox.push_back(OAuthAction::Sign(request));
        Signing::Asked(id)
    }

    /// A signature is not wanted any more. If the request for it was polled, the embedder may give it all the same.
    pub(super) fn withdraw_sign(&mut self, id: SignId) {
        self.outbox.retain(|action| !matches!(action, OAuthAction::Sign(request) if request.id == id));
    }

    /// Ends an exchange whose response is not read any more. One that was not polled is not run at all.
    pub(super) fn drop_exchange(&mut self, id: OAuthExchangeId) {
        let queued = self.outbox.iter().position(|action| match action {
            OAuthAction::Request(request) => request.exchange == id,
            OAuthAction::Drop(_)
            | OAuthAction::Browse(_)
            | OAuthAction::EndBrowse
            | OAuthAction::Store(_)
            | OAuthAction::Sign(_)
            | OAuthAction::Event(_) => false,
        });
        match queued {
            Some(at) => {
                self.outbox.remove(at);
                self.merge_events(at);
            }
            None => self.outbox.push_back(OAuthAction::Drop(id)),
        }
    }
}

const fn is_event(action: &OAuthAction) -> bool {
    matches!(action, OAuthAction::Event(_))
}

/// A signature, or the request for it.
#[derive(Debug)]
pub(super) enum Signing {
    #[cfg_attr(not(feature = "sign"), expect(dead_code, reason = "only keys in memory sign at once"))]
    Done(Vec<u8>),
    Asked(SignId),
}

/// What came of a part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// More may come.
    More,
    /// The response exceeds the limit.
    TooLong,
}

impl Exchange {
    pub(super) fn head(&mut self, status: StatusCode, headers: &http::HeaderMap) {
        self.status = Some(status);
        self.nonce = nonce_in(headers);
        self.coding = coding_of(headers).map(Into::into);
        self.location = headers.get(http::header::LOCATION).map(|location| location.as_bytes().to_vec());
    }

    /// Why a body cannot be read that has a coding. An HTTP client that decoded it may have left the header.
    pub(super) fn encoded(&self) -> Option<String> {
        self.coding.as_deref().map(encoded_detail)
    }

    pub(super) fn chunk(&mut self, chunk: &[u8], limit: usize) -> Read {
        if self.body.len().saturating_add(chunk.len()) > limit {
            return Read::TooLong;
        }
        self.body.extend_from_slice(chunk);
        Read::More
    }
}
