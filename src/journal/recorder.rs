//! The recorder: holds inputs back until no secret can continue in the next one, and writes the lines.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Display, Formatter};
use core::ops::Deref;
use serde::Serialize;
use serde_json::value::RawValue;

use super::hub::{HubInput, Masks};
use super::input::{Input, InputError, Part, StreamKey, Subject};
use super::secrets::{Found, Scanner, Secrets, masked, merged};
use super::{
    BindingForm, End, FORMAT, Header, JournalBinding, JournalLimits, Recordable, SecretError, close, command_result,
    json,
};
#[cfg(feature = "http")]
use crate::Http;
#[cfg(feature = "http")]
use crate::binding::http::{Broken, ExchangeId};
use crate::client::command_methods;
use crate::host::hub::{Hub, HubOptions, SessionHandle};
use crate::{
    Client, Command, CommandError, ConnectionId, Lines, Messages, Options, Request, RequestId, Time, Transport,
};

/// A client or a hub whose inputs and outputs are recorded.
///
/// It takes the place of the client or hub, which does what it would do without it, and has its inputs, getters and
/// [`poll`](Self::poll). The commands of a client are its methods, too; a hub's go through [`apply`](Self::apply).
#[derive(Debug)]
pub struct Recorder<R: Recordable> {
    subject: R,
    masks: Masks,
    secrets: Secrets,
    held: Held<R>,
    tape: Tape,
    now: Time,
    /// Whether the last line says that there was no action.
    idle: bool,
}

impl<B: JournalBinding> Recorder<Client<B>> {
    /// Creates a client with [`Client::new`], and begins its journal. If it has an authorization, that was given no input
    /// before: the journal begins with its options.
    pub fn new(binding: B, options: impl Into<Arc<Options>>, seed: u64, limits: JournalLimits) -> Self {
        let (options, mut secrets) = (options.into(), Secrets::default());
        let authorization = binding.authorization(&mut secrets);
        let header = header(binding.form(), &*options, seed, authorization);
        Self::begin(Client::new(binding, options, seed), header, secrets, limits)
    }
}

/// A recorder whose journal is empty, of a client or a hub that was not new: a journal begins with a new one.
impl<R: Recordable> From<R> for Recorder<R> {
    fn from(subject: R) -> Self {
        let nothing = JournalLimits { entries: 0, ..JournalLimits::default() };
        Self::begin(subject, String::new(), Secrets::default(), nothing)
    }
}

impl Recorder<Hub> {
    /// Creates a hub with [`Hub::new`], and begins its journal.
    pub fn of_hub(options: HubOptions, seed: u64, limits: JournalLimits) -> Self {
        let header = header(BindingForm::Hub, &options, seed, None);
        Self::begin(Hub::new(options, seed), header, Secrets::default(), limits)
    }
}

impl<R: Recordable> Recorder<R> {
    fn begin(subject: R, header: String, secrets: Secrets, limits: JournalLimits) -> Self {
        Self {
            subject,
            masks: Masks::default(),
            secrets,
            held: Held::default(),
            tape: Tape::new(header, limits),
            now: Time::ZERO,
            idle: false,
        }
    }

    /// Names a secret of the embedder: a value of its headers, of the environment of a server, of arguments. Lines that
    /// are written from now on have a mask in its place, such as `secret10xxxx`, also where the secret is within a JSON
    /// string (up to three levels within a message), in hexadecimal digits, base64 or percent-encoding, as HTTP Basic has
    /// it, or divided between chunks. The first line is written with the first command or input. A replay has the masks on both
    /// sides, so it has the same bytes.
    ///
    /// A chunk that ends with the beginning of a secret, and the lines after it, are held back until it is known whether
    /// the secret goes on: until the next chunk of the stream, its end, or the end of the journal. Limits count them.
    ///
    /// Not found are parts of a secret, but for its first eight bytes or more before an ellipsis, and other encodings of it:
    /// base64 with line breaks, or within base64. Where a text in base64 has other bytes next to the secret, the characters
    /// that share bits with both stay: at most four bits of its first and of its last byte. A secret that is a word of the format, such as `connection`, makes the journal
    /// unreadable.
    ///
    /// # Errors
    /// The secret has less than 8 bytes, or more than 16 KiB; or there are 90 already. A secret that was named before is
    /// accepted again.
    pub fn hide(&mut self, secret: &str) -> Result<(), SecretError> {
        self.secrets.add(secret)
    }

