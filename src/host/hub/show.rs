//! What a model sees of all servers.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::event::{HubEvent, SessionHandle};
use super::member::Offer;
use super::shelf::Chosen;
use super::{Hub, Phase};
use crate::catalog::{Catalog, Difference};
use crate::client::FamilyStatus;
use crate::host::Saved;
use crate::host::config::ToolPolicy;
use crate::host::names::{self, Names, Target};
use crate::host::toolset::{self, Choice, Function, Toolset};
use crate::protocol::{Family, PerFamily};

impl Hub {
    /// The functions that a model is told of, with their servers, by the servers' names: of each the tools in the
    /// server's order, then the utility tools.
    pub fn functions(&self) -> impl Iterator<Item = (&str, Function<'_>)> {
        self.current.keys().flat_map(|server| {
            let toolset = self.toolset(server);
            let functions = toolset.map(|toolset| toolset.into_functions(&self.names)).into_iter().flatten();
            functions.map(move |function| (&**server, function))
        })
    }

    /// What a model may call of a server; `None` where there is nothing, or nothing is known of it.
    pub fn toolset(&self, server: &str) -> Option<Toolset<'_>> {
        let (server, handle) = self.current.get_key_value(server)?;
        let Offer { catalog, chosen, .. } = self.members.get(handle)?.offer.as_ref()?;
        let tools: Vec<_> = catalog.tools().filter(|tool| chosen.has_tool(tool.name)).collect();
        let utilities: Vec<_> = chosen.utilities().collect();
        (!tools.is_empty() || !utilities.is_empty()).then_some(Toolset { server, tools, utilities })
    }

    /// What was chosen of a server's tools, with what was left out and why, and what tries to instruct the model; `None`
    /// where nothing is known of it.
    pub fn choice(&self, server: &str) -> Option<Choice<'_>> {
        let (server, handle) = self.current.get_key_value(server)?;
        let offer = self.members.get(handle)?.offer.as_ref()?;
        let policy = &self.configuration.servers.get(&**server)?.tools;
        Some(toolset::choose(server, policy, offer.view(), self.options.suspicion).named(&self.names))
    }

    /// The exposed names of all servers' tools, and the way back. They are there after the end, too, to be kept for the
    /// next run.
    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// A session told what its server offers.
    pub(super) fn show(&mut self, handle: SessionHandle) {
        let Some(member) = self.members.get_mut(&handle) else { return };
        let Some(session) = &mut member.connection else { return };
        if self.current.get(&member.name) != Some(&handle) {
            return;
        }
        for family in Family::EACH {
            if let Some(list) = session.catalog().held(family) {
                let shared = self.shelf.list(family, Arc::clone(list));
                session.command(|engine| engine.share_list(family, shared));
            }
        }
        let catalog = session.catalog().clone();
        let families = PerFamily::from_fn(|family| session.family(family).status);
        let instructions = session.server().and_then(|server| server.instructions.clone());
        self.offer(handle, Some((catalog, families, instructions)));
    }

    /// What was saved of a server is all that is known of it.
    pub(super) fn stand_in(&mut self, handle: SessionHandle, saved: Saved) {
        let Saved { at, known_era, instructions, mut catalog, families, .. } = saved;
        let Some(member) = self.members.get_mut(&handle) else { return };
        (member.known_era, member.stands_in) = (known_era, Some(at));
        let server = Arc::clone(&member.name);
        for family in Family::EACH {
            if let Some(list) = catalog.held(family) {
                let shared = self.shelf.list(family, Arc::clone(list));
                catalog.share(family, shared);
            }
        }
        self.offer(handle, Some((catalog, families, instructions)));
        self.note_required(&server);
        self.unsettled = true;
    }

    /// A server's policy is another.
    pub(super) fn choose_again(&mut self, handle: SessionHandle) {
        let Some(offer) = self.members.get(&handle).and_then(|member| member.offer.clone()) else { return };
        self.offer(handle, Some((offer.catalog, offer.families, offer.instructions)));
        self.give_up_calls(handle);
    }

    /// A server offers this from here on; nothing, where there is nothing.
    pub(super) fn offer(
        &mut self,
        handle: SessionHandle,
        offer: Option<(Catalog, PerFamily<FamilyStatus>, Option<Box<str>>)>,
    ) {
        let Some(member) = self.members.get_mut(&handle) else { return };
        let server = Arc::clone(&member.name);
        let no_policy = ToolPolicy::default();
        let policy = self.configuration.servers.get(&*server).map_or(&no_policy, |entry| &entry.tools);
        let offer = offer.map(|(catalog, families, instructions)| {
            let view = toolset::OfferView::new(&catalog, |family| *families.get(family));
            let tools = (catalog.held(Family::Tools), view);
            let chosen = self.shelf.choose(&server, policy, self.options.suspicion, tools);
            Offer { catalog, families, instructions, chosen }
        });
        let former = core::mem::replace(&mut member.offer, offer);
        let same = match (&former, &member.offer) {
            (Some(a), Some(b)) => Arc::ptr_eq(&a.chosen, &b.chosen),
            // Names of a run before are kept for what may come.
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !same {
            let after = member.offer.as_ref().map(|offer| Arc::clone(&offer.chosen));
            self.tell_difference(server, former.as_ref().map(|offer| &*offer.chosen), after.as_deref());
        }
        if let Some(former) = former {
            self.shelf.release(former);
        }
    }

    fn tell_difference(&mut self, server: Arc<str>, before: Option<&Chosen>, after: Option<&Chosen>) {
        let Parted { gone, fresh, other } = Parted::between(before, after);
        let mut difference = Difference::default();
        let named = |names: &[_], target: &Target| names::find(names, target).map(Box::from);
        let names = self.names.of(&server);
        difference.removed.extend(gone.iter().filter_map(|target| named(names, target)));
        match (before, after) {
            // They stay the server's as long as it is configured, so that no other one gets them meanwhile.
            (_, None) => {}
            // What was restored of names may know more than there is.
            (None, Some(after)) => self.names.update([(&*server, after.targets.iter().cloned())]),
            (Some(_), Some(_)) => self.names.revise(&server, &gone, &fresh),
        }
        let names = self.names.of(&server);
        difference.added.extend(fresh.iter().filter_map(|target| named(names, target)));
        difference.changed.extend(other.iter().filter_map(|target| named(names, target)));
        for names in [&mut difference.added, &mut difference.removed, &mut difference.changed] {
            names.sort_unstable();
        }
        if !difference.is_empty() && matches!(self.phase, Phase::Fresh | Phase::Open) {
            self.events.push_back(HubEvent::ToolsetChanged { server, difference });
        }
    }
}

impl Offer {
    pub(super) fn view(&self) -> toolset::OfferView<'_> {
        toolset::OfferView::new(&self.catalog, |family| *self.families.get(family))
    }
}

/// In what two choices differ.
#[derive(Default)]
struct Parted<'a> {
    gone: Vec<&'a Target>,
    fresh: Vec<&'a Target>,
    /// What is in both, and was written otherwise.
    other: Vec<&'a Target>,
}

impl<'a> Parted<'a> {
    fn between(before: Option<&'a Chosen>, after: Option<&'a Chosen>) -> Self {
        let mut parted = Self::default();
        let same = |target| before.zip(after).is_none_or(|(before, after)| before.has_same(after, target));
        let (mut old, mut new) = (Chosen::of(before).iter().peekable(), Chosen::of(after).iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return parted,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(was), Some(is)) => was.cmp(is),
            };
            let was = if order.is_le() { old.next() } else { None };
            let is = if order.is_ge() { new.next() } else { None };
            match (was, is) {
                (Some(target), Some(_)) if !same(target) => parted.other.push(target),
                (Some(target), None) => parted.gone.push(target),
                (None, Some(target)) => parted.fresh.push(target),
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
    }
}
