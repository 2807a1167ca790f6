//! Component: an attempt to obtain or refresh a token. This file has the search for metadata, `requests` what follows.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use core::time::Duration;

use http::StatusCode;

use super::Secret;
use super::action::{OAuthAction, OAuthError, OAuthEvent, OAuthExchangeId, SignId, Stage};
use super::core::{Core, Exchange};
use super::credentials::{ClientRecord, Need, Record};
use super::metadata::{Metadata, Resource, Server, Unfit, checked};
use super::options::is_same_issuer;
use super::place::Place;
use super::requests::{Issued, Obtaining, Step};
use crate::Time;
use crate::binding::hider::Hider;
use crate::machine::oauth_attempt::{self, Absence, Answer, Effect, Fallback, Goal, Input, State};

/// Token requests of one attempt, and how often all places of metadata are requested.
pub(super) const TRIES: u32 = 3;

/// Redirects that are followed for one place.
const REDIRECTS: u8 = 3;

/// Obtains or refreshes tokens, one attempt at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    /// The MCP server has a version after 2025-03-26 for certain, and therefore protected-resource metadata.
    is_modern: bool,
    /// What the last attempt found, if it did not fail.
    metadata: Option<Box<Metadata>>,
    run: Option<Box<Run>>,
}

/// An attempt in progress.
#[derive(Clone, Debug)]
struct Run {
    task: Task,
    phase: Phase,
    /// The request that runs.
    exchange: Option<Exchange>,
    /// How often all places of metadata were requested.
    walks: u32,
    /// The end of the search for metadata. What follows it is bounded by the deadlines of its few requests.
    search_until: Time,
}

/// The state of an attempt, with its data.
#[derive(Clone, Debug)]
enum Phase {
    /// Nothing was done yet.
    Begin,
    Resource(Walk),
    Server(Search),
    /// Until then, after an outage at this stage.
    Waiting(Time, Stage, Option<Box<str>>),
    Obtaining(Box<Obtaining>),
}

/// The places where a document may be.
#[derive(Clone, Debug, Default)]
struct Walk {
    /// The first is the current place.
    places: VecDeque<Place>,
    redirects: u8,
    /// Why one of the places so far could not be read, which may have metadata.
    outage: Option<Box<str>>,
}

/// The search for the metadata of an authorization server.
#[derive(Clone, Debug)]
struct Search {
    resource: Resource,
    /// The authorization servers whose metadata was not found yet; the first is the one that is asked for.
    issuers: VecDeque<Place>,
    walk: Walk,
    /// It is assumed to be at the MCP server's origin, as 2025-03-26 says.
    is_assumed: bool,
}

/// What comes with an input.
#[derive(Debug, Default)]
pub(super) enum Payload {
    #[default]
    Nothing,
    Resource(Resource),
    Server(Box<Server>),
    /// The metadata of an earlier attempt.
    Metadata(Box<Metadata>),
    /// The client that was registered or chosen.
    Client(Box<ClientRecord>),
    /// The code of a user, or the grant of an identity provider.
    Grant(Secret),
    Issued(Issued),
    /// Why the attempt fails.
    Failure(OAuthError),
}

impl Payload {
    fn client(self) -> Option<ClientRecord> {
        if let Self::Client(client) = self { Some(*client) } else { None }
    }
}

/// An input, and what comes with it.
pub(super) type Next = (Input, Payload);

/// The input that ends the attempt.
pub(super) fn failure(stage: Stage, why: impl Into<Box<str>>) -> Next {
    (Input::Fail, Payload::Failure(OAuthError::new(stage, why)))
}

/// What a challenge of the server says.
#[derive(Clone, Debug, Default)]
pub(super) struct Hint {
    pub(super) metadata: Option<Box<str>>,
    pub(super) scopes: Option<Box<str>>,
}