    /// Applies a command ([`Client::apply`], [`Hub::apply`]), and records it with its result.
    ///
    /// # Errors
    /// Those of [`Client::apply`] or [`Hub::apply`].
    pub fn apply(&mut self, now: Time, command: R::Command) -> Result<R::Accepted, R::Refused> {
        self.begin_line(now, |this| {
            let shown = this.subject.shown_command(&command, &mut this.masks, &mut this.secrets);
            this.held.line(line(&this.secrets, now, "in", shown));
        });
        let result = self.subject.command(now, command);
        self.end_line(Some(&result));
        result
    }

    /// Takes an input ([`Client::handle_input`], [`Hub::handle_input`]), and records it.
    ///
    /// # Errors
    /// Those of [`Client::handle_input`] or [`Hub::handle_input`].
    pub fn handle_input(&mut self, now: Time, input: R::Input) -> Result<(), InputError> {
        self.begin_line(now, |this| this.record_input(&input));
        let has_result = R::has_result(&input);
        let result = self.subject.give(now, input);
        self.end_line(has_result.then_some(&result));
        result
    }

    /// Records what is given next, unless the journal ended.
    fn begin_line(&mut self, now: Time, record: impl FnOnce(&mut Self)) {
        self.now = now;
        self.begin_tape();
        if !self.tape.drops(1) {
            record(self);
            self.flush();
        }
    }

    /// Records the result of what was given, if the journal has it.
    fn end_line<T: Serialize, E: Display>(&mut self, result: Option<&Result<T, E>>) {
        self.update_secrets();
        if let Some(result) = result {
            self.record("result", |_| command_result(result));
        }
        self.idle = false;
    }

    /// The next action ([`Client::poll`], [`Hub::poll`]), which is recorded.
    #[must_use = "the action has to be executed"]
    pub fn poll(&mut self) -> Option<R::Action> {
        let action = self.subject.next();
        self.update_secrets();
        if action.is_some() || !self.idle {
            self.record("out", |secrets| match &action {
                Some(action) => R::shown_action(action, secrets),
                None => "null".into(),
            });
        }
        if let Some(stream) = action.as_ref().and_then(R::abandoned) {
            self.held.settle(&mut self.secrets, stream);
            self.flush();
        }
        self.idle = action.is_none();
        action
    }

    /// Takes the lines of the journal that were not taken yet and are not held back: UTF-8, each with a line feed at its
    /// end.
    pub fn take(&mut self) -> String {
        self.begin_tape();
        self.tape.take()
    }

    /// Ends the journal: what follows is not recorded.
    pub fn end(&mut self) {
        self.begin_tape();
        self.held.settle_all(&mut self.secrets);
        self.flush();
        self.tape.end(self.now, End::Finished);
    }

    /// Ends the journal. Returns the client or hub, and the lines that were not taken yet.
    pub fn finish(mut self) -> (R, String) {
        self.end();
        (self.subject, self.tape.take())
    }

    /// How many entries are not in the journal because it ended, by [`end`](Self::end) or at a limit.
    pub fn dropped(&self) -> u64 {
        self.tape.dropped()
    }

    /// Writes the header, if it was not written yet.
    fn begin_tape(&mut self) {
        if let Some(header) = &mut self.tape.header {
            self.subject.mask_given(&mut self.secrets, header);
        }
        self.tape.begin(&self.secrets);
    }

    fn record_input(&mut self, input: &R::Input) {
        match self.subject.part(input) {
            Part::Chunk(stream) if !self.secrets.is_empty() => {
                return self.held.chunk(&self.secrets, self.now, stream, input.clone());
            }
            #[cfg(feature = "oauth")]
            Part::Whole(stream) => return self.held.whole(self.now, stream, input.clone()),
            Part::End(stream) => self.held.settle(&mut self.secrets, stream),
            Part::Chunk(_) | Part::Other => {}
        }
        let shown = self.subject.shown(input, &mut self.secrets);
        self.held.line(line(&self.secrets, self.now, "in", shown));
    }

