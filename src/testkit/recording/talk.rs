//! What a client and its server said to each other, according to a journal.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use serde_json::value::RawValue;

use super::said::{Said, Word, messages};
use crate::binding::{Line, LineDecoder};
use crate::host::hub::{HubAction, HubEvent, SessionHandle};
use crate::journal::{
    Content, HubInput, Input, JournalError, JournalLimits, JournalLine, Kind, Reader, TransportEvent, parsed,
};
use crate::{Action, ConnectionId, Outgoing, Time};

/// Reads a journal of a client: what was said, in order, and whether it was said over HTTP.
pub(super) fn read(journal: &[u8], limits: JournalLimits) -> Result<(bool, Vec<Word>), JournalError> {
    let (kind, reader) = Reader::open(journal, limits)?;
    let is_http = match kind {
        Kind::Pipe => false,
        Kind::Http => true,
        Kind::Hub => return Err(JournalError::OfHub),
    };
    let mut talk = Talk::default();
    each_line(reader, |line| {
        match line.entry {
            Content::Input(input) => talk.input(line.at, &parsed(line.number, input)?),
            Content::Output(recorded) => talk.output(line.at, &action(line.number, recorded, is_http)?),
            Content::Result(_) | Content::End(_) => {}
        }
        Ok(())
    })?;
    Ok((is_http, talk.words))
}

/// Reads a journal of a hub: the same for a server of it.
pub(super) fn read_hub(journal: &[u8], server: &str, limits: JournalLimits) -> Result<(bool, Vec<Word>), JournalError> {
    let (kind, reader) = Reader::open(journal, limits)?;
    if kind != Kind::Hub {
        return Err(JournalError::OfClient);
    }
    let mut talks: BTreeMap<SessionHandle, Talk> = BTreeMap::new();
    let mut sessions = BTreeSet::new();
    each_line(reader, |line| {
        match line.entry {
            Content::Input(input) => {
                let input: HubInput = parsed(line.number, input)?;
                if let HubInput::Session { session, input } = input {
                    talks.entry(session).or_default().input(line.at, &input);
                }
            }
            Content::Output(recorded) => match parsed(line.number, recorded)? {
                Some(HubAction::Event(HubEvent::Session { session, server: name, .. })) if *name == *server => {
                    sessions.insert(session);
                }
                Some(action) => {
                    let sent = hub_action(action);
                    sent.into_iter()
                        .for_each(|(session, sent)| talks.entry(session).or_default().output(line.at, &sent));
                }
                None => {}
            },
            Content::Result(_) | Content::End(_) => {}
        }
        Ok(())
    })?;
    // Where the server's entry was changed, it has several sessions. The last one has the transport that is played.
    let mut talks: Vec<_> = talks.into_iter().filter(|(session, _)| sessions.contains(session)).collect();
    let Some((_, last)) = talks.last() else { return Err(JournalError::NoServer { server: server.into() }) };
    let is_http = last.is_http;
    talks.retain(|(_, talk)| talk.is_http == is_http);
    let mut words = Vec::new();
    let mut base = 0;
    for (_, Talk { words: said, .. }) in talks {
        let highest = said.iter().map(|word| word.channel).max().unwrap_or_default();
        words.extend(said.into_iter().map(|word| Word { channel: word.channel.saturating_add(base), ..word }));
        base = base.saturating_add(highest).saturating_add(1);
    }
    Ok((is_http, words))
}

/// Reads the lines of a journal that follow its header, to its end.
fn each_line(
    mut reader: Reader<'_>,
    mut take: impl FnMut(JournalLine<'_>) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    loop {
        let line = reader.next()?;
        if !line.valid {
            return Err(JournalError::Changed { line: line.number });
        }
        let is_end = matches!(line.entry, Content::End(_));
        take(line)?;
        if is_end {
            return reader.check_end();
        }
    }
}

/// What a client and its server said.
#[derive(Debug, Default)]
struct Talk {
    words: Vec<Word>,
    is_http: bool,
    pipes: Pipes,
    #[cfg(feature = "http")]
    exchanges: super::exchanges::Exchanges,
}

