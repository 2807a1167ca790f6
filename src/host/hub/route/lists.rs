//! The lists of servers that are offered, and the calls that wait for lists.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::Router;
use crate::catalog::Difference;
use crate::client::Outcome;
use crate::host::Saved;
use crate::host::config::ToolPolicy;
use crate::host::hub::event::{CallId, CallKind, HubEvent, SessionHandle};
use crate::host::hub::listing::listing;
use crate::host::hub::offers::{Content, Offer, Origin, rename};
use crate::protocol::{Family, PerFamily};

impl Router {
    /// The lists of a session, whose memory is shared with equal ones.
    pub(super) fn listed(&mut self, handle: SessionHandle) -> Option<Content> {
        let session = self.servers.get_mut(&handle)?.connection.as_mut()?;
        for family in Family::EACH {
            if let Some(list) = session.catalog().held(family) {
                let shared = self.sharing.list(family, Arc::clone(list));
                session.run(|engine| engine.share_list(family, shared));
            }
        }
        let catalog = session.catalog().clone();
        let families = PerFamily::from_fn(|family| session.family(family).status);
        let instructions = session.server().and_then(|server| server.instructions.clone());
        Some(Content { catalog, families, instructions, saved: None })
    }

    /// Takes saved lists: shares the memory of equal ones, and keeps the era for the next start.
    pub(super) fn take_saved(&mut self, handle: SessionHandle, saved: Saved) -> Option<Content> {
        let Saved { at, known_era, instructions, mut catalog, families, fresh_until, scope, .. } = saved;
        self.servers.get_mut(&handle)?.known_era = known_era;
        for family in Family::EACH {
            if let Some(list) = catalog.held(family) {
                let shared = self.sharing.list(family, Arc::clone(list));
                catalog.share(family, shared);
            }
        }
        Some(Content { catalog, families, instructions, saved: Some(Box::new(Origin { at, fresh_until, scope })) })
    }

    /// The lists that are offered.
    pub(super) fn offered(&self, handle: SessionHandle) -> Option<Content> {
        self.servers.get(&handle)?.offer.as_ref().map(|offer| offer.content.clone())
    }

    /// Passes the lists to the next session, which is returned.
    pub(super) fn hand_over(&mut self, handle: SessionHandle) -> Option<SessionHandle> {
        let offer = self.servers.get_mut(&handle).and_then(|server| server.offer.take());
        let next = self.next(handle)?;
        self.servers.get_mut(&next)?.offer = offer;
        Some(next)
    }

    /// Offers these lists of a server, or none. Returns how its functions change.
    pub(super) fn offer(&mut self, handle: SessionHandle, content: Option<Content>) -> Option<(Arc<str>, Difference)> {
        let server = self.servers.get_mut(&handle)?;
        let name = Arc::clone(&server.name);
        let no_policy = ToolPolicy::default();
        let policy = self.configuration.servers.get(&*name).map_or(&no_policy, |entry| &entry.tools);
        let offer = content.map(|content| {
            let tools = (content.catalog.held(Family::Tools), content.view());
            let chosen = self.sharing.choose(&name, policy, self.options.suspicion, tools);
            Offer { content, chosen }
        });
        let former = core::mem::replace(&mut server.offer, offer);
        let same = match (&former, &server.offer) {
            (Some(a), Some(b)) => Arc::ptr_eq(&a.chosen, &b.chosen),
            // Restored names are kept for tools that may come.
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let difference = (!same).then(|| {
            let (before, after) = (former.as_ref().map(|it| &*it.chosen), server.offer.as_ref().map(|it| &*it.chosen));
            rename(&mut self.names, &name, before, after)
        });
        if let Some(Offer { content, chosen }) = former {
            self.sharing.release(&content.catalog, chosen);
        }
        difference.filter(|it| !it.is_empty()).map(|difference| (name, difference))
    }

    /// Ends the calls that wait for lists, with what is known or as not sent.
    pub(super) fn end_list_calls(&mut self, handle: SessionHandle, with_lists: bool) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        for (number, utility) in core::mem::take(&mut server.list_calls) {
            let known = server.offer.as_ref().filter(|_| with_lists);
            let outcome =
                known.map_or(Outcome::NotSent, |offer| Outcome::Result(listing(&offer.content.catalog, utility)));
            let call = CallId { session: handle, kind: CallKind::List(number, utility) };
            let server = Arc::clone(&server.name);
            self.queue.report(HubEvent::Finished { call, server, outcome, attempts: 0 });
        }
    }

    /// Cancels unsent calls that the filters do not allow any more.
    pub(super) fn give_up_calls(&mut self, handle: SessionHandle) {
        let now = self.now;
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let (Some(session), Some(offer)) = (&mut server.connection, &server.offer) else { return };
        for (request, _) in server.calls.iter().filter(|(_, target)| !offer.chosen.has(target)) {
            if session.is_unsent(*request) {
                // The request is open.
                let _ = session.run(|engine| engine.cancel(now, *request, None));
            }
        }
        self.queue.touch(handle, &mut server.pending);
    }
}
