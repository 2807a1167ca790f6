//! The steps of a run: what to do when a server is ready, fails or responds, and when time is up.

use std::time::{Duration, Instant};

use mcp_proto::{Failure, Time};

use crate::engine::{InFlight, Refused};
use crate::events::Reaction;
use crate::peer::Peer;
use crate::record::{CallRecord, ErrorReport, FailureReport};
use crate::run_state::Run;
use crate::toolset_report::Offered;

impl Run<'_> {
    pub(crate) fn watch_ends(&self) -> Option<Instant> {
        self.watched?.checked_add(self.settings.watch?)
    }

    /// Whether the run ends before this time.
    fn ends_before(&self, time: Time) -> bool {
        let end = self.watch_ends().or(self.deadline);
        end.is_some_and(|end| self.clock.at(end) < time)
    }

    pub(crate) fn react(&mut self, at: usize, reaction: Reaction) {
        match reaction {
            Reaction::Nothing => {}
            Reaction::Ready if self.is_hub() => {
                self.announce(at, &self.summary(at));
                self.proceed();
            }
            Reaction::Ready if self.calling.is_none() => self.next_step(),
            Reaction::Ready => {}
            Reaction::Finished(request, outcome) => self.finished(InFlight::Request(request), outcome),
            // The hub handles its sessions.
            Reaction::Parked(_) | Reaction::Closing if self.is_hub() => {}
            // No reconnect will happen within the run.
            Reaction::Parked(until) if self.ends_before(until) => self.close(),
            Reaction::Parked(_) => {}
            Reaction::Closing => drop(self.closing.get_or_insert_with(Instant::now)),
            Reaction::Closed => {
                let session = self.engine.session(at).cloned();
                if let Some(peer) = self.peers.get_mut(at) {
                    peer.last = session;
                }
            }
        }
    }

    /// A server of a hub failed or closed.
    pub(crate) fn failed(&mut self, at: usize, failure: &Failure) {
        if let Some(peer) = self.peers.get_mut(at).filter(|peer| !peer.is_authorizing) {
            let FailureReport { kind, message } = peer.record.failure.get_or_insert_with(|| failure.into());
            let text = format!("failed: {kind}: {message}");
            self.announce(at, &text);
        }
    }

    /// Starts the steps of a hub when no server is starting or waits for a token.
    pub(crate) fn proceed(&mut self) {
        let is_waiting = self.peers.iter().any(|peer| peer.is_authorizing);
        if self.is_settled && !is_waiting && self.closing.is_none() && self.calling.is_none() {
            self.next_step();
        }
    }

    /// Prints the state of one of several servers at once.
    pub(crate) fn announce(&self, at: usize, text: &str) {
        let name = self.peers.get(at).map_or_else(String::new, |peer| crate::text::one_line(&peer.name));
        let now = Duration::from_millis(self.now().as_millis()).as_secs_f64();
        crate::output::write_stderr(&format!("probe: {now:.3} s  {name}  {}\n", crate::text::one_line(text)));
    }

    fn summary(&self, at: usize) -> String {
        let tools = self.engine.session(at).map_or(0, |session| session.catalog().tools().count());
        format!("ready, {tools} {}", if tools == 1 { "tool" } else { "tools" })
    }

    /// Starts the next possible step; after the last one watches or closes.
    pub(crate) fn next_step(&mut self) {
        while let Some(step) = self.settings.steps.get(self.calls.len()) {
            if !self.is_hub() && !self.engine.session(0).is_some_and(mcp_proto::Engine::is_ready) {
                return;
            }
            let now = self.now();
            match self.engine.start(now, step) {
                Ok(in_flight) => {
                    self.calling = Some((in_flight, now));
                    return;
                }
                Err(Refused(outcome, why)) => {
                    let error = why.map(ErrorReport::new);
                    self.calls.push(CallRecord { error, ..CallRecord::without_answer(step, outcome) });
                }
            }
        }
        if self.settings.watch.is_some() {
            self.watched.get_or_insert_with(Instant::now);
        } else {
            self.close();
        }
    }

    pub(crate) fn finished(&mut self, in_flight: InFlight, outcome: mcp_proto::Outcome) {
        let Some((_, since)) = self.calling.take_if(|(calling, _)| *calling == in_flight) else { return };
        let Some(step) = self.settings.steps.get(self.calls.len()) else { return };
        // Only the run's timeout cancels a call.
        let late = matches!(outcome, mcp_proto::Outcome::Cancelled);
        let outcome = if late { mcp_proto::Outcome::TimedOut(mcp_proto::TimeBound::Total) } else { outcome };
        let took = Some(self.engine.now().since(since));
        let server = self.engine.server_of(in_flight).and_then(|at| self.peers.get(at)).map(|peer| peer.name.clone());
        self.calls.push(CallRecord { took, server, ..CallRecord::ended(step, outcome) });
        if self.closing.is_none() {
            self.next_step();
        }
    }

    pub(crate) fn close(&mut self) {
        let now = self.now();
        self.closing.get_or_insert_with(Instant::now);
        if let Some(hub) = self.engine.hub() {
            self.offered.get_or_insert_with(|| Offered::of(hub));
        }
        self.engine.close(now);
    }

    pub(crate) fn note(&mut self, text: &str) {
        for peer in &mut self.peers {
            peer.trace.note(text);
        }
    }

    /// The run timed out: notes which servers are not done.
    pub(crate) fn fail_late(&mut self) {
        let (is_hub, timeout) = (self.is_hub(), self.settings.timeout);
        let late = |(_, peer): &(usize, &Peer)| !is_hub || !peer.record.ready && peer.record.failure.is_none();
        let late: Vec<usize> = self.peers.iter().enumerate().filter(late).map(|(at, _)| at).collect();
        for at in late {
            let idle = self.idle();
            let Some(peer) = self.peers.get_mut(at) else { continue };
            let message = format!("not done within {timeout:?}: waited for {}", peer.waiting(false, idle));
            let failure = FailureReport { kind: "timeout".into(), message };
            let FailureReport { kind, message } = peer.record.failure.get_or_insert(failure);
            if is_hub {
                let text = format!("failed: {kind}: {message}");
                self.announce(at, &text);
            }
        }
        self.note("time is up");
    }

    const fn idle(&self) -> &'static str {
        if self.watched.is_some() { "the end of the watch" } else { "the server" }
    }

    /// What the run is waiting for, for people.
    pub(crate) fn waiting(&self) -> String {
        let (closing, idle) = (self.closing.is_some(), self.idle());
        if let (false, [peer]) = (self.is_hub(), self.peers.as_slice()) {
            return peer.waiting(closing, idle);
        }
        let starting = |peer: &&Peer| !peer.record.ready && peer.record.failure.is_none();
        let awaited: Vec<&Peer> = self.peers.iter().filter(starting).collect();
        if closing || awaited.is_empty() {
            let step = self.settings.steps.get(self.calls.len()).filter(|_| self.calling.is_some() && !closing);
            return step.map_or_else(|| "the servers to end".into(), |step| format!("`{}`", step.target));
        }
        let listed: Vec<String> = awaited
            .iter()
            .take(4)
            .map(|peer| format!("{} ({})", crate::text::one_line(&peer.name), peer.waiting(closing, idle)))
            .collect();
        let more = awaited.len().saturating_sub(listed.len());
        format!("{}{}", listed.join(", "), if more > 0 { format!(", and {more} more") } else { String::new() })
    }
}
