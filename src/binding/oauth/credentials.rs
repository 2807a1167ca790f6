//! Component: the credentials of one server: their record, the store, and when a token is renewed or revoked.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::OnceLock;

use http::StatusCode;
use http::header::AUTHORIZATION;
use zeroize::Zeroizing;

use super::action::{
    GrantKind, OAuthError, OAuthEvent, OAuthExchangeId, RegistrationKind, SaveOutcome, SignId, SignKey, Stage,
    StoreAction, StoreId, StoredRecord, TokenId, excerpt,
};
use super::attempt::{End, Hint, Task};
use super::core::{Core, Exchange, Signing};
use super::options::{ClientAuth, Flow, RegisteredClient};
use super::place::Place;
use super::proof::signed;
use super::requests::{FORM, Form, assertion_of};
use super::{Grant, Secret};
use crate::Time;
use crate::binding::hider::Hider;
use crate::jsonrpc::{Json, Object};
use crate::machine::oauth_attempt::Goal;
use crate::machine::oauth_credentials::{self, Effect, Found, Input, Kept, Loaded, State, lock};

/// The longest wait after failed attempts.
const LONGEST_COOLDOWN: Duration = Duration::from_secs(600);

/// A token is renewed this long before it expires, or a tenth of its life if that is shorter, in seconds.
const MARGIN: u64 = 30;

/// After the first one, renewals of refused tokens that do not wait.
const AT_ONCE: u32 = 3;

/// Tokens that were used, which responses may still repeat.
const USED: usize = 8;

/// A token with a shorter life, in seconds, is used until the server refuses it.
const SHORTEST_LIFE: u64 = 10;

/// Nested brackets in what is read.
const DEPTH: usize = 32;

/// Bytes of a token.
pub(super) const LONGEST_TOKEN: usize = 64 << 10;

/// Bytes of all scopes together.
pub(super) const LONGEST_SCOPES: usize = 4 << 10;

/// The credentials for a server.
#[derive(Clone, Debug)]
pub(super) struct Credentials {
    pub(super) state: State,
    pub(super) record: Option<Record>,
    /// Where the record is.
    kept: Kept,
    /// The generation in the store when it was read or written last, 0 for no record; `None` before that.
    stored: Option<u64>,
    /// The lock of the store. Without a store the credentials last as long as the process.
    lock: Option<lock::State>,
    pub(super) access: Access,
    /// How it was obtained.
    pub(super) kind: GrantKind,
    /// Whether a request that bore it was answered with anything but 401, or another process obtained it.
    pub(super) is_accepted: bool,
    /// The tokens that requests had, the latest ones.
    used: VecDeque<Secret>,
    /// Hides these, and what the record has. It is made when it is required, once for the same secrets.
    hider: OnceLock<Box<Hider>>,
    /// The renewals of tokens that the server refused after it had accepted them: one cooldown for each, from its time on.
    paced: Time,
    /// A token that is not used any more: the server refused it, or it is about to expire.
    avoid: Option<Secret>,
    /// A refresh token that the authorization server refused, which the store may still have.
    refused_refresh: Option<Secret>,
    /// The authorization server does not know the client of the record any more, so that another one is registered, once.
    is_client_lost: bool,
    /// What the last challenge said.
    pub(super) hint: Hint,
    pub(super) need: Need,
    wait: Wait,
    /// The first request to the server waits for the record.
    pub(super) is_opening: bool,
    /// The record that was given up, whose tokens are to be revoked.
    leaving: Option<Box<Record>>,
    /// A new grant is wanted after the sign-out.
    is_postponed: bool,
    /// Failed attempts in a row, which prolong the wait.
    failures: u32,
    /// Why the last attempt failed.
    pub(super) why: Option<OAuthError>,
}

/// The access token that requests have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Missing,
    Usable(TokenId),
    /// The server refused it. Requests have it until another one comes, or none.
    Refused(TokenId),
}

/// Who needs the next token: it decides for which scopes a grant is requested, and whether a failure is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// No request: it is renewed before it expires, or the embedder requests it.
    Nobody,
    /// A refused request.
    Request,
    /// A refused request that requires further scopes.
    StepUp,
}

/// What the state waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Not for the store, and not for a time.
    Nothing,
    /// The answer that the store owes, until then.
    Store(StoreId, Answer, Time),
    /// The end of the cooldown after a failed attempt.
    Cooldown(Time),
}

/// The answer that the store owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Acquired,
    Loaded,
    Saved,
}

/// What the other parts are to do.
#[derive(Debug)]
pub(super) enum Signal {
    /// The table takes this next.
    Input(Input),
    Begin(Box<Task>),
    Stop,
    /// The tokens of this record are revoked.
    Revoke(Box<Record>),
}