/// What an attempt is to obtain.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) goal: Goal,
    pub(super) hint: Hint,
    /// Who needs the token.
    pub(super) need: Need,
    /// The authorization server does not know the client any more.
    pub(super) is_client_lost: bool,
    /// The scopes that are requested besides.
    pub(super) scopes: Box<str>,
    /// The credentials so far. A token that is refreshed belongs to them.
    pub(super) former: Option<Box<Record>>,
    /// Tokens that requests had, which the server may repeat.
    pub(super) used: VecDeque<Secret>,
}

impl Task {
    /// The secrets that a server could repeat.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.former.iter().flat_map(|former| former.secrets()).chain(&self.used)
    }
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum End {
    /// With a token. The record has no generation yet.
    Issued(Box<Record>),
    /// The refresh token cannot be used any more. Says whether the authorization server does not know the client either.
    Refused { is_client_lost: bool },
    /// With an error.
    Failed(OAuthError),
}

impl Attempt {
    pub(super) fn state(&self) -> State {
        match self.run.as_ref().map(|run| &run.phase) {
            None | Some(Phase::Begin) => State::Idle,
            Some(Phase::Resource(_)) => State::Resource,
            Some(Phase::Server(search)) if search.is_assumed => State::Assumed,
            Some(Phase::Server(_)) => State::Server,
            Some(Phase::Waiting(..)) => State::Waiting,
            Some(Phase::Obtaining(it)) => it.state(),
        }
    }

    /// Sets whether the server is modern. What goes by the conventions of 2025-03-26 does not go on at a modern one.
    pub(super) fn set_modern(&mut self, core: &mut Core, is_modern: bool) -> Option<End> {
        self.is_modern = is_modern;
        if !is_modern {
            return None;
        }
        self.metadata.take_if(|metadata| metadata.is_conventional);
        let run = self.run.as_mut().filter(|run| run.is_conventional())?;
        run.abandon(core);
        let why = "the server has no protected-resource metadata, which its revision requires: \
                   the conventions of 2025-03-26 do not apply to it";
        self.step(core, failure(Stage::ResourceMetadata, why))
    }

    /// What was read may be outdated: the next attempt reads it anew.
    pub(super) fn drop_metadata(&mut self) {
        self.metadata = None;
    }

    /// The exchange, if it is the one with this id.
    pub(super) fn exchange_mut(&mut self, id: OAuthExchangeId) -> Option<&mut Exchange> {
        self.run.as_mut()?.exchange.as_mut().filter(|exchange| exchange.id == id)
    }

    /// Whether the body of this exchange is read; `Some(true)` for metadata, which has no secrets.
    #[cfg(feature = "journal")]
    pub(super) fn reads(&self, id: OAuthExchangeId) -> Option<bool> {
        let run = self.run.as_ref().filter(|run| run.exchange.as_ref().is_some_and(|exchange| exchange.id == id))?;
        Some(!matches!(run.phase, Phase::Obtaining(_)))
    }

    /// What follows the metadata, if the attempt is there.
    #[cfg(feature = "journal")]
    pub(super) fn obtaining(&self) -> Option<&Obtaining> {
        self.run.as_ref().and_then(|run| if let Phase::Obtaining(it) = &run.phase { Some(&**it) } else { None })
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let run = self.run.as_ref()?;
        let search = run.is_searching().then_some(run.search_until);
        Time::earliest([run.exchange.as_ref().map(|exchange| exchange.deadline), run.phase.deadline(), search])
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, core: &mut Core, task: Task) -> Option<End> {
        let search_until = core.now + core.options.timeouts.metadata;
        self.run = Some(Box::new(Run { task, phase: Phase::Begin, exchange: None, walks: 0, search_until }));
        match self.metadata.take() {
            Some(metadata) => self.step(core, (Input::BeginKnown, Payload::Metadata(metadata))),
            None => self.step(core, (Input::Begin, Payload::Nothing)),
        }
    }