    fn record(&mut self, name: &str, value: impl FnOnce(&mut Secrets) -> String) {
        self.begin_tape();
        if !self.tape.drops(1) {
            let value = value(&mut self.secrets);
            self.held.line(line(&self.secrets, self.now, name, value));
            self.flush();
        }
    }

    /// An authorization may have other secrets now.
    fn update_secrets(&mut self) {
        #[cfg(feature = "oauth")]
        self.secrets.set_drawn(&self.subject.drawn());
    }

    /// Writes what waits for nothing. If there is no room for the rest, the journal ends.
    fn flush(&mut self) {
        while let Some(line) = self.held.pop() {
            self.tape.entry(self.now, line);
        }
        let (entries, bytes) = self.held.size();
        if self.tape.is_full(entries, bytes) {
            self.held.clear();
            self.tape.end(self.now, End::Limit);
            self.tape.drops(entries as u64);
        }
    }
}

/// The commands and inputs of the client, recorded: each is that of [`Client`], and has its errors.
impl<B: JournalBinding> Recorder<Client<B>> {
    /// [`Client::request`].
    ///
    /// # Errors
    /// Those of the client.
    pub fn request(&mut self, now: Time, request: Request) -> Result<RequestId, CommandError> {
        // A request that was accepted has an id.
        self.apply(now, Command::Request(request))?.ok_or(CommandError::Closed)
    }

    command_methods!(client, CommandError);

    /// [`Client::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Time) {
        self.give(now, Input::Timeout);
    }

    /// Takes an input, which the binding has.
    fn give(&mut self, now: Time, input: Input) {
        let _ = self.handle_input(now, input);
    }
}

impl Recorder<Client<Messages>> {
    /// `handle_message` of the client.
    pub fn handle_message(&mut self, now: Time, connection: ConnectionId, bytes: &[u8]) {
        self.give(now, Input::Message { connection, bytes: bytes.into() });
    }

    /// `handle_transport` of the client.
    pub fn handle_transport(&mut self, now: Time, connection: ConnectionId, event: Transport<'_>) {
        self.give(now, Input::Transport { connection, event: event.into() });
    }
}

impl Recorder<Client<Lines>> {
    /// `handle_bytes` of the client.
    pub fn handle_bytes(&mut self, now: Time, connection: ConnectionId, bytes: &[u8]) {
        self.give(now, Input::Bytes { connection, bytes: bytes.into() });
    }

    /// `handle_transport` of the client.
    pub fn handle_transport(&mut self, now: Time, connection: ConnectionId, event: Transport<'_>) {
        self.give(now, Input::Transport { connection, event: event.into() });
    }
}

#[cfg(feature = "http")]
impl Recorder<Client<Http>> {
    /// `handle_oauth` of the client.
    #[cfg(feature = "oauth")]
    pub fn handle_oauth(&mut self, now: Time, input: crate::binding::oauth::OAuthInput<'_>) -> bool {
        self.handle_input(now, input.into()).is_ok()
    }

    /// `handle_head` of the client.
    pub fn handle_head(
        &mut self,
        now: Time,
        exchange: ExchangeId,
        status: http::StatusCode,
        headers: &http::HeaderMap,
    ) {
        self.give(now, Input::Head { exchange, status, headers: headers.clone() });
    }

    /// `handle_body` of the client.
    pub fn handle_body(&mut self, now: Time, exchange: ExchangeId, chunk: &[u8]) {
        self.give(now, Input::Body { exchange, bytes: chunk.into() });
    }

    /// `handle_end` of the client.
    pub fn handle_end(&mut self, now: Time, exchange: ExchangeId) {
        self.give(now, Input::End { exchange });
    }

    /// `handle_failure` of the client.
    pub fn handle_failure(&mut self, now: Time, exchange: ExchangeId, broken: Broken, why: &str) {
        self.give(now, Input::Failure { exchange, broken, why: why.into() });
    }
}

