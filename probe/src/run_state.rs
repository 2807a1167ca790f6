//! The state of a run: sessions, servers and a clock.

use std::time::Instant;

use mcp_proto::Time;

use crate::access::Access;
use crate::args::Settings;
use crate::engine::{Engine, InFlight};
use crate::events::{Clock, EventHandler};
use crate::interrupt::Interrupt;
use crate::journal::Journal;
use crate::peer::Peer;
use crate::progress::Progress;
use crate::record::CallRecord;
use crate::toolset_report::Offered;

/// A run.
pub(crate) struct Run<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) clock: Clock,
    /// When the run times out.
    pub(crate) deadline: Option<Instant>,
    pub(crate) engine: Engine,
    pub(crate) journal: Journal,
    pub(crate) peers: Vec<Peer>,
    /// The user's side of `--oauth`.
    pub(crate) access: Option<Access>,
    pub(crate) progress: Progress,
    pub(crate) calls: Vec<CallRecord>,
    /// The step in flight, with its start.
    pub(crate) calling: Option<(InFlight, Time)>,
    /// When watching began.
    pub(crate) watched: Option<Instant>,
    /// When closing began.
    pub(crate) closing: Option<Instant>,
    /// The credentials are being given up.
    pub(crate) is_signing_out: bool,
    /// What a model would get, saved before closing.
    pub(crate) offered: Option<Offered>,
    /// No server of the hub is starting.
    pub(crate) is_settled: bool,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        interrupt: &'a Interrupt,
        engine: Engine,
        journal: Journal,
        peers: Vec<Peer>,
        access: Option<Access>,
    ) -> Self {
        let start = Instant::now();
        Self {
            settings,
            interrupt,
            clock: Clock(start),
            deadline: start.checked_add(settings.timeout),
            engine,
            journal,
            peers,
            access,
            progress: Progress::new(start),
            calls: Vec::new(),
            calling: None,
            watched: None,
            closing: None,
            is_signing_out: false,
            offered: None,
            is_settled: false,
        }
    }
}

impl Run<'_> {
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) const fn is_hub(&self) -> bool {
        self.engine.hub().is_some()
    }

    /// Records when the handshake completed.
    pub(crate) fn introduced(&mut self, at: usize) {
        let now = self.engine.now();
        if let Some(peer) = self.peers.get_mut(at).filter(|peer| peer.record.introduced.is_none())
            && self.engine.session(at).is_some_and(|session| session.server().is_some())
        {
            peer.record.introduced = Some(now);
        }
    }

    /// How many responses came too late.
    pub(crate) fn late_answers(&self, at: usize) -> u64 {
        self.engine.session(at).map_or(0, |session| session.stats().late_answers)
    }

    /// Takes events of a session.
    pub(crate) fn handler(&mut self, at: usize) -> Option<EventHandler<'_>> {
        let peer = self.peers.get_mut(at).filter(|_| self.engine.session(at).is_some())?;
        Some(EventHandler { settings: self.settings, peer, engine: &mut self.engine, at })
    }
}
