//! What is known of a server's lists, and the calls that wait for them.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::{Router, Subject};
use crate::client::Outcome;
use crate::host::Saved;
use crate::host::config::ToolPolicy;
use crate::host::hub::calls::listing;
use crate::host::hub::event::{CallId, CallKind, HubEvent, SessionHandle};
use crate::host::hub::offers::{Content, Offer, Origin, rename};
use crate::machine::hub_server::Input;
use crate::machine::{hub, hub_offer};
use crate::protocol::{Family, PerFamily};

impl Router {
    /// Steps the table of a server's lists, and applies the effects. `content` are the lists that the input is about.
    pub(in super::super) fn offer_step(
        &mut self,
        handle: SessionHandle,
        input: hub_offer::Input,
        mut content: Option<Content>,
    ) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let row = hub_offer::take(server.offer_state, input);
        server.offer_state = row.next;
        for effect in row.effects {
            match effect {
                hub_offer::Effect::Offer => self.offer(handle, content.take()),
                hub_offer::Effect::Start => self.step(handle, Input::Wanted),
                hub_offer::Effect::Filter => self.filter(handle),
                hub_offer::Effect::HandOver => self.hand_over(handle),
                hub_offer::Effect::Withdraw => self.offer(handle, None),
                hub_offer::Effect::Present => self.note_present(handle, true),
                hub_offer::Effect::Absent => self.note_present(handle, false),
            }
        }
    }

    /// Chooses from the known lists again.
    fn filter(&mut self, handle: SessionHandle) {
        let offer = self.servers.get(&handle).and_then(|server| server.offer.clone());
        if let Some(Offer { content, .. }) = offer {
            self.offer(handle, Some(content));
            self.give_up_calls(handle);
        }
    }

    /// Passes the lists to the next session.
    fn hand_over(&mut self, handle: SessionHandle) {
        let offer = self.servers.get_mut(&handle).and_then(|server| server.offer.take());
        let next = self.next(handle);
        if let (Some(next), Some(server)) = (next, next.and_then(|next| self.servers.get_mut(&next))) {
            server.offer = offer;
            self.offer_step(next, hub_offer::Input::Inherited, None);
        }
    }

    /// Offers the lists of a session.
    pub(super) fn offer_listed(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let Some(session) = &mut server.connection else { return };
        for family in Family::EACH {
            if let Some(list) = session.catalog().held(family) {
                let shared = self.sharing.list(family, Arc::clone(list));
                session.run(|engine| engine.share_list(family, shared));
            }
        }
        let catalog = session.catalog().clone();
        let families = PerFamily::from_fn(|family| session.family(family).status);
        let instructions = session.server().and_then(|server| server.instructions.clone());
        let content = Content { catalog, families, instructions, saved: None };
        self.offer_step(handle, hub_offer::Input::Listed, Some(content));
    }

    /// Offers saved lists until the server is started.
    pub(in super::super) fn offer_saved(&mut self, handle: SessionHandle, saved: Saved) {
        let Saved { at, known_era, instructions, mut catalog, families, fresh_until, scope, .. } = saved;
        let Some(server) = self.servers.get_mut(&handle) else { return };
        server.known_era = known_era;
        for family in Family::EACH {
            if let Some(list) = catalog.held(family) {
                let shared = self.sharing.list(family, Arc::clone(list));
                catalog.share(family, shared);
            }
        }
        let content =
            Content { catalog, families, instructions, saved: Some(Box::new(Origin { at, fresh_until, scope })) };
        self.offer_step(handle, hub_offer::Input::Restored, Some(content));
    }

    /// Offers these lists of a server, or none.
    fn offer(&mut self, handle: SessionHandle, content: Option<Content>) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
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
        if !same {
            let (before, after) = (former.as_ref().map(|it| &*it.chosen), server.offer.as_ref().map(|it| &*it.chosen));
            let difference = rename(&mut self.names, &name, before, after);
            if !difference.is_empty() {
                self.hub_step(hub::Input::Changed, Subject::Functions(name, difference));
            }
        }
        if let Some(Offer { content, chosen }) = former {
            self.sharing.release(&content.catalog, chosen);
        }
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
    fn give_up_calls(&mut self, handle: SessionHandle) {
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
