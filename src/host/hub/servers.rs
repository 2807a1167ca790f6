//! Component: the records of all servers, found by the handles of their sessions without a search.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::event::SessionHandle;
use super::server::Server;

/// The records, each in a slot. A handle has a count in its upper half, so that handles are unique and increasing, and
/// the slot in its lower half.
#[derive(Clone, Debug, Default)]
pub(super) struct Servers {
    slots: Vec<Slot>,
    free: Vec<u32>,
    admissions: u32,
}

/// A record, with the handle of its session.
type Slot = Option<(SessionHandle, Box<Server>)>;

impl Servers {
    /// Whether this many sessions can be created.
    pub(super) fn has_numbers(&self, sessions: usize) -> bool {
        u32::try_from(sessions).is_ok_and(|sessions| self.admissions.checked_add(sessions).is_some())
    }

    /// The slots, the free ones and the count of handles.
    #[cfg(feature = "snapshot")]
    pub(super) fn parts(&self) -> (&[Slot], &[u32], u32) {
        (&self.slots, &self.free, self.admissions)
    }

    /// The servers in these slots, if each handle is of its slot and known, and the free slots are those without one.
    #[cfg(feature = "snapshot")]
    pub(super) fn from_parts(slots: Vec<Slot>, free: Vec<u32>, admissions: u32) -> Option<Self> {
        let mut empty: Vec<_> = (0..).zip(&slots).filter(|(_, it)| it.is_none()).map(|(at, _): (u32, _)| at).collect();
        let mut listed = free.clone();
        empty.sort_unstable();
        listed.sort_unstable();
        let of_slots = slots.iter().enumerate().all(|(at, it)| {
            it.as_ref().is_none_or(|(handle, _)| slot(*handle) == at && handle.0 >> 32 <= u64::from(admissions))
        });
        (empty == listed && of_slots).then_some(Self { slots, free, admissions })
    }

    pub(super) fn insert(&mut self, server: Server) -> SessionHandle {
        self.admissions = self.admissions.saturating_add(1);
        let slot = self.free.pop().unwrap_or_else(|| u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        let handle = SessionHandle(u64::from(self.admissions) << 32 | u64::from(slot));
        let record = Some((handle, Box::new(server)));
        match self.slots.get_mut(slot as usize) {
            Some(free) => *free = record,
            None => self.slots.push(record),
        }
        handle
    }

    pub(super) fn get(&self, handle: &SessionHandle) -> Option<&Server> {
        let (known, server) = self.slots.get(slot(*handle))?.as_ref()?;
        (known == handle).then_some(server)
    }

    pub(super) fn get_mut(&mut self, handle: &SessionHandle) -> Option<&mut Server> {
        let (known, server) = self.slots.get_mut(slot(*handle))?.as_mut()?;
        (known == handle).then_some(server)
    }

    pub(super) fn remove(&mut self, handle: SessionHandle) {
        let of_it =
            self.slots.get_mut(slot(handle)).filter(|it| it.as_ref().is_some_and(|(known, _)| *known == handle));
        let Some(free) = of_it else { return };
        *free = None;
        self.free.extend(u32::try_from(slot(handle)));
        if self.free.len() == self.slots.len() {
            (self.slots, self.free) = (Vec::new(), Vec::new());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len().saturating_sub(self.free.len())
    }

    /// The handles, oldest first.
    pub(super) fn handles(&self) -> Vec<SessionHandle> {
        let mut handles: Vec<_> = self.slots.iter().flatten().map(|(handle, _)| *handle).collect();
        handles.sort_unstable();
        handles
    }
}

/// The lower half of a handle.
const fn slot(handle: SessionHandle) -> usize {
    (handle.0 & 0xFFFF_FFFF) as usize
}