impl Default for Credentials {
    fn default() -> Self {
        Self {
            state: State::Idle,
            record: None,
            kept: Kept::Stored,
            stored: None,
            lock: None,
            access: Access::Missing,
            kind: GrantKind::Stored,
            is_accepted: true,
            used: VecDeque::new(),
            hider: OnceLock::new(),
            paced: Time::ZERO,
            avoid: None,
            refused_refresh: None,
            is_client_lost: false,
            hint: Hint::default(),
            need: Need::Nobody,
            wait: Wait::Nothing,
            is_opening: false,
            leaving: None,
            is_postponed: false,
            failures: 0,
            why: None,
        }
    }
}

impl Access {
    pub(super) const fn token(self) -> Option<TokenId> {
        match self {
            Self::Missing => None,
            Self::Usable(token) | Self::Refused(token) => Some(token),
        }
    }

    pub(super) const fn refuse(&mut self) {
        if let Self::Usable(token) = *self {
            *self = Self::Refused(token);
        }
    }
}

impl Credentials {
    /// The embedder has a store.
    pub(super) fn set_stored(&mut self) {
        self.lock = Some(lock::State::Free);
        self.state = State::Unread;
    }

    /// No request is sent any more.
    pub(super) fn close(&mut self) {
        self.access = Access::Missing;
        if self.state == State::Unread {
            self.state = State::Idle;
        }
    }

    pub(super) fn step(&mut self, core: &mut Core, input: Input) -> Vec<Signal> {
        let row = oauth_credentials::step(self.state, input);
        // A save is awaited after a sign-out, too.
        if row.next != self.state && row.next != State::Finishing {
            self.wait = Wait::Nothing;
        }
        self.state = row.next;
        if input == Input::StoreFailed {
            // What failed before is not the reason.
            self.why = None;
        }
        let mut signals = Vec::new();
        for effect in row.effects {
            match effect {
                Effect::Acquire => signals.extend(self.step_lock(core, lock::Input::Acquire).map(Signal::Input)),
                Effect::Load => {
                    self.is_opening |= self.state == State::Opening;
                    if self.lock.is_some() {
                        self.wait(core, Answer::Loaded, StoreAction::Load);
                    } else {
                        signals.push(Signal::Input(self.classify(core)));
                    }
                }
                Effect::Refresh => signals.push(Signal::Begin(self.task(Goal::Refresh))),
                Effect::DropRefresh => self.drop_refresh(),
                Effect::Obtain => {
                    self.is_opening = false;
                    let goal = if core.options.flow == Flow::User { Goal::User } else { Goal::Direct };
                    signals.push(Signal::Begin(self.task(goal)));
                }
                Effect::Save => signals.extend(self.save(core).map(Signal::Input)),
                Effect::Release => _ = self.step_lock(core, lock::Input::Release),
                Effect::Use => self.use_token(core),
                Effect::ReportStore => {
                    self.kept = Kept::Unsaved;
                    core.event(OAuthEvent::NotStored);
                }
                Effect::ReportFailure => self.report_failure(core),
                Effect::StartCooldown => {
                    let wait = core.options.timeouts.cooldown.saturating_mul(1 << self.failures.min(16));
                    self.failures = self.failures.saturating_add(1);
                    self.wait = Wait::Cooldown(core.now + wait.min(LONGEST_COOLDOWN));
                }
                Effect::Stop => signals.push(Signal::Stop),
                Effect::Forget => self.forget(core),
                Effect::Revoke => signals.push(match self.leaving.take() {
                    Some(record) => Signal::Revoke(record),
                    None => Signal::Input(Input::Revoked),
                }),
                Effect::Remove => {
                    if self.lock.is_some() {
                        core.remove_record();
                    }
                }
                Effect::Postpone => self.is_postponed = true,
                Effect::Settle => {
                    self.is_opening = false;
                    if core::mem::take(&mut self.is_postponed) {
                        signals.push(Signal::Input(Input::Renounce));
                    } else if self.need != Need::Nobody {
                        signals.push(Signal::Input(Input::Demand));
                    }
                }
            }
        }
        signals
    }

    /// Gives the credentials up. The tokens that were used may still be in responses.
    fn forget(&mut self, core: &mut Core) {
        if self.need != Need::Nobody {
            let why = OAuthError::new(Stage::Authorization, "the user signed out");
            core.event(OAuthEvent::Failed(why));
        }
        let leaving = self.record.take().map(Box::new).or(self.leaving.take());
        let (used, wait) = (core::mem::take(&mut self.used), self.wait);
        *self = Self { state: self.state, lock: self.lock, used, wait, leaving, ..Self::default() };
    }

