//! A run: what it connects to, and its final state.

use std::time::Duration;

use mcp_proto::binding::oauth::Authorization;
use mcp_proto::host::hub::{Hub, HubOAuth, HubOptions};
use mcp_proto::{Reconnect, Time};

use crate::access::Access;
use crate::args::{Settings, Target};
use crate::child::Program;
use crate::engine::{Engine, Session, seed};
use crate::file::Plan;
use crate::interrupt::Interrupt;
use crate::journal::Journal;
use crate::oauth_args::OAuthSettings;
use crate::options::{entropy, options, unix, unopened};
use crate::peer::{Peer, Place};
use crate::record::{CallRecord, FailureReport};
use crate::run_state::Run;
use crate::toolset_report::Offered;
use crate::trace::Trace;

/// The final state of a server.
pub(crate) struct Ended {
    pub(crate) session: mcp_proto::Engine,
    pub(crate) peer: Peer,
}

/// The final state of all servers of a file.
pub(crate) struct AllEnded {
    pub(crate) servers: Vec<Ended>,
    pub(crate) offered: Offered,
    pub(crate) calls: Vec<CallRecord>,
}

/// Connects, discovers, calls, watches, closes.
///
/// # Errors
/// What is wrong with the options of `--oauth`.
pub(crate) fn run(
    settings: &Settings,
    target: &Target,
    journal: Journal,
    interrupt: &Interrupt,
) -> Result<Ended, String> {
    let place = match target {
        Target::Demo => Place::Demo { counted: settings.watch.is_some() },
        Target::Stdio { program, args } => {
            Place::Process(Program { program: program.clone(), args: args.clone(), ..Program::default() })
        }
        Target::Http { .. } => Place::Web(settings.headers.clone()),
    };
    let mut options = options(settings);
    options.server = target.name().into();
    let trace = Trace::new(options.limits.message, settings.diagram);
    let peer = Peer::new(target.name(), place, trace);
    let mut access = settings.oauth.as_ref().map(listening).transpose()?;
    let engine = match (target, &settings.oauth, &mut access) {
        (Target::Http { url, http, .. }, Some(oauth), Some(access)) => {
            access.url = Some(url.clone());
            let options_of = oauth.options(access.redirect_uri());
            let authorization = Authorization::new(url, options_of, entropy()?, Time::ZERO, unix());
            let authorization = authorization.map_err(|wrong| format!("--oauth: {wrong}"))?;
            Engine::authorizing(options.clone(), (**http).clone(), authorization)
        }
        _ => Engine::one(options.clone(), target, &settings.headers, journal.limits()),
    };
    let mut run = Run::new(settings, interrupt, engine, journal, vec![peer], access);
    run.go();
    let Run { engine, mut peers, calls, .. } = run;
    let mut peer = peers.swap_remove(0);
    peer.record.calls = calls;
    let session = peer.last.take().or_else(|| engine.session(0).cloned());
    let unauthorized = |failure: &FailureReport| failure.kind == "unauthorized" && settings.oauth.is_none();
    if let Some(failure) = peer.record.failure.as_mut().filter(|failure| unauthorized(failure))
        && let Some(offer) = crate::auth::offer(settings, target, interrupt)
    {
        failure.message.push_str(&offer);
    }
    Ok(Ended { session: session.unwrap_or_else(|| unopened(options)), peer })
}

fn listening(oauth: &OAuthSettings) -> Result<Access, String> {
    Access::new(oauth).map_err(|error| format!("--oauth: no redirect can be received: {error}"))
}

/// The same with all servers of a file in parallel; calls use exposed names.
///
/// # Errors
/// What is wrong with the options of `--oauth`.
pub(crate) fn run_all(settings: &Settings, plan: &mut Plan, interrupt: &Interrupt) -> Result<AllEnded, String> {
    let mut base = options(settings);
    // A server that was ready is started again for the calls that follow; one that fails at first is reported.
    let mut reconnect = Reconnect::default();
    (reconnect.initial, reconnect.first) = (Duration::from_millis(250), 1);
    base.reconnect = Some(reconnect);
    let mut hub_options = HubOptions::new(base.clone());
    // A requested call must be tried, so there is no breaker.
    hub_options.breaker = None;
    let mut hub = Hub::new(hub_options, seed());
    let access = settings.oauth.as_ref().map(listening).transpose()?;
    if let (Some(oauth), Some(access)) = (&settings.oauth, &access) {
        let options = oauth.options(access.redirect_uri());
        hub = hub.with_oauth(HubOAuth::new(options, entropy()?, Time::ZERO, unix()));
    }
    // A new hub accepts any configuration.
    let _ = hub.configure(Time::ZERO, plan.configuration.clone());
    let (mut handles, mut peers) = (Vec::new(), Vec::new());
    for (name, place) in std::mem::take(&mut plan.places) {
        if let Some(handle) = hub.handle(&name) {
            handles.push(handle);
            peers.push(Peer::new(name.into(), place, Trace::new(base.limits.message, false)));
        }
    }
    let engine = Engine::new(Session::Hub(Box::new(hub), handles));
    let mut run = Run::new(settings, interrupt, engine, Journal::none(), peers, access);
    run.go();
    let Run { engine, peers, calls, offered, .. } = run;
    let end = |(at, mut peer): (usize, Peer)| {
        let session = peer.last.take().or_else(|| engine.session(at).cloned());
        let named = || {
            let mut options = base.clone();
            options.server = (&*peer.name).into();
            unopened(options)
        };
        Ended { session: session.unwrap_or_else(named), peer }
    };
    let servers = peers.into_iter().enumerate().map(end).collect();
    Ok(AllEnded { servers, offered: offered.unwrap_or_default(), calls })
}