    /// The browser is free for the attempt.
    pub(super) fn show(&mut self, core: &mut Core) -> Option<End> {
        self.step(core, (Input::Show, Payload::Nothing))
    }

    /// Takes an input, and those that its effects lead to.
    fn step(&mut self, core: &mut Core, next: Next) -> Option<End> {
        let (mut next, mut end) = (Some(next), None);
        while let Some((input, mut payload)) = next.take() {
            let row = oauth_attempt::step(self.state(), input);
            let run = self.run.as_mut()?;
            for effect in row.effects {
                next = run.carry_out(core, *effect, &mut payload, &mut end);
                if next.is_some() {
                    break;
                }
            }
            if row.next == State::Idle {
                let run = self.run.take()?;
                if let (Phase::Obtaining(it), Some(End::Issued(_) | End::Refused { .. })) = (run.phase, &end) {
                    self.metadata = Some(it.metadata);
                }
            }
        }
        end
    }

    /// Ends an attempt that waits for the user, or would come to that.
    pub(super) fn cancel(&mut self, core: &mut Core, stage: Stage, why: &str) -> Option<End> {
        let run = self.run.as_mut()?;
        let has_code = matches!(&run.phase, Phase::Obtaining(it) if it.has_code());
        if run.task.goal != Goal::User || has_code {
            return None;
        }
        run.abandon(core);
        self.step(core, failure(stage, why))
    }

    /// Ends the attempt of a client that is closed, unless a request is in flight that uses up what it has: a refresh token
    /// or a code. Its response is awaited, and it is not sent again.
    pub(super) fn close(&mut self, core: &mut Core, why: &str) -> Option<End> {
        let run = self.run.as_ref()?;
        if matches!(&run.phase, Phase::Obtaining(it) if it.has_code() || matches!(it.step, Step::Token(_))) {
            return None;
        }
        let stage = run.stage();
        self.stop(core);
        Some(End::Failed(OAuthError::new(stage, why)))
    }

    /// Ends the attempt, which is not required any more.
    pub(super) fn stop(&mut self, core: &mut Core) -> Option<End> {
        self.run.as_mut()?.abandon(core);
        self.step(core, (Input::Stop, Payload::Nothing))
    }

    /// What was to be signed was signed.
    pub(super) fn handle_signature(&mut self, core: &mut Core, id: SignId, signature: &[u8]) -> Option<End> {
        let run = self.run.as_mut()?;
        let stage = run.stage();
        let next = run.phase.obtaining()?.on_signature(id, signature, stage)?;
        self.step(core, next)
    }

    /// The response of an exchange ended.
    pub(super) fn handle_end(&mut self, core: &mut Core, id: OAuthExchangeId) -> Option<End> {
        let run = self.run.as_mut()?;
        let exchange = run.exchange.take_if(|exchange| exchange.id == id)?;
        let Some(status) = exchange.status else { return self.broke(core, "the response has no head") };
        let stage = run.stage();
        let next = match run.phase.obtaining() {
            Some(it) => it.on_end(core, &run.task, stage, status, &exchange)?,
            None => run.metadata_ended(core, &exchange, self.is_modern)?,
        };
        self.step(core, next)
    }

    /// The response exceeds the limit.
    pub(super) fn too_long(&mut self, core: &mut Core) -> Option<End> {
        let run = self.run.as_mut()?;
        run.abandon(core);
        let why = format!("the response is longer than {} bytes", core.options.limits.bytes);
        let next = run.refused(core, &why);
        self.step(core, next)
    }

    /// The exchange with this id broke.
    pub(super) fn handle_failure(&mut self, core: &mut Core, id: OAuthExchangeId, why: &str) -> Option<End> {
        self.run.as_mut()?.exchange.take_if(|exchange| exchange.id == id)?;
        self.broke(core, why)
    }