/// The inputs of the hub, recorded: each is that of [`Hub`].
impl Recorder<Hub> {
    /// [`Hub::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Time) {
        self.give(now, HubInput::Timeout);
    }

    /// [`Hub::handle_bytes`].
    pub fn handle_bytes(&mut self, now: Time, session: SessionHandle, connection: ConnectionId, chunk: &[u8]) {
        self.give_session(now, session, Input::Bytes { connection, bytes: chunk.into() });
    }

    /// [`Hub::handle_transport`].
    pub fn handle_transport(
        &mut self,
        now: Time,
        session: SessionHandle,
        connection: ConnectionId,
        event: Transport<'_>,
    ) {
        self.give_session(now, session, Input::Transport { connection, event: event.into() });
    }

    /// Takes an input, which hubs have.
    fn give(&mut self, now: Time, input: HubInput) {
        let _ = self.handle_input(now, input);
    }

    fn give_session(&mut self, now: Time, session: SessionHandle, input: Input) {
        self.give(now, HubInput::Session { session, input });
    }
}

#[cfg(feature = "http")]
impl Recorder<Hub> {
    /// [`Hub::handle_head`].
    pub fn handle_head(
        &mut self,
        now: Time,
        session: SessionHandle,
        exchange: ExchangeId,
        status: http::StatusCode,
        headers: &http::HeaderMap,
    ) {
        self.give_session(now, session, Input::Head { exchange, status, headers: headers.clone() });
    }

    /// [`Hub::handle_body`].
    pub fn handle_body(&mut self, now: Time, session: SessionHandle, exchange: ExchangeId, chunk: &[u8]) {
        self.give_session(now, session, Input::Body { exchange, bytes: chunk.into() });
    }

    /// [`Hub::handle_end`].
    pub fn handle_end(&mut self, now: Time, session: SessionHandle, exchange: ExchangeId) {
        self.give_session(now, session, Input::End { exchange });
    }

    /// [`Hub::handle_failure`].
    pub fn handle_failure(
        &mut self,
        now: Time,
        session: SessionHandle,
        exchange: ExchangeId,
        broken: Broken,
        why: &str,
    ) {
        self.give_session(now, session, Input::Failure { exchange, broken, why: why.into() });
    }
}

/// The journal of a hub has no authorizations: while it is written, these inputs do nothing.
#[cfg(feature = "oauth")]
impl Recorder<Hub> {
    /// [`Hub::handle_oauth`], if the journal is empty or ended.
    pub fn handle_oauth(
        &mut self,
        now: Time,
        session: SessionHandle,
        input: crate::binding::oauth::OAuthInput<'_>,
    ) -> bool {
        self.begin_tape();
        self.tape.drops(1) && self.subject.handle_oauth(now, session, input)
    }

    /// [`Hub::handle_clock`], if the journal is empty or ended.
    pub fn handle_clock(&mut self, now: Time, unix: core::time::Duration) {
        self.begin_tape();
        if self.tape.drops(1) {
            self.subject.handle_clock(now, unix);
        }
    }
}

impl<R: Recordable> Deref for Recorder<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.subject
    }
}

/// The first line, an object.
fn header(
    binding: BindingForm<'_>,
    options: &impl Serialize,
    seed: u64,
    authorization: Option<Box<RawValue>>,
) -> String {
    let version = env!("CARGO_PKG_VERSION").into();
    let (lf, cr) = (Vec::new(), Vec::new());
    json(&Header { journal: FORMAT, version, binding, options, seed, authorization, lf, cr, _sum: None })
}

/// The newest entries, from the first chunk on that may end with the beginning of a secret.
struct Held<R: Subject> {
    entries: VecDeque<Entry<R::Input>>,
    /// The number of the first entry, counted from 0.
    first: u64,
    bytes: usize,
    /// The streams with such chunks.
    streams: BTreeMap<StreamKey, Stream>,
}

enum Entry<I> {
    /// A line, without its sum.
    Line(String),
    /// A chunk, and where it begins in the bytes that the scanner read.
    Chunk { at: Time, base: u64, input: I },
}

struct Stream {
    /// It is read as a whole.
    #[cfg_attr(not(feature = "oauth"), expect(dead_code, reason = "only responses to an authorization are"))]
    is_whole: bool,
    scanner: Scanner,
    found: Vec<Found>,
    /// The numbers of its entries.
    chunks: Vec<u64>,
}