    /// Steps the lock of the store. Returns what follows for the credentials.
    fn step_lock(&mut self, core: &mut Core, input: lock::Input) -> Option<Input> {
        let Some(lock) = self.lock else { return (input == lock::Input::Acquire).then_some(Input::Acquired) };
        let row = lock::step(lock, input);
        self.lock = Some(row.next);
        let mut next = None;
        for effect in row.effects {
            match effect {
                lock::Effect::Request => self.wait(core, Answer::Acquired, StoreAction::Acquire),
                lock::Effect::Begin => next = Some(Input::Acquired),
                lock::Effect::Release => core.release_lock(),
            }
        }
        next
    }

    /// The lock was acquired, even if nothing waits for it any more, or could not be.
    pub(super) fn handle_acquired(&mut self, core: &mut Core, id: StoreId, acquired: bool) -> Option<Input> {
        if acquired {
            self.step_lock(core, lock::Input::Acquired)
        } else {
            self.on_answer(id, Answer::Acquired).then_some(Input::StoreFailed)
        }
    }

    fn wait(&mut self, core: &mut Core, answer: Answer, action: impl FnOnce(StoreId) -> StoreAction) {
        core.withdraw_store();
        let id = core.store(action);
        self.wait = Wait::Store(id, answer, core.now + core.options.timeouts.store);
    }

    /// Whether an answer is for the action of the store that is waited for, which it ends.
    pub(super) fn on_answer(&mut self, id: StoreId, answer: Answer) -> bool {
        let is_awaited = matches!(self.wait, Wait::Store(own, kind, _) if own == id && kind == answer);
        if is_awaited {
            self.wait = Wait::Nothing;
        }
        is_awaited
    }

    /// The store failed, or did not answer in time.
    pub(super) fn store_failed(&self) -> Input {
        if self.state == State::Reloading && self.is_unneeded() { Input::NotDemanded } else { Input::StoreFailed }
    }

    /// Whether no request needs a token yet.
    fn is_unneeded(&self) -> bool {
        self.is_opening && self.need == Need::Nobody
    }

    /// The store has this record, or none.
    pub(super) fn handle_loaded(&mut self, core: &mut Core, loaded: Option<&[u8]>) -> Input {
        let bytes = loaded.filter(|bytes| !bytes.is_empty());
        let read = bytes.map(|bytes| Record::read(bytes, core.options.limits.bytes));
        if matches!(read, Some(None)) {
            core.event(OAuthEvent::RecordUnreadable);
        }
        let usable = read.flatten().filter(|record| self.is_usable(core, record));
        if self.state == State::Collecting {
            let known = self.leaving.as_ref().map_or(0, |known| known.generation);
            if let Some(record) = usable.filter(|record| record.generation >= known) {
                self.leaving = Some(Box::new(record));
            }
            return Input::LoadedNothing;
        }
        let found = match &usable {
            Some(record) if self.is_newer(core, record) => Found::Newer,
            Some(_) => Found::Known,
            None => Found::Nothing,
        };
        self.stored = Some(bytes.map_or(0, stored_generation));
        let is_refreshed = self.kind == GrantKind::RefreshToken && bytes.is_none();
        match (oauth_credentials::loaded(self.kept, found, is_refreshed), usable) {
            (Loaded::Adopt, Some(record)) => self.adopt(record),
            (Loaded::Drop, _) => {
                self.record = None;
                self.access = Access::Missing;
            }
            (Loaded::Insist, _) => {
                self.kept = Kept::Unsaved;
                return Input::LoadedNothing;
            }
            (Loaded::SignOut, _) => return Input::SignOut,
            (Loaded::Keep | Loaded::Adopt, _) => {}
        }
        self.classify(core)
    }

    fn adopt(&mut self, record: Record) {
        let known = self.record.as_ref();
        if known.is_none_or(|known| known.client.id != record.client.id) {
            self.is_client_lost = false;
        }
        if known.is_none_or(|known| known.access_token != record.access_token) {
            (self.kind, self.is_accepted) = (GrantKind::Stored, true);
            self.access = Access::Missing;
        }
        self.set_record(record);
        self.kept = Kept::Stored;
    }

    /// What the current token was granted for.
    pub(super) fn grant(&self) -> Option<Grant> {
        Some(self.record.as_ref()?.grant(self.access.token()?, self.kind))
    }

    fn set_record(&mut self, record: Record) {
        self.record = Some(record);
        self.hider = OnceLock::new();
    }

