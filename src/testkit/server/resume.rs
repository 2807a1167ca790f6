//! Streams that a client resumes after its connection broke (specification 2025-11-25, "Resumability and Redelivery").

#[cfg(feature = "http")]
use std::format;
#[cfg(feature = "http")]
use std::string::String;
use std::vec::Vec;

use super::parts::FakeServer;
use super::stream::{EVENTS, Stream};
use crate::testkit::channel::ChannelId;
#[cfg(feature = "http")]
use crate::testkit::channel::ServerOutput;

/// Broken streams that wait to be resumed; of more, the oldest are forgotten.
const BROKEN: usize = 256;

impl FakeServer {
    /// Keeps a stream that broke. Returns whether it can be resumed.
    pub(super) fn keep(&mut self, channel: ChannelId) -> bool {
        let known = self.state.channels.get_mut(&channel).and_then(|known| known.resumable.as_mut());
        let Some(stream) = known.filter(|stream| stream.events.len() < EVENTS) else { return false };
        stream.is_broken = true;
        let is_broken = |stream: &Stream| stream.is_broken;
        let broken = self.state.channels.iter().filter(|(_, known)| known.resumable.as_ref().is_some_and(is_broken));
        let broken: Vec<_> = broken.map(|(channel, _)| *channel).collect();
        for oldest in broken.iter().take(broken.len().saturating_sub(BROKEN)) {
            self.state.close(*oldest);
        }
        true
    }

    /// Continues a stream of this session on another connection, after the event with this id.
    #[cfg(feature = "http")]
    pub(super) fn resume(&mut self, channel: ChannelId, session: u64, last: &str) -> Result<(), (u16, String)> {
        let unknown = || (400, "Bad Request: no such event".into());
        let (number, seen) = last.split_once('-').ok_or_else(unknown)?;
        let (number, seen): (u64, usize) = number.parse().ok().zip(seen.parse().ok()).ok_or_else(unknown)?;
        let is_it = |stream: &Stream| stream.number == number && seen <= stream.events.len();
        let mut channels = self.state.channels.iter();
        let found =
            channels.find(|(_, known)| known.session == Some(session) && known.resumable.as_ref().is_some_and(is_it));
        let former = found.map(|(former, _)| *former).ok_or_else(unknown)?;
        let mut known = self.state.channels.remove(&former).ok_or_else(unknown)?;
        let mut missed = Vec::new();
        let mut is_over = false;
        if let Some(stream) = &mut known.resumable {
            stream.is_broken = false;
            is_over = stream.is_over;
            missed.extend(
                stream
                    .events
                    .iter()
                    .enumerate()
                    .skip(seen)
                    .map(|(at, data)| (format!("{number}-{}", at.saturating_add(1)), data.clone())),
            );
        }
        self.state.channels.insert(channel, known);
        self.state.move_to(former, channel);
        self.stream_head(channel);
        for (id, data) in missed {
            self.put_event(channel, Some(&id), &data);
        }
        if is_over {
            self.over(channel, ServerOutput::End);
        }
        Ok(())
    }
}