impl Talk {
    fn input(&mut self, at: Time, input: &Input) {
        let mut say = |channel, said| self.words.push(Word { at, channel, said });
        #[cfg(feature = "http")]
        self.exchanges.input(input, &mut say);
        self.pipes.input(input, &mut say);
    }

    fn output(&mut self, at: Time, sent: &Sent) {
        let mut say = |channel, said| self.words.push(Word { at, channel, said });
        match sent {
            Sent::None => {}
            Sent::Pipe(action) => self.pipes.output(action, &mut say),
            #[cfg(feature = "http")]
            Sent::Exchange(request) => {
                self.is_http = true;
                self.exchanges.output(request, &mut say);
            }
        }
    }
}

/// An action that sends something.
enum Sent {
    None,
    Pipe(Action),
    #[cfg(feature = "http")]
    Exchange(crate::binding::http::HttpRequest),
}

fn action(line: usize, recorded: &RawValue, is_http: bool) -> Result<Sent, JournalError> {
    #[cfg(feature = "http")]
    if is_http {
        use crate::binding::http::HttpAction;

        let action: Option<HttpAction> = parsed(line, recorded)?;
        return Ok(if let Some(HttpAction::Request(request)) = action { Sent::Exchange(request) } else { Sent::None });
    }
    let _ = is_http;
    let action: Option<Action> = parsed(line, recorded)?;
    Ok(action.map_or(Sent::None, Sent::Pipe))
}

fn hub_action(action: HubAction) -> Option<(SessionHandle, Sent)> {
    if let HubAction::Open { session, connection } = action {
        Some((session, Sent::Pipe(Action::Open(connection))))
    } else if let HubAction::Send { session, message } = action {
        Some((session, Sent::Pipe(Action::Send(message))))
    } else if let HubAction::Shutdown { session, how } = action {
        Some((session, Sent::Pipe(Action::Shutdown(how))))
    } else {
        #[cfg(feature = "http")]
        if let HubAction::Request { session, request } = action {
            return Some((session, Sent::Exchange(request)));
        }
        None
    }
}

/// The connections of a client over messages or lines.
#[derive(Debug, Default)]
struct Pipes {
    newest: ConnectionId,
    /// What the server wrote after its last line.
    lines: BTreeMap<ConnectionId, LineDecoder>,
    /// What the client shuts down.
    shut: BTreeSet<ConnectionId>,
}

impl Pipes {
    fn output(&mut self, action: &Action, say: &mut impl FnMut(u64, Said)) {
        match action {
            Action::Open(connection) => {
                self.newest = *connection;
                self.lines.insert(*connection, LineDecoder::new(usize::MAX));
            }
            Action::Send(message) => {
                let of = self.newest.as_u64();
                messages(Outgoing::bytes(message)).into_iter().for_each(|message| say(of, Said::Client(message)));
            }
            Action::Shutdown(_) => drop(self.shut.insert(self.newest)),
            Action::Event(_) => {}
        }
    }

    fn input(&mut self, input: &Input, say: &mut impl FnMut(u64, Said)) {
        let mut said = |connection: ConnectionId, text: &[u8]| {
            for message in messages(text) {
                say(connection.as_u64(), Said::Server { status: 200, message });
            }
        };
        if let Input::Message { connection, bytes } = input {
            said(*connection, bytes);
        } else if let Input::Bytes { connection, bytes } = input
            && let Some(lines) = self.lines.get_mut(connection)
        {
            lines.feed(bytes, |line| match line {
                Line::Complete(line) | Line::TooLong(line) => said(*connection, line),
            });
        } else if let Input::Transport { connection, event: TransportEvent::Closed { .. } } = input
            && let Some(mut lines) = self.lines.remove(connection)
        {
            lines.finish(|line| match line {
                Line::Complete(line) | Line::TooLong(line) => said(*connection, line),
            });
            // Where the client shuts it down, its end is not the server's doing.
            if !self.shut.remove(connection) {
                say(connection.as_u64(), Said::Broken);
            }
        }
    }
}