    /// A text of the MCP server without the secrets that it could know.
    pub(super) fn without_secrets<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.record.is_none() && self.used.is_empty() {
            return Cow::Borrowed(text);
        }
        let secrets = || self.record.iter().flat_map(Record::secrets).chain(&self.used);
        self.hider.get_or_init(|| Box::new(Hider::new(secrets().map(Secret::expose)))).hide(text)
    }

    /// Whether a record of the store is newer than the one so far.
    fn is_newer(&self, core: &Core, record: &Record) -> bool {
        match self.kept {
            // One that was there before the attempt is no newer.
            Kept::Contested => {
                self.stored.is_some_and(|known| record.generation != known) && self.is_alive(core, record)
            }
            Kept::Stored | Kept::Unsaved => {
                self.record.as_ref().is_none_or(|known| record.generation > known.generation)
            }
        }
    }

    /// Whether a record is for this server, and for a client and an authorization server that are configured.
    fn is_usable(&self, core: &Core, record: &Record) -> bool {
        let options = &core.options;
        let is_own = |own: &str| options.tolerance.is_configured(own, &record.asked, &record.issuer);
        let is_issuer = |own: Option<&str>| own.is_none_or(is_own);
        let is_same = |client: &RegisteredClient| client.id == record.client.id && is_issuer(options.issuer_of(client));
        let is_client = match &*options.registered {
            [] => is_issuer(options.tolerance.issuer.as_deref()),
            registered => registered.iter().any(is_same),
        };
        // A token that is bound to another key cannot be used.
        let has_key = record.bound_to.is_none() || record.bound_to == core.options.dpop.map(|key| key.thumbprint());
        *record.server == *core.server.text() && is_client && has_key
    }

    /// Whether the token of a record can be used.
    fn is_alive(&self, core: &Core, record: &Record) -> bool {
        !record.is_expired(core.unix()) && self.avoid.as_ref() != Some(&record.access_token)
    }

    /// What the record has.
    fn classify(&self, core: &Core) -> Input {
        match &self.record {
            Some(record) if self.is_alive(core, record) => Input::LoadedToken,
            Some(record) if record.refresh_token.is_some() && record.refresh_token != self.refused_refresh => {
                Input::LoadedRefresh
            }
            Some(_) | None if self.is_unneeded() => Input::NotDemanded,
            Some(_) | None => Input::LoadedNothing,
        }
    }

    fn task(&self, goal: Goal) -> Box<Task> {
        let record = self.record.as_ref();
        let scopes = match (record, goal) {
            (Some(record), Goal::User | Goal::Direct) if self.need == Need::StepUp => {
                union(&[&record.requested, &record.granted])
            }
            (Some(record), Goal::User) => record.granted.clone(),
            (Some(_) | None, _) => "".into(),
        };
        Box::new(Task {
            goal,
            hint: self.hint.clone(),
            need: self.need,
            is_client_lost: self.is_client_lost,
            scopes,
            former: record.cloned().map(Box::new),
            used: self.used.clone(),
        })
    }

    fn drop_refresh(&mut self) {
        if let Some(record) = &mut self.record {
            record.refresh_token = None;
        }
    }

    /// Saves the record, which is another one than that in the store. Without a store it counts as saved.
    fn save(&mut self, core: &mut Core) -> Option<Input> {
        let replaces = self.stored.unwrap_or(0);
        let record = self.record.as_mut()?;
        record.generation = record.generation.max(replaces).saturating_add(1);
        if self.lock.is_none() {
            return Some(Input::Saved);
        }
        let record = record.write();
        self.wait(core, Answer::Saved, |id| StoreAction::Save { id, record, replaces });
        None
    }

    /// The store answered a save.
    pub(super) fn handle_saved(&mut self, saved: SaveOutcome) -> Input {
        let is_given_up = self.state == State::Finishing;
        match saved {
            SaveOutcome::Stored if is_given_up => Input::Saved,
            SaveOutcome::Conflict if is_given_up => Input::Conflict,
            SaveOutcome::Stored => {
                self.kept = Kept::Stored;
                self.stored = self.record.as_ref().map(|record| record.generation);
                Input::Saved
            }
            SaveOutcome::Conflict => {
                self.kept = Kept::Contested;
                Input::Conflict
            }
            SaveOutcome::Failed => Input::StoreFailed,
        }
    }

    fn use_token(&mut self, core: &mut Core) {
        let Some(record) = &self.record else { return };
        let token = TokenId(core.next_id());
        let grant = record.grant(token, self.kind);
        if !self.used.contains(&record.access_token) {
            self.used.push_back(record.access_token.clone());
            if self.used.len() > USED {
                self.used.pop_front();
            }
        }
        self.access = Access::Usable(token);
        self.is_opening = false;
        (self.avoid, self.refused_refresh) = (None, None);
        self.failures = 0;
        self.need = Need::Nobody;
        self.is_client_lost = false;
        core.event(OAuthEvent::Authorized(grant));
    }

    fn report_failure(&mut self, core: &mut Core) {
        if self.is_unneeded() {
            // The first request goes without a token.
            self.is_opening = false;
            return;
        }
        self.need = Need::Nobody;
        if let Access::Refused(_) = self.access {
            self.access = Access::Missing;
        }
        let unknown = || OAuthError::new(Stage::Token, "the store of credentials failed");
        let why = self.why.get_or_insert_with(unknown).clone();
        core.event(OAuthEvent::Failed(why));
    }

    /// An attempt ended.
    pub(super) fn handle_end(&mut self, core: &Core, end: End) -> Input {
        match end {
            End::Issued(mut record) => {
                let refreshed = matches!(self.state, State::Refreshing | State::RefreshingAgain);
                self.kind = match &core.options.flow {
                    _ if refreshed => GrantKind::RefreshToken,
                    Flow::User => GrantKind::AuthorizationCode,
                    Flow::ClientCredentials => GrantKind::ClientCredentials,
                    Flow::JwtBearer(_) | Flow::Enterprise(_) => GrantKind::JwtBearer,
                };
                record.generation = self.record.as_ref().map_or(0, |known| known.generation);
                self.set_record(*record);
                self.kept = Kept::Unsaved;
                (self.is_accepted, self.why, self.avoid) = (false, None, None);
                Input::Issued
            }
            End::Refused { is_client_lost } => {
                self.refused_refresh = self.record.as_ref().and_then(|record| record.refresh_token.clone());
                self.is_client_lost = is_client_lost;
                if self.state == State::RefreshingAgain && self.is_unneeded() {
                    return Input::NotDemanded;
                }
                Input::Refused
            }
            End::Failed(why) => {
                self.why = Some(why);
                let is_expired = self.record.as_ref().is_none_or(|record| record.is_expired(core.unix()));
                let is_usable = matches!(self.access, Access::Usable(_)) && !is_expired;
                // A refresh fails for a request if the server refused it with the token.
                if is_usable && (self.state == State::Obtaining || self.need == Need::Nobody) {
                    Input::FailedAlive
                } else {
                    Input::Failed
                }
            }
        }
    }

    /// A token that was sent was refused, or a new one is wanted before it expires.
    pub(super) fn avoid_current(&mut self) {
        self.avoid = self.record.as_ref().map(|record| record.access_token.clone());
    }

    /// Whether the token that the server refused is renewed at once, which is counted. The first few are; then each waits,
    /// so that no server drives requests to the authorization server.
    pub(super) fn may_renew(&mut self, core: &Core) -> bool {
        let is_early = self.state == State::Idle && self.renew_at(core).is_some_and(|at| at > core.now);
        if !is_early {
            self.paced = self.paced.max(core.now) + core.options.timeouts.cooldown;
        }
        !is_early
    }

    /// When the token is to be renewed, if it is and can be.
    fn renew_at(&self, core: &Core) -> Option<Time> {
        if let (State::Idle, Access::Refused(_), true) = (self.state, self.access, self.need != Need::Nobody) {
            let ahead = core.options.timeouts.cooldown.saturating_mul(AT_ONCE);
            return Some(Time::from_epoch(self.paced.since(Time::ZERO).saturating_sub(ahead)));
        }
        let is_used = self.state == State::Idle && matches!(self.access, Access::Usable(_));
        let record = self.record.as_ref().filter(|_| is_used)?;
        let (at, life) = record.expires?;
        let can = record.refresh_token.is_some() || core.options.flow != Flow::User;
        let is_due = can && life >= SHORTEST_LIFE && !record.is_expired(core.unix());
        is_due.then(|| core.clock.time_of(at.saturating_sub(MARGIN.min(life / 10))))
    }

    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        let wait = match self.wait {
            Wait::Nothing => None,
            Wait::Store(.., until) | Wait::Cooldown(until) => Some(until),
        };
        Time::earliest([wait, self.renew_at(core)])
    }

    /// What is due.
    pub(super) fn pop_due(&mut self, core: &Core) -> Option<Input> {
        let due = match self.wait {
            Wait::Store(.., until) if until <= core.now => Some(self.store_failed()),
            Wait::Cooldown(until) if until <= core.now => Some(Input::Cooled),
            Wait::Nothing | Wait::Store(..) | Wait::Cooldown(_) => None,
        };
        if due.is_some() {
            self.wait = Wait::Nothing;
            return due;
        }
        if self.renew_at(core).is_some_and(|at| at <= core.now) {
            if let Access::Refused(_) = self.access {
                self.may_renew(core);
            }
            self.avoid_current();
            return Some(Input::Demand);
        }
        None
    }
}