impl Stream {
    fn new(is_whole: bool) -> Self {
        Self { is_whole, scanner: Scanner::new(), found: Vec::new(), chunks: Vec::new() }
    }
}

impl<R: Subject> Default for Held<R> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), first: 0, bytes: 0, streams: BTreeMap::new() }
    }
}

/// Chunks have no masks yet, and are not shown.
impl<R: Subject> Debug for Held<R> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { entries, first: _, bytes, streams } = self;
        let mut held = f.debug_struct("Held");
        held.field("entries", &entries.len()).field("bytes", bytes).field("streams", &streams.len()).finish()
    }
}

impl<R: Subject> Held<R> {
    /// Number and bytes of the entries.
    fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn line(&mut self, line: String) {
        self.bytes = self.bytes.saturating_add(line.len());
        self.entries.push_back(Entry::Line(line));
    }

    /// Adds a chunk of a stream.
    fn chunk(&mut self, secrets: &Secrets, at: Time, key: StreamKey, mut input: R::Input) {
        let stream = self.streams.entry(key).or_insert_with(|| Stream::new(false));
        let base = stream.scanner.length();
        let bytes = R::bytes(&mut input).map_or(&[][..], |bytes| bytes);
        secrets.read(&mut stream.scanner, bytes, &mut stream.found);
        self.bytes = self.bytes.saturating_add(bytes.len());
        stream.chunks.push(self.first.saturating_add(self.entries.len() as u64));
        let is_settled = stream.scanner.is_settled(secrets);
        self.entries.push_back(Entry::Chunk { at, base, input });
        if is_settled {
            self.write_chunks(secrets, key);
        }
    }

    /// Adds a chunk of a stream that is read as a whole.
    #[cfg(feature = "oauth")]
    fn whole(&mut self, at: Time, key: StreamKey, mut input: R::Input) {
        let stream = self.streams.entry(key).or_insert_with(|| Stream::new(true));
        stream.chunks.push(self.first.saturating_add(self.entries.len() as u64));
        self.bytes = self.bytes.saturating_add(R::bytes(&mut input).map_or(0, |bytes| bytes.len()));
        self.entries.push_back(Entry::Chunk { at, base: 0, input });
    }

    fn place(&self, number: u64) -> usize {
        usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX)
    }

    /// Changes the bytes of a chunk, which begins at a place of its stream.
    fn change(&mut self, number: u64, change: impl FnOnce(u64, &mut Box<[u8]>)) {
        let place = self.place(number);
        if let Some(Entry::Chunk { base, input, .. }) = self.entries.get_mut(place)
            && let Some(bytes) = R::bytes(input)
        {
            let before = bytes.len();
            change(*base, bytes);
            self.bytes = self.bytes.saturating_sub(before).saturating_add(bytes.len());
        }
    }

    /// A stream ended.
    fn settle(&mut self, secrets: &mut Secrets, key: StreamKey) {
        #[cfg(feature = "oauth")]
        if let Some(Stream { is_whole: true, chunks, .. }) = self.streams.get(&key) {
            let chunks = chunks.clone();
            let mut bodies: Vec<Box<[u8]>> = Vec::with_capacity(chunks.len());
            for number in &chunks {
                self.change(*number, |_, body| bodies.push(core::mem::take(body)));
            }
            let mut masked = &*super::oauth::response(&bodies.concat(), secrets);
            for (at, (number, body)) in chunks.iter().zip(&bodies).enumerate() {
                let length = if at.saturating_add(1) == chunks.len() { masked.len() } else { body.len() };
                let (part, rest) = masked.split_at_checked(length).unwrap_or((masked, &[]));
                masked = rest;
                self.change(*number, |_, body| *body = part.into());
            }
        }
        self.write_chunks(secrets, key);
    }

    /// The chunks of a stream become lines: nothing follows that belongs to a secret in them.
    fn write_chunks(&mut self, secrets: &Secrets, key: StreamKey) {
        let Some(Stream { found, chunks, .. }) = self.streams.remove(&key) else { return };
        let found = merged(found);
        for number in chunks {
            self.change(number, |base, bytes| *bytes = masked(base, bytes, &found).into());
            let Some(entry) = self.entries.get_mut(self.place(number)) else { continue };
            let Entry::Chunk { at, input, .. } = entry else { continue };
            self.bytes = self.bytes.saturating_sub(R::bytes(input).map_or(0, |bytes| bytes.len()));
            let line = line(secrets, *at, "in", json(input));
            self.bytes = self.bytes.saturating_add(line.len());
            *entry = Entry::Line(line);
        }
    }

    /// All streams ended.
    fn settle_all(&mut self, secrets: &mut Secrets) {
        while let Some(key) = self.streams.keys().next().copied() {
            self.settle(secrets, key);
        }
    }

    /// The next line that waits for nothing.
    fn pop(&mut self) -> Option<String> {
        let Entry::Line(line) = self.entries.front_mut()? else { return None };
        let line = core::mem::take(line);
        self.bytes = self.bytes.saturating_sub(line.len());
        self.entries.pop_front();
        self.first = self.first.saturating_add(1);
        Some(line)
    }
}

