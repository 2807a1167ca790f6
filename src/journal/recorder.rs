use alloc::string::String;
use alloc::sync::Arc;
use core::ops::Deref;

use serde::Serialize;

use super::held::{Held, line};
use super::line::{BindingForm, End, FORMAT, Header, command_result, json};
use super::masks::Masks;
use super::part::Part;
use super::secrets::Secrets;
use super::tape::Tape;
use super::{JournalBinding, JournalLimits, Recordable, SecretError};
use crate::host::hub::{Hub, HubOptions};
use crate::{Client, Options, Time};

/// A client or a hub whose inputs and outputs are recorded.
///
/// It takes the place of the client or hub: inputs and commands go through [`apply`](Self::apply), actions come from
/// [`poll`](Self::poll), and the getters are those of the client or hub, which does what it would do without it.
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
    /// Creates a client with [`Client::new`], and begins its journal.
    pub fn new(binding: B, options: impl Into<Arc<Options>>, seed: u64, limits: JournalLimits) -> Self {
        let options = options.into();
        let header = header(binding.form(), &*options, seed);
        Self::begin(Client::new(binding, options, seed), header, limits)
    }
}

impl Recorder<Hub> {
    /// Creates a hub with [`Hub::new`], and begins its journal.
    pub fn of_hub(options: HubOptions, seed: u64, limits: JournalLimits) -> Self {
        let header = header(BindingForm::Hub, &options, seed);
        Self::begin(Hub::new(options, seed), header, limits)
    }
}

impl<R: Recordable> Recorder<R> {
    fn begin(subject: R, header: String, limits: JournalLimits) -> Self {
        Self {
            subject,
            masks: Masks::default(),
            secrets: Secrets::default(),
            held: Held::default(),
            tape: Tape::new(header, limits),
            now: Time::ZERO,
            idle: false,
        }
    }

    /// Names a secret of the embedder: a value of its headers, of the environment of a server, of arguments. Lines that
    /// are written from now on have a mask in its place, such as `secret10xxxx`, also where the secret is within a JSON
    /// string (up to three levels within a message), in hexadecimal digits, base64 or percent-encoding, or divided between
    /// chunks. The first line is written with the first input. A replay has the masks on both sides, so it has the same
    /// bytes.
    ///
    /// A chunk that ends with the beginning of a secret, and the lines after it, are held back until it is known whether
    /// the secret goes on: until the next chunk of the stream, its end, or the end of the journal. Limits count them.
    ///
    /// Not found are parts of a secret, and other encodings of it: base64 with line breaks, or within base64. Where a text
    /// in base64 has other bytes next to the secret, the characters that share bits with both stay: at most four bits of
    /// its first and of its last byte. A secret that is a word of the format, such as `connection`, makes the journal
    /// unreadable.
    ///
    /// # Errors
    /// The secret has less than 8 bytes, or more than 16 KiB; or there are 90 already. A secret that was named before is
    /// accepted again.
    pub fn hide(&mut self, secret: &str) -> Result<(), SecretError> {
        self.secrets.add(secret)
    }

    /// Applies an input or a command ([`Client::apply`], [`Hub::apply`]), and records it with its result.
    ///
    /// # Errors
    /// Those of [`Client::apply`] or [`Hub::apply`].
    pub fn apply(&mut self, now: Time, input: R::Input) -> Result<R::Accepted, R::Error> {
        self.now = now;
        self.tape.begin(&self.secrets);
        if !self.tape.drops(1) {
            self.record_input(&input);
        }
        let is_command = R::is_command(&input);
        let result = self.subject.give(now, input);
        if is_command {
            self.record("result", || command_result(&result));
        }
        self.idle = false;
        result
    }

    /// The next action ([`Client::poll`], [`Hub::poll`]), which is recorded.
    #[must_use = "the action has to be executed"]
    pub fn poll(&mut self) -> Option<R::Action> {
        let action = self.subject.next();
        if action.is_some() || !self.idle {
            self.record("out", || json(&action));
        }
        if let Some(stream) = action.as_ref().and_then(R::abandoned) {
            self.held.settle(&self.secrets, stream);
            self.flush();
        }
        self.idle = action.is_none();
        action
    }

    /// Takes the lines of the journal that were not taken yet and are not held back: UTF-8, each with a line feed at its
    /// end.
    pub fn take(&mut self) -> String {
        self.tape.begin(&self.secrets);
        self.tape.take()
    }

    /// Ends the journal: what follows is not recorded.
    pub fn end(&mut self) {
        self.tape.begin(&self.secrets);
        self.held.settle_all(&self.secrets);
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

    fn record_input(&mut self, input: &R::Input) {
        let secrets = &self.secrets;
        match R::part(input) {
            Part::Chunk(stream) if !secrets.is_empty() => self.held.chunk(secrets, self.now, stream, input.clone()),
            Part::End(stream) => {
                self.held.settle(secrets, stream);
                self.held.line(line(secrets, self.now, "in", self.subject.shown(input, &mut self.masks)));
            }
            Part::Chunk(_) | Part::Other => {
                self.held.line(line(secrets, self.now, "in", self.subject.shown(input, &mut self.masks)));
            }
        }
        self.flush();
    }

    fn record(&mut self, name: &str, value: impl FnOnce() -> String) {
        self.tape.begin(&self.secrets);
        if !self.tape.drops(1) {
            self.held.line(line(&self.secrets, self.now, name, value()));
            self.flush();
        }
    }

    /// Writes what waits for nothing. If there is no room for the rest, the journal ends.
    fn flush(&mut self) {
        while let Some(line) = self.held.pop() {
            self.tape.entry(self.now, line);
        }
        let (entries, bytes) = self.held.size();
        if entries > 0 && self.tape.is_full(entries, bytes) {
            self.held.clear();
            self.tape.end(self.now, End::Limit);
            self.tape.drops(entries as u64);
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
fn header(binding: BindingForm<'_>, options: &impl Serialize, seed: u64) -> String {
    let version = env!("CARGO_PKG_VERSION").into();
    json(&Header { journal: FORMAT, version, binding, options, seed, _sum: None })
}