/// A registered client.
#[derive(Clone, Debug)]
pub(super) struct ClientRecord {
    pub(super) id: Box<str>,
    pub(super) secret: Option<Secret>,
    /// When the secret expires, in seconds since the Unix epoch.
    pub(super) secret_expires: Option<u64>,
    pub(super) auth: ClientAuth,
    pub(super) redirect_uri: Box<str>,
    /// The redirect URI that its registration asked for.
    pub(super) asked_redirect: Box<str>,
    /// The scopes that the registration allows, if it narrows them.
    pub(super) scopes: Option<Box<str>>,
    pub(super) kind: RegistrationKind,
}

/// Credentials: what is kept for a server and a user.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) generation: u64,
    /// The URL of the MCP server.
    pub(super) server: Box<str>,
    /// The issuer that metadata was asked for, to which the tokens and a registered client belong.
    pub(super) asked: Box<str>,
    /// The issuer that the metadata said.
    pub(super) issuer: Box<str>,
    /// The authorization server has no metadata.
    pub(super) is_assumed: bool,
    pub(super) resource: Box<str>,
    pub(super) client: ClientRecord,
    pub(super) requested: Box<str>,
    pub(super) granted: Box<str>,
    /// The thumbprint of the key that the tokens are bound to (RFC 9449).
    pub(super) bound_to: Option<Box<str>>,
    pub(super) access_token: Secret,
    /// When the token expires, in seconds since the Unix epoch, and its whole life in seconds.
    pub(super) expires: Option<(u64, u64)>,
    pub(super) refresh_token: Option<Secret>,
    pub(super) revocation_endpoint: Option<Box<str>>,
}