/// A line of one member besides its time, without secrets and without its sum.
pub(super) fn line(secrets: &Secrets, at: Time, name: &str, value: String) -> String {
    format!("{{\"at\":{},\"{name}\":{}}}", at.as_micros(), secrets.hide(value))
}

/// Room for the last line.
const LAST: usize = 80;

/// The lines that were not taken yet.
#[derive(Debug)]
struct Tape {
    limits: JournalLimits,
    /// The first line, until there is another: secrets may be named before.
    header: Option<String>,
    text: String,
    /// Number and bytes of all lines so far.
    lines: usize,
    bytes: usize,
    /// Whether the journal ended, and how many entries were dropped since.
    dropped: Option<u64>,
}

impl Tape {
    pub(super) const fn new(header: String, limits: JournalLimits) -> Self {
        Self { limits, header: Some(header), text: String::new(), lines: 0, bytes: 0, dropped: None }
    }

    /// Whether the journal ended. An entry that it should have had is counted.
    fn drops(&mut self, entries: u64) -> bool {
        self.dropped = self.dropped.map(|dropped| dropped.saturating_add(entries));
        self.dropped.is_some()
    }

    /// Whether there is no room for this many lines and bytes.
    const fn is_full(&self, lines: usize, bytes: usize) -> bool {
        let JournalLimits { line: _, entries, bytes: most } = self.limits;
        self.lines.saturating_add(lines) >= entries || self.bytes.saturating_add(bytes) > most.saturating_sub(LAST)
    }

    /// Writes the header, if it was not written yet.
    pub(super) fn begin(&mut self, secrets: &Secrets) {
        if let Some(header) = self.header.take()
            && !self.push(secrets.hide(header))
        {
            self.dropped = Some(0);
        }
    }

    /// Adds an entry, an object. If there is no room, the journal ends.
    pub(super) fn entry(&mut self, now: Time, entry: String) {
        if !self.drops(1) && !self.push(entry) {
            self.end(now, End::Limit);
            self.dropped = Some(1);
        }
    }

    pub(super) fn end(&mut self, now: Time, end: End) {
        if self.dropped.is_none() {
            let mut line = format!("{{\"at\":{},\"end\":{}", now.as_micros(), json(&end));
            close(&mut line, self.lines.saturating_add(1));
            self.write(&line);
            self.dropped = Some(0);
        }
    }

    pub(super) fn take(&mut self) -> String {
        core::mem::take(&mut self.text)
    }

    fn dropped(&self) -> u64 {
        self.dropped.unwrap_or_default()
    }

    /// Adds a line, an object; false if there is no room for it.
    fn push(&mut self, mut line: String) -> bool {
        line.pop();
        close(&mut line, self.lines.saturating_add(1));
        if line.len() > self.limits.line || self.is_full(1, line.len()) {
            return false;
        }
        self.write(&line);
        true
    }

    fn write(&mut self, line: &str) {
        self.lines = self.lines.saturating_add(1);
        self.bytes = self.bytes.saturating_add(line.len());
        self.text.push_str(line);
    }
}