    fn broke(&mut self, core: &mut Core, why: &str) -> Option<End> {
        let run = self.run.as_mut()?;
        let stage = run.stage();
        let next = match run.phase.obtaining() {
            Some(it) => it.broke(run.task.goal, stage, why)?,
            None => {
                let walk = run.phase.walk()?;
                let why: Box<str> = format!("`{}` cannot be read: {why}", walk.places.front()?).into();
                walk.outage.get_or_insert(why.clone());
                run.unusable(core, self.is_modern, &why)
            }
        };
        self.step(core, next)
    }

    /// The user's browser was redirected. Returns whether the redirect belongs to this attempt.
    pub(super) fn handle_redirect(&mut self, core: &mut Core, redirect: &str) -> (bool, Option<End>) {
        match self.run.as_mut().and_then(|run| run.phase.obtaining()?.redirected(core, redirect)) {
            Some(next) => (true, self.step(core, next)),
            None => (false, None),
        }
    }

    /// The time of the current wait is over.
    pub(super) fn handle_timeout(&mut self, core: &mut Core) -> Option<End> {
        let run = self.run.as_mut()?;
        if run.is_searching() && run.search_until <= core.now {
            run.abandon(core);
            let next = run.overdue(core);
            return self.step(core, next);
        }
        if let Some(exchange) = run.exchange.take_if(|exchange| exchange.deadline <= core.now) {
            core.drop_exchange(exchange.id);
            return self.broke(core, "there was no response in time");
        }
        if run.phase.deadline().is_none_or(|deadline| deadline > core.now) {
            return None;
        }
        let stage = run.stage();
        let next = match run.phase.obtaining() {
            Some(it) => it.on_deadline(core, stage),
            None => (Input::Paused, Payload::Nothing),
        };
        self.step(core, next)
    }
}

impl Phase {
    fn obtaining(&mut self) -> Option<&mut Obtaining> {
        if let Self::Obtaining(it) = self { Some(it) } else { None }
    }

    fn walk(&mut self) -> Option<&mut Walk> {
        match self {
            Self::Resource(walk) | Self::Server(Search { walk, .. }) => Some(walk),
            Self::Begin | Self::Waiting(..) | Self::Obtaining(_) => None,
        }
    }

    /// The end of a wait.
    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Begin | Self::Resource(_) | Self::Server(_) => None,
            Self::Waiting(until, ..) => Some(*until),
            Self::Obtaining(it) => it.deadline(),
        }
    }
}

impl Run {
    fn stage(&self) -> Stage {
        match &self.phase {
            Phase::Begin | Phase::Resource(_) => Stage::ResourceMetadata,
            Phase::Server(_) => Stage::ServerMetadata,
            Phase::Waiting(_, stage, _) => *stage,
            Phase::Obtaining(it) => it.stage(self.task.goal),
        }
    }

    /// Whether metadata is requested, or will be after a wait.
    const fn is_searching(&self) -> bool {
        matches!(self.phase, Phase::Resource(_) | Phase::Server(_) | Phase::Waiting(..))
    }

    /// Whether the authorization server is the one that 2025-03-26 assumes.
    const fn is_conventional(&self) -> bool {
        match &self.phase {
            Phase::Server(search) => search.is_assumed,
            Phase::Obtaining(it) => it.metadata.is_conventional,
            Phase::Begin | Phase::Resource(_) | Phase::Waiting(..) => false,
        }
    }

    /// The search for metadata takes too long.
    fn overdue(&self, core: &Core) -> Next {
        let limit = core.options.timeouts.metadata.as_secs();
        let outage = match &self.phase {
            Phase::Waiting(.., outage) | Phase::Resource(Walk { outage, .. }) => outage,
            Phase::Server(Search { walk, .. }) => &walk.outage,
            Phase::Begin | Phase::Obtaining(_) => &None,
        };
        let why = outage.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        failure(self.stage(), format!("the metadata was not found within {limit} s{why}"))
    }