impl Record {
    /// The secrets that a server could repeat.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        [Some(&self.access_token), self.refresh_token.as_ref(), self.client.secret.as_ref()].into_iter().flatten()
    }

    fn grant(&self, token: TokenId, kind: GrantKind) -> Grant {
        Grant {
            token,
            kind,
            issuer: self.issuer.clone(),
            resource: self.resource.clone(),
            registration: self.client.kind,
            scopes: self.granted.clone(),
        }
    }

    pub(super) fn is_expired(&self, unix: u64) -> bool {
        self.expires.is_some_and(|(at, _)| at <= unix)
    }

    pub(super) fn write(&self) -> StoredRecord {
        let mut out = Zeroizing::new(Vec::with_capacity(2048));
        let mut object = Object::begin(&mut out);
        object.integer("generation", self.generation.into());
        object.string("server", &self.server).string("issuer", &self.issuer).string("resource", &self.resource);
        if self.asked != self.issuer {
            object.string("asked", &self.asked);
        }
        if self.is_assumed {
            object.raw("assumed", "true");
        }
        object.object("client", |object| {
            let client = &self.client;
            object.string("id", &client.id).string("auth", client.auth.as_str());
            object.string("redirect_uri", &client.redirect_uri).string("asked_redirect", &client.asked_redirect);
            object.string("kind", client.kind.as_str());
            if let Some(secret) = &client.secret {
                object.string("secret", secret.expose());
            }
            if let Some(expires) = client.secret_expires {
                object.integer("secret_expires", expires.into());
            }
            if let Some(scopes) = &client.scopes {
                object.string("scopes", scopes);
            }
        });
        object.string("requested", &self.requested).string("granted", &self.granted);
        if let Some(key) = &self.bound_to {
            object.string("bound_to", key);
        }
        object.string("access_token", self.access_token.expose());
        if let Some((at, life)) = self.expires {
            object.integer("expires", at.into()).integer("life", life.into());
        }
        if let Some(token) = &self.refresh_token {
            object.string("refresh_token", token.expose());
        }
        if let Some(endpoint) = &self.revocation_endpoint {
            object.string("revocation_endpoint", endpoint);
        }
        object.end();
        StoredRecord(out)
    }

    /// Reads a stored record; `None` for one that cannot be read.
    pub(super) fn read(record: &[u8], limit: usize) -> Option<Self> {
        let json = parse(record, limit)?;
        let client = json.member("client")?;
        let kinds = [RegistrationKind::PreRegistered, RegistrationKind::MetadataDocument, RegistrationKind::Dynamic];
        let kind = text(client, "kind")?;
        let auth = text(client, "auth")?;
        Some(Self {
            generation: number(json, "generation")?,
            server: text(json, "server")?,
            asked: text(json, "asked").or_else(|| text(json, "issuer"))?,
            issuer: text(json, "issuer")?,
            is_assumed: json.member("assumed").is_some_and(|it| it.text() == "true"),
            resource: text(json, "resource")?,
            client: ClientRecord {
                id: text(client, "id")?,
                secret: text(client, "secret").map(|it| Secret::new(it.into_string())),
                secret_expires: number(client, "secret_expires"),
                // How an assertion is signed is in the options.
                auth: ClientAuth::named(&auth).unwrap_or(ClientAuth::None),
                redirect_uri: text(client, "redirect_uri")?,
                asked_redirect: text(client, "asked_redirect").or_else(|| text(client, "redirect_uri"))?,
                scopes: text(client, "scopes"),
                kind: kinds.into_iter().find(|known| known.as_str() == &*kind)?,
            },
            requested: text(json, "requested")?,
            granted: text(json, "granted")?,
            bound_to: text(json, "bound_to"),
            access_token: Secret::new(text(json, "access_token").filter(|it| is_token(it))?.into_string()),
            expires: number(json, "expires").zip(number(json, "life")),
            refresh_token: text(json, "refresh_token").map(|it| Secret::new(it.into_string())),
            revocation_endpoint: text(json, "revocation_endpoint"),
        })
    }
}

