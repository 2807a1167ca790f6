//! Chooses names for new tools.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::name::Name;
use super::{MAX_LEN, Names, Target};
use crate::catalog::hash;

/// Maximum attempts to find a free suffix for a tool.
const TRIES: u32 = 32;

/// Number of characters of a name kept before a suffix.
pub(super) const KEPT: usize = 55;

/// Priority of a claim to a plain name, highest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Own,
    Utility,
    Changed,
}

impl Names {
    /// Assigns names to new tools, which are sorted by server and target, and distinct.
    pub(super) fn assign(&mut self, fresh: Vec<(Arc<str>, Target)>) {
        let mut claims: Vec<(String, Rank, usize)> = Vec::with_capacity(fresh.len());
        for (index, (server, target)) in fresh.iter().enumerate() {
            let plain = self.plain(server, target);
            if plain.len() > MAX_LEN {
                continue;
            }
            let rank = match target {
                _ if !self.is_unchanged(server, target) => Rank::Changed,
                Target::Tool(_) => Rank::Own,
                Target::Utility(_) => Rank::Utility,
            };
            claims.push((plain, rank, index));
        }
        claims.sort_unstable();
        let mut names = alloc::vec![None; fresh.len()];
        // The plain names that are assigned here, sorted.
        let mut plains: Vec<&str> = Vec::with_capacity(claims.len());
        for claims in claims.chunk_by(|a, b| a.0 == b.0) {
            // The best claim, unless several have its rank.
            let [(plain, rank, index), ..] = claims else { continue };
            let alone = claims.get(1).is_none_or(|(_, second, _)| rank < second);
            if let (true, Some(name)) = (alone && !self.is_taken(plain), names.get_mut(*index)) {
                plains.push(plain);
                *name = Some(Name::Plain);
            }
        }
        // The next attempt number, by the first attempt that was taken.
        let mut retries: BTreeMap<String, u32> = BTreeMap::new();
        for ((server, target), name) in fresh.iter().zip(&mut names).filter(|(_, name)| name.is_none()) {
            let plain = self.plain(server, target);
            let kept = plain.get(..KEPT).unwrap_or(&plain);
            let suffixed = |number| format!("{kept}_{:08x}", digits(server, target, number));
            let is_taken = |name: &str| self.is_taken(name) || plains.binary_search(&name).is_ok();
            let mut free = Some(suffixed(0));
            if let Some(first) = free.take_if(|first| is_taken(first)) {
                let next = retries.entry(first).or_insert(1_u32);
                let mut tries = (*next..next.saturating_add(TRIES)).inspect(|number| *next = number.saturating_add(1));
                free = tries.by_ref().map(suffixed).find(|name| !is_taken(name));
            }
            if let Some(free) = free.map(Arc::<str>::from) {
                self.stored.insert(Arc::clone(&free), (Arc::clone(server), target.clone()));
                *name = Some(Name::Suffixed(free));
            }
        }
        let mut named = fresh.into_iter().zip(names).peekable();
        while let Some(((server, _), _)) = named.peek() {
            let server = Arc::clone(server);
            let of_it = core::iter::from_fn(|| named.next_if(|((next, _), _)| *next == server));
            let of_it = of_it.filter_map(|((_, target), name)| Some((target, name?))).collect();
            self.keep(&server, of_it);
        }
    }
}

/// The digits of a suffix, as a number.
fn digits(server: &str, target: &Target, number: u32) -> u32 {
    let mut bytes = Vec::from(server);
    bytes.push(match target {
        Target::Tool(_) => 0xFF,
        Target::Utility(_) => 0xFE,
    });
    bytes.extend_from_slice(target.name().as_bytes());
    if number > 0 {
        bytes.push(0xFF);
        bytes.extend_from_slice(format!("{number}").as_bytes());
    }
    let [.., a, b, c, d] = hash(&bytes).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}