    /// The response is not read any more.
    fn abandon(&mut self, core: &mut Core) {
        if let Some(exchange) = self.exchange.take() {
            core.drop_exchange(exchange.id);
        }
    }

    /// Carries out an effect. Returns the input that follows.
    fn carry_out(
        &mut self,
        core: &mut Core,
        effect: Effect,
        payload: &mut Payload,
        end: &mut Option<End>,
    ) -> Option<Next> {
        let mut received = || core::mem::take(payload);
        match effect {
            Effect::FindResource => self.find_resource(core),
            Effect::RequestMetadata => match self.phase.walk()?.places.front() {
                Some(place) => self.exchange = Some(core.get(place)),
                None => return Some(failure(self.stage(), "the URL of the metadata is too long")),
            },
            Effect::FindServers => return self.find_servers(core, received()),
            Effect::FindKnown => return self.find_known(core),
            Effect::AssumeOrigin => {
                let (resource, origin) = (core.server.text().into(), core.server.origin().into());
                return self.search(core, Resource::assumed(resource), [origin], true);
            }
            Effect::AssumeEndpoints => match Server::assumed(core.server.origin(), core.zone) {
                Ok(server) => *payload = Payload::Server(Box::new(server)),
                Err(why) => return Some(failure(Stage::ServerMetadata, why)),
            },
            Effect::Plan => return self.plan(core, received()),
            Effect::Register => self.exchange = self.phase.obtaining()?.register(core),
            Effect::DropClient => self.phase.obtaining()?.drop_client(),
            Effect::Enqueue => self.phase.obtaining()?.enqueue(received().client()?),
            Effect::Browse => return self.phase.obtaining()?.browse(core, &self.task, received().client()),
            Effect::EndBrowse => core.outbox.push_back(OAuthAction::EndBrowse),
            Effect::Exchange => self.exchange = self.phase.obtaining()?.exchange_identity(core, &self.task),
            Effect::Sign => return self.phase.obtaining()?.sign(core, received().client()?),
            Effect::RequestToken => {
                self.exchange = self.phase.obtaining()?.request_token(core, &self.task, received().client());
            }
            Effect::Pause => self.pause(core),
            Effect::ReportIssued => *end = self.phase.obtaining()?.record(core, &self.task, received()),
            Effect::ReportRefused => *end = Some(self.phase.obtaining()?.refusal()),
            Effect::ReportFailed => *end = self.failed(core, received()),
        }
        None
    }

    /// Begins a walk through the places of protected-resource metadata: the one that the challenge names, and the
    /// well-known ones.
    fn find_resource(&mut self, core: &mut Core) {
        let named = self.task.hint.metadata.as_deref().map(|url| checked("resource_metadata", url, core.zone));
        let mut places = VecDeque::new();
        match named {
            Some(Err(why)) if self.walks == 0 => {
                core.event(OAuthEvent::ChallengeIgnored(self.hider(core).hide(&why).into()));
            }
            named => places.extend(named.and_then(Result::ok)),
        }
        for text in core.server.resource_metadata() {
            places.extend(Place::parse(&text).filter(|place| !places.contains(place)));
        }
        self.walks = self.walks.saturating_add(1);
        self.phase = Phase::Resource(Walk { places, ..Walk::default() });
    }

    /// Begins the search for the authorization servers that the metadata names. Those that the client belongs to come
    /// first.
    fn find_servers(&mut self, core: &Core, payload: Payload) -> Option<Next> {
        let Payload::Resource(resource) = payload else { return None };
        let mut issuers = resource.issuers.clone();
        issuers.sort_by_key(|issuer| !self.is_own(core, issuer));
        issuers.truncate(core.options.limits.servers.max(1));
        self.search(core, resource, issuers, false)
    }