/// Revokes the tokens of a record, one after the other (RFC 7009).
#[derive(Clone, Debug, Default)]
pub(super) struct Revocation {
    run: Option<Box<Revoking>>,
}

#[derive(Clone, Debug)]
struct Revoking {
    endpoint: Place,
    issuer: Box<str>,
    client: ClientRecord,
    /// The type of the token that is being revoked, and the token.
    current: (&'static str, Secret),
    /// The token after it.
    next: Option<(&'static str, Secret)>,
    step: RevokingStep,
}

#[derive(Clone, Debug)]
enum RevokingStep {
    /// The assertion of the client is being signed, until then.
    Signing(SignId, Secret, Time),
    Sent(Exchange),
}

impl Revocation {
    /// Begins to revoke the tokens of a record. Returns whether the authorization server supports it.
    pub(super) fn begin(&mut self, core: &mut Core, record: Record) -> bool {
        let endpoint = record.revocation_endpoint.as_deref().and_then(Place::parse);
        let Some(endpoint) = endpoint.filter(|place| place.check(core.zone).is_ok()) else { return false };
        let mut client = record.client;
        // What signs an assertion is in the options.
        let options = &core.options;
        let is_own = |own: &str| options.tolerance.is_configured(own, &record.asked, &record.issuer);
        let is_same = |configured: &&RegisteredClient| {
            configured.id == client.id && options.issuer_of(configured).is_none_or(is_own)
        };
        let configured = options.registered.iter().find(is_same);
        if let Some(auth) = configured.and_then(|configured| configured.auth.clone()) {
            client.auth = auth;
        }
        let access = ("access_token", record.access_token);
        let (current, next) = match record.refresh_token {
            Some(refresh) => (("refresh_token", refresh), Some(access)),
            None => (access, None),
        };
        let step = RevokingStep::begin(core, &endpoint, &record.issuer, &client, &current.1, current.0);
        self.run = Some(Box::new(Revoking { endpoint, issuer: record.issuer, client, current, next, step }));
        true
    }

    /// The exchange that runs, if it is the one with this id.
    pub(super) fn exchange_mut(&mut self, id: OAuthExchangeId) -> Option<&mut Exchange> {
        match &mut self.run.as_mut()?.step {
            RevokingStep::Sent(exchange) if exchange.id == id => Some(exchange),
            RevokingStep::Sent(_) | RevokingStep::Signing(..) => None,
        }
    }

    /// The assertion was signed, or was not. Returns whether all is done.
    pub(super) fn handle_signature(&mut self, core: &mut Core, id: SignId, signature: &[u8]) -> bool {
        let Some(run) = &mut self.run else { return false };
        match &run.step {
            RevokingStep::Signing(own, ..) if *own == id && signature.is_empty() => {
                self.ended(core, Some("the client's assertion was not signed"))
            }
            RevokingStep::Signing(own, input, _) if *own == id => {
                let (assertion, (hint, token)) = (signed(input.expose(), signature), &run.current);
                run.step = RevokingStep::send(core, &run.endpoint, &run.client, token, hint, Some(&assertion));
                false
            }
            RevokingStep::Signing(..) | RevokingStep::Sent(_) => false,
        }
    }

    /// The response to the current request ended. Returns whether all is done.
    pub(super) fn handle_end(&mut self, core: &mut Core, status: Option<StatusCode>) -> bool {
        match status {
            Some(StatusCode::OK) => self.ended(core, None),
            Some(status) => self.ended(core, Some(&format!("HTTP {}", status.as_u16()))),
            None => self.ended(core, Some("the response has no head")),
        }
    }

    /// A token was revoked, or was not. Returns whether all is done.
    pub(super) fn ended(&mut self, core: &mut Core, failure: Option<&str>) -> bool {
        let is_over = self.run.as_mut().is_some_and(|run| run.go_on(core, failure).is_none());
        if is_over {
            self.run = None;
        }
        is_over
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.run.as_ref().map(|run| match &run.step {
            RevokingStep::Signing(.., until) => *until,
            RevokingStep::Sent(exchange) => exchange.deadline,
        })
    }

    /// Ends what takes too long. Returns whether all is done.
    pub(super) fn handle_timeout(&mut self, core: &mut Core) -> bool {
        if self.deadline().is_none_or(|deadline| deadline > core.now) {
            return false;
        }
        if let Some(RevokingStep::Sent(exchange)) = self.run.as_ref().map(|run| &run.step) {
            core.drop_exchange(exchange.id);
        }
        self.ended(core, Some("there was no answer in time"))
    }
}

impl Revoking {
    /// A token was revoked, or was not. Goes on with the next one; `None` if it was the last one.
    fn go_on(&mut self, core: &mut Core, failure: Option<&str>) -> Option<()> {
        if let Some(why) = failure {
            let (kind, issuer) = (self.current.0, excerpt(&crate::text::shown(&self.issuer)));
            core.event(OAuthEvent::NotRevoked(format!("`{issuer}` did not revoke the {kind}: {why}").into()));
        }
        let next = self.next.take()?;
        self.step = RevokingStep::begin(core, &self.endpoint, &self.issuer, &self.client, &next.1, next.0);
        self.current = next;
        Some(())
    }
}

impl RevokingStep {
    /// Sends the request, or has the assertion of the client signed first.
    fn begin(
        core: &mut Core,
        endpoint: &Place,
        issuer: &str,
        client: &ClientRecord,
        token: &Secret,
        hint: &str,
    ) -> Self {
        let Some((algorithm, input)) = assertion_of(core, client, issuer) else {
            return Self::send(core, endpoint, client, token, hint, None);
        };
        match core.sign(SignKey::Client, &algorithm, &input) {
            Signing::Done(signature) => {
                Self::send(core, endpoint, client, token, hint, Some(&signed(&input, &signature)))
            }
            Signing::Asked(id) => Self::Signing(id, Secret::new(input), core.now + core.options.timeouts.store),
        }
    }

    fn send(
        core: &mut Core,
        endpoint: &Place,
        client: &ClientRecord,
        token: &Secret,
        hint: &str,
        assertion: Option<&Secret>,
    ) -> Self {
        let mut form = Form::default();
        form.push("token", token.expose());
        form.push("token_type_hint", hint);
        let header = client.authenticate(&mut form, assertion);
        Self::Sent(core.post(endpoint, FORM, form.into_body(), header.map(|header| (AUTHORIZATION, header))))
    }
}

/// The generation of a stored record; 0 for none and for one that cannot be read. Stores compare it with
/// [`StoreAction::Save`](super::StoreAction::Save).
pub fn stored_generation(record: &[u8]) -> u64 {
    parse(record, usize::MAX).and_then(|json| number(json, "generation")).unwrap_or(0)
}

/// A JSON object.
pub(super) fn parse(body: &[u8], limit: usize) -> Option<Json<'_>> {
    let text = core::str::from_utf8(body).ok().filter(|text| text.len() <= limit)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_matches([' ', '\t', '\r', '\n']);
    Json::checked(text, DEPTH).filter(|json| json.is_object())
}

pub(super) fn text(json: Json<'_>, name: &str) -> Option<Box<str>> {
    json.member(name)?.as_string().map(|text| text.into_owned().into())
}

fn number(json: Json<'_>, name: &str) -> Option<u64> {
    json.member(name)?.text().parse().ok()
}

/// The strings of an array, the first ones.
pub(super) fn strings(json: Json<'_>, name: &str, limit: usize) -> Option<Vec<Box<str>>> {
    let value = json.member(name)?;
    let elements = value.elements(limit)?.kept;
    Some(elements.into_iter().filter_map(Json::as_string).map(|it| it.into_owned().into()).collect())
}

/// Whether a token can be in an `Authorization` header (RFC 6750, section 2.1), and is not longer than one can be.
pub(super) fn is_token(token: &str) -> bool {
    !token.is_empty() && token.len() <= LONGEST_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Scopes without repetitions, in order.
pub(super) fn union(scopes: &[&str]) -> Box<str> {
    let mut all: Vec<&str> = Vec::new();
    let mut seen = alloc::collections::BTreeSet::new();
    for scope in scopes.iter().flat_map(|scopes| scopes.split_ascii_whitespace()) {
        if seen.insert(scope) {
            all.push(scope);
        }
    }
    all.join(" ").into()
}

/// The scopes of one list that are in the other too; all of them if none is.
pub(super) fn narrowed(scopes: &str, allowed: &str) -> Box<str> {
    let known: alloc::collections::BTreeSet<_> = allowed.split_ascii_whitespace().collect();
    let kept: Vec<_> = scopes.split_ascii_whitespace().filter(|scope| known.contains(scope)).collect();
    if kept.is_empty() { scopes.to_owned().into() } else { kept.join(" ").into() }
}