    /// Begins the search at the authorization server that is known.
    fn find_known(&mut self, core: &Core) -> Option<Next> {
        let issuer: Box<str> = self.known_issuer(core)?.into();
        let former = self.task.former.as_ref().filter(|former| is_same_issuer(&former.asked, &issuer));
        let resource = former.map_or_else(|| core.server.text().into(), |former| former.resource.clone());
        self.search(core, Resource::assumed(resource), [issuer], false)
    }

    fn search(
        &mut self,
        core: &Core,
        resource: Resource,
        issuers: impl IntoIterator<Item = Box<str>>,
        is_assumed: bool,
    ) -> Option<Next> {
        let (stage, name) = match is_assumed {
            true => (Stage::ServerMetadata, "the assumed authorization server"),
            false => (self.stage(), "authorization_servers"),
        };
        let place = |issuer: Box<str>| checked(name, &issuer, core.zone);
        match issuers.into_iter().map(place).collect() {
            Ok(issuers) => {
                let mut search = Search { resource, issuers, walk: Walk::default(), is_assumed };
                search.begin();
                self.phase = Phase::Server(search);
                None
            }
            Err(why) => Some(failure(stage, why)),
        }
    }

    /// Whether the credentials or a configured client belong to an authorization server.
    fn is_own(&self, core: &Core, issuer: &str) -> bool {
        let is_issuer = |own: &str| core.options.tolerance.is_issuer(issuer, own);
        let mut clients = core.options.registered.iter().filter_map(|client| client.issuer.as_deref());
        self.task.former.as_ref().is_some_and(|former| is_same_issuer(&former.asked, issuer)) || clients.any(is_issuer)
    }

    /// The authorization server where the MCP server names none: the configured one, or the one that issued the
    /// credentials.
    fn known_issuer<'a>(&'a self, core: &'a Core) -> Option<&'a str> {
        let former = self.task.former.as_ref().filter(|former| !former.is_assumed);
        core.options.tolerance.issuer.as_deref().or_else(|| former.map(|former| &*former.asked))
    }

    /// Where else metadata may be.
    fn fallback(&self, core: &Core, is_modern: bool) -> Fallback {
        match &self.phase {
            Phase::Resource(walk) if walk.places.len() > 1 => Fallback::Place,
            Phase::Resource(_) if self.known_issuer(core).is_some() => Fallback::Known,
            Phase::Resource(_) if !is_modern => Fallback::Conventions,
            Phase::Server(Search { walk, .. }) if walk.places.len() > 1 => Fallback::Place,
            // No other one takes the place of the one that the client belongs to.
            Phase::Server(Search { walk, issuers, .. })
                if issuers.len() > 1
                    && !(walk.outage.is_some() && issuers.front().is_some_and(|it| self.is_own(core, it.text()))) =>
            {
                Fallback::Place
            }
            Phase::Server(Search { is_assumed: true, .. }) => Fallback::Conventions,
            Phase::Begin | Phase::Resource(_) | Phase::Server(_) | Phase::Waiting(..) | Phase::Obtaining(_) => {
                Fallback::Nothing
            }
        }
    }

    /// What follows from what came from the current place. `why` is the reason if that ends the attempt.
    fn on_answer(&mut self, core: &Core, answer: Answer, is_modern: bool, why: &str) -> Next {
        let outage = self.phase.walk().and_then(|walk| walk.outage.clone());
        let absence = match outage {
            None => Absence::Certain,
            Some(_) if self.walks < TRIES => Absence::Unknown,
            Some(_) => Absence::UnknownForLong,
        };
        let input = oauth_attempt::metadata(answer, self.fallback(core, is_modern), absence);
        if input != Input::Fail {
            return (input, Payload::Nothing);
        }
        match outage {
            _ if answer != Answer::Unusable => failure(self.stage(), why),
            Some(outage) => failure(self.stage(), format!("whether there is metadata is not known: {outage}")),
            None => failure(self.stage(), format!("there is no metadata; last, {why}")),
        }
    }

    /// The current place has no metadata, or did not respond.
    fn unusable(&mut self, core: &Core, is_modern: bool, why: &str) -> Next {
        let next = self.on_answer(core, Answer::Unusable, is_modern, why);
        if let (Input::Next, Some(walk)) = (next.0, self.phase.walk()) {
            walk.redirects = 0;
            walk.places.pop_front();
            if let (true, Phase::Server(search)) = (walk.places.is_empty(), &mut self.phase) {
                search.issuers.pop_front();
                search.begin();
            }
        }
        next
    }

    /// What the current place has is not used.
    fn refused(&mut self, core: &Core, why: &str) -> Next {
        match self.phase.walk().and_then(|walk| walk.places.front()) {
            Some(place) => {
                let why = format!("the metadata at `{place}` is refused: {why}");
                self.on_answer(core, Answer::Refused, false, &why)
            }
            None => failure(self.stage(), why),
        }
    }

    /// The response from the current place ended.
    fn metadata_ended(&mut self, core: &Core, exchange: &Exchange, is_modern: bool) -> Option<Next> {
        let walk = self.phase.walk()?;
        let place = walk.places.front()?.clone();
        let status = exchange.status.unwrap_or_default();
        if status.is_redirection() {
            let target = exchange.location.as_deref().and_then(|location| place.resolve(location));
            let target = target.filter(|to| to.is_same_origin(&place) && walk.redirects < REDIRECTS);
            let why = format!("`{place}` redirects to another origin, to no URL, or more than {REDIRECTS} times");
            return Some(match (target, walk.places.front_mut()) {
                (Some(target), Some(front)) => {
                    *front = target;
                    walk.redirects = walk.redirects.saturating_add(1);
                    self.on_answer(core, Answer::Moved, is_modern, &why)
                }
                _ => self.on_answer(core, Answer::MovedAway, is_modern, &why),
            });
        }
        if status != StatusCode::OK {
            let why: Box<str> = format!("`{place}` answered HTTP {}", status.as_u16()).into();
            if is_outage(status) {
                walk.outage.get_or_insert(why.clone());
            }
            return Some(self.unusable(core, is_modern, &why));
        }
        let read = if let Phase::Server(search) = &self.phase {
            search.read(core, &exchange.body).map(|server| Payload::Server(Box::new(server)))
        } else {
            let read = Resource::read(&exchange.body, &core.server, &core.options);
            read.and_then(|resource| self.without_secrets(core, resource)).map(Payload::Resource)
        };
        Some(match read {
            Ok(Payload::Resource(resource)) if self.may_be_outdated(&resource) => {
                let why =
                    format!("`{place}` names another authorization server than the one that issued the credentials");
                self.unusable(core, is_modern, &why)
            }
            Ok(document) => (self.on_answer(core, Answer::Accepted, is_modern, "").0, document),
            Err(Unfit::NoMetadata(why)) => {
                let why = exchange.encoded().map_or(why, Into::into);
                self.unusable(core, is_modern, &format!("at `{place}`, {why}"))
            }
            Err(Unfit::Refused(why)) => self.refused(core, &why),
        })
    }

    /// The metadata, unless what would be shown, and sent elsewhere, repeats a secret. What the embedder named is its own.
    fn without_secrets(&self, core: &Core, mut resource: Resource) -> Result<Resource, Unfit> {
        let hider = self.hider(core);
        let is_named =
            |issuer: &str| core.options.tolerance.issuer.as_deref() == Some(issuer) || self.is_own(core, issuer);
        resource.scopes.take_if(|scopes| hider.finds_in(scopes));
        if resource.issuers.iter().any(|issuer| !is_named(issuer) && hider.finds_in(issuer)) {
            return Err(Unfit::Refused("its `authorization_servers` repeat a secret".into()));
        }
        if *resource.resource != *core.server.text() && hider.finds_in(&resource.resource) {
            return Err(Unfit::Refused("its `resource` repeats a secret".into()));
        }
        Ok(resource)
    }

    /// Whether metadata names other authorization servers than the one that issued the credentials, and a place before it,
    /// which could not be read, may name that one.
    fn may_be_outdated(&self, resource: &Resource) -> bool {
        let is_unknown = matches!(&self.phase, Phase::Resource(walk) if walk.outage.is_some());
        let former = self.task.former.as_ref().filter(|_| is_unknown);
        former.is_some_and(|former| !resource.issuers.iter().any(|issuer| is_same_issuer(issuer, &former.asked)))
    }

    /// Decides what follows when the metadata is known, with what came last.
    fn plan(&mut self, core: &mut Core, payload: Payload) -> Option<Next> {
        match (payload, core::mem::replace(&mut self.phase, Phase::Begin)) {
            (Payload::Server(server), Phase::Server(Search { resource, is_assumed, .. })) => {
                let metadata = Metadata { resource, server: *server, is_conventional: is_assumed };
                self.phase = Phase::Obtaining(Box::new(Obtaining::new(Box::new(metadata), &self.task)));
            }
            (Payload::Metadata(metadata), _) => {
                self.phase = Phase::Obtaining(Box::new(Obtaining::new(metadata, &self.task)));
            }
            (payload, phase) => {
                self.phase = phase;
                self.phase.obtaining()?.receive(payload);
            }
        }
        Some(self.phase.obtaining()?.plan(core, &self.task))
    }

    /// Starts the wait before the next request.
    fn pause(&mut self, core: &mut Core) {
        let requests = self.phase.obtaining().map_or(self.walks, |it| it.sent);
        let wait = Duration::from_secs(1).saturating_mul(1 << requests.min(8));
        let jitter = wait.saturating_mul(core.entropy.byte().into()).checked_div(512).unwrap_or_default();
        let until = core.now + wait + jitter;
        match self.phase.obtaining() {
            Some(it) => it.step = Step::Pausing(until),
            None => {
                let outage = self.phase.walk().and_then(|walk| walk.outage.take());
                self.phase = Phase::Waiting(until, self.stage(), outage);
            }
        }
    }

    fn failed(&self, core: &Core, payload: Payload) -> Option<End> {
        let Payload::Failure(OAuthError { stage, reason }) = payload else { return None };
        let stage = if self.task.need == Need::StepUp { Stage::StepUp } else { stage };
        Some(End::Failed(OAuthError { stage, reason: self.hider(core).hide(&reason).into() }))
    }

    /// Hides the secrets that a server could repeat.
    fn hider(&self, core: &Core) -> Hider {
        let obtaining = if let Phase::Obtaining(it) = &self.phase { Some(it) } else { None };
        let secrets = core.options.secrets().chain(obtaining.into_iter().flat_map(|it| it.secrets()));
        Hider::new(secrets.chain(self.task.secrets()).map(Secret::expose))
    }
}

impl Search {
    /// Begins a walk through the places of the next authorization server.
    fn begin(&mut self) {
        let places = self.issuers.front().into_iter().flat_map(Place::server_metadata);
        self.walk.places = places.filter_map(|text| Place::parse(&text)).collect();
    }

    fn read(&self, core: &Core, body: &[u8]) -> Result<Server, Unfit> {
        let read = |asked: &Place| Server::read(body, asked, core.zone, &core.options);
        let asked = self.issuers.front().ok_or_else(|| Unfit::NoMetadata("nobody asked for it".into()))?;
        // An assumed issuer has no spelling of its own: with a final slash it is the same.
        let slashed = Place::parse(&format!("{}/", asked.text())).filter(|_| self.is_assumed);
        match (read(asked), slashed) {
            (Err(Unfit::Refused(_)), Some(slashed)) => read(&slashed),
            (read, _) => read,
        }
    }
}

/// Whether this status says nothing of whether there is metadata.
fn is_outage(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 401 | 403 | 408 | 429)
}
