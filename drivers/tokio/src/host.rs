//! What an embedder gives: its options, its part in requests of servers, and where a server is.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;

use mcp_proto::host::hub::{HubEvent, HubOptions};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::protocol::content::{Elicitation, Sampling};
use mcp_proto::{ClientCapabilities, Event, Options, RawValue, ServerMethod, TraceContext};
use serde_json::Value;

use crate::endpoint::Endpoint;
#[cfg(feature = "http")]
use crate::http::{HttpClient, HttpPiece, HttpTransport};
use crate::machine::{Passed, Tap};
use crate::queue::{Queue, Reports, Subscribers};
use crate::trace::ContextOf;

/// Options, [`Options`] or [`HubOptions`], with what a client needs of its embedder besides. Options alone are a host that
/// answers nothing.
///
/// A handler declares the capability that it is for. It may take its time, which does not count towards the server's: the
/// future is dropped when the server needs no answer any more.
///
/// ```
/// use mcp_proto::Options;
/// use mcp_proto_tokio::{Elicited, Host};
/// use serde_json::json;
///
/// let host = Host::new(Options::new("my-host", "1.0")).elicitation(|ask| async move {
///     println!("{} asks: {}", ask.server, ask.elicitation().message);
///     Elicited::Accept(json!({"name": "Ada"}))
/// });
/// ```
pub struct Host<O: HostOptions> {
    pub(crate) options: O,
    pub(crate) wiring: Wiring,
    pub(crate) watchers: Watchers<O::Event>,
}

/// Who gets events, and what passes, from the start.
pub(crate) struct Watchers<E> {
    pub(crate) tap: Option<Tap<E>>,
    pub(crate) subscribers: Subscribers<E>,
}

/// What gets each piece of a server's standard error, with the server's name.
pub(crate) type NamedSink = Arc<dyn Fn(&str, &[u8]) + Send + Sync>;

/// Where a server of a hub is, by its name; `None` if its entry says it.
pub(crate) type EndpointOf = Arc<dyn Fn(&str) -> Option<Endpoint> + Send + Sync>;

/// What a client needs of its embedder.
#[derive(Default)]
pub(crate) struct Wiring {
    pub(crate) elicitation: Option<Handler>,
    pub(crate) sampling: Option<Handler>,
    pub(crate) stderr: Option<NamedSink>,
    pub(crate) inherits_environment: bool,
    pub(crate) is_patient: bool,
    /// Where the servers of a hub are.
    pub(crate) endpoints: Option<EndpointOf>,
    pub(crate) seed: Option<u64>,
    pub(crate) trace: Option<ContextOf>,
    /// Of each request to each server of a hub.
    #[cfg(feature = "http")]
    pub(crate) headers: http::HeaderMap,
    #[cfg(feature = "http")]
    pub(crate) http: std::sync::OnceLock<Box<dyn HttpTransport>>,
    #[cfg(feature = "oauth")]
    pub(crate) oauth: Option<crate::OAuth>,
    #[cfg(feature = "journal")]
    pub(crate) journal: Option<mcp_proto::journal::JournalLimits>,
}

type Answer = Pin<Box<dyn Future<Output = Result<Box<RawValue>, ErrorObject>> + Send>>;
pub(crate) type Handler = Arc<dyn Fn(Ask) -> Answer + Send + Sync>;

/// Something that a server asks the embedder for, in either era of the protocol.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ask {
    /// The server's name in its options ([`Options::server`]) or in the configuration.
    pub server: Box<str>,
    /// The server's key of the input request; `None` in the legacy era, where a request has none.
    pub key: Option<Box<str>>,
    /// What is asked for.
    pub method: ServerMethod,
    /// The parameters, as the server wrote them.
    pub params: Option<Box<RawValue>>,
    /// [`Options::form_defaults`] of the session.
    pub(crate) form_defaults: bool,
}

impl Ask {
    /// What the user is asked for, to show it, and to check what the user filled in
    /// ([`Elicitation::check`]).
    pub fn elicitation(&self) -> Elicitation<'_> {
        let mut asked = Elicitation::read(self.params());
        asked.form_defaults = self.form_defaults;
        asked
    }

    /// What the model is asked for.
    pub fn sampling(&self) -> Sampling<'_> {
        Sampling::read(self.params())
    }

    fn params(&self) -> &RawValue {
        self.params.as_deref().unwrap_or(RawValue::NULL)
    }
}

/// The answer of a user to an elicitation (specification 2025-11-25, "Elicitation").
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Elicited {
    /// The user filled the form in: the values of its fields, an object. For a URL, `Value::Null`: the user visits it.
    Accept(Value),
    /// The user declined.
    Decline,
    /// The user chose neither.
    Cancel,
    /// The whole result as it is, an `ElicitResult` with members of the host's own for instance.
    Result(Box<RawValue>),
}

impl Elicited {
    fn into_answer(self) -> Result<Box<RawValue>, serde_json::Error> {
        match self {
            Self::Accept(Value::Null) => Ok(Elicitation::visit()),
            Self::Accept(content) => Elicitation::accept(&content),
            Self::Decline => Ok(Elicitation::decline()),
            Self::Cancel => Ok(Elicitation::cancel()),
            Self::Result(result) => Ok(result),
        }
    }
}

impl<O: HostOptions> Host<O> {
    /// A host without handlers.
    pub fn new(options: O) -> Self {
        Self {
            options,
            wiring: Wiring::default(),
            watchers: Watchers { tap: None, subscribers: Subscribers::default() },
        }
    }

    /// Makes each call part of a trace: a function that is asked for its context when the call starts, in the task that starts
    /// it. Servers get it with the request (specification 2026-07-28, "Trace Context"). With the feature `tracing` the function
    /// runs within the span of the call, a child of the current one, so that the bridge of OpenTelemetry knows its id.
    ///
    /// ```
    /// use mcp_proto::{Options, TraceContext};
    /// use mcp_proto_tokio::Host;
    ///
    /// let host = Host::new(Options::new("my-host", "1.0")).trace(|| {
    ///     let mut context = TraceContext::default();
    ///     // Of the current span, as the propagator of OpenTelemetry writes it.
    ///     context.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    ///     Some(context)
    /// });
    /// ```
    #[must_use]
    pub fn trace(mut self, context: impl Fn() -> Option<TraceContext> + Send + Sync + 'static) -> Self {
        self.wiring.trace = Some(Arc::new(context));
        self
    }

    /// Has a function called with all that passes between the client and the driver, in order: each input when the client
    /// took it, with what is received, and each output before it is carried out, with what is sent, and with all events.
    ///
    /// It is called while the client is locked: it has to return soon, and may call nothing of the session or hub. One that
    /// panics is not called again. What passes has the messages of the host's calls and may have secrets of the server's.
    ///
    /// ```
    /// use mcp_proto::Options;
    /// use mcp_proto_tokio::{Host, Input, Output, Passing};
    ///
    /// let host = Host::new(Options::new("my-host", "1.0")).tap(|passed| match passed.what {
    ///     Passing::Input(Input::Bytes(_, bytes)) => println!("{} says {}", passed.server, bytes.escape_ascii()),
    ///     Passing::Output(Output::Send(_, message)) => println!("to {}: {message:?}", passed.server),
    ///     _ => {}
    /// });
    /// ```
    #[must_use]
    pub fn tap(mut self, tap: impl FnMut(Passed<'_, O::Event>) + Send + 'static) -> Self {
        self.watchers.tap = Some(Box::new(tap));
        self
    }

    /// The events of the session or hub that starts with these options, from the first one on: as
    /// [`Session::events`](crate::Session::events) and [`Hub::events`](crate::Hub::events), which begin when they are called.
    /// They end at once if it does not start.
    pub fn events(&mut self) -> Reports<O::Event> {
        let queue = Queue::new();
        self.watchers.subscribers.add(&queue);
        Reports::of(queue)
    }

    /// Seeds the jitter of reconnects, which is random otherwise, so that a test has the same run again.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.wiring.seed = Some(seed);
        self
    }

    /// Passes the standard error of programs on, piece by piece, with the name of the server, to a function that must not
    /// block. A program with a function of its own ([`Program::stderr`](crate::Program::stderr)) keeps it.
    #[must_use]
    pub fn stderr(mut self, sink: impl Fn(&str, &[u8]) + Send + Sync + 'static) -> Self {
        self.wiring.stderr = Some(Arc::new(sink));
        self
    }

    /// Has elicitations answered by a function, and declares that capability. For elicitations at a URL, set
    /// [`ClientCapabilities::elicitation_url`] of the options, too.
    ///
    /// The handler checks a form before it answers, and asks the user again for a field that is wrong. The validator is the
    /// one of the feature `validate` of `mcp-proto`, or any other:
    ///
    /// ```
    /// use mcp_proto::Options;
    /// use mcp_proto::protocol::content::Elicitation;
    /// use mcp_proto::validation::Validator;
    /// use mcp_proto_tokio::{Elicited, Host};
    /// # use serde_json::{Value, json};
    /// # async fn fill_in(asked: &Elicitation<'_>, wrong: Option<&str>) -> Option<Value> { Some(json!({})) }
    ///
    /// fn host(validator: impl Validator + Clone + Send + Sync + 'static) -> Host<Options> {
    ///     Host::new(Options::new("my-host", "1.0")).elicitation(move |ask| {
    ///         let validator = validator.clone();
    ///         async move {
    ///             let asked = ask.elicitation();
    ///             let mut wrong = None;
    ///             loop {
    ///                 let Some(content) = fill_in(&asked, wrong.as_deref()).await else {
    ///                     return Elicited::Decline;
    ///                 };
    ///                 match asked.check(&validator, &content) {
    ///                     Err(error) if error.is_violation() => wrong = Some(error.to_string()),
    ///                     // The form itself may be at fault, and the server decides.
    ///                     Ok(()) | Err(_) => return Elicited::Accept(content),
    ///                 }
    ///             }
    ///         }
    ///     })
    /// }
    /// ```
    #[must_use]
    pub fn elicitation<F>(mut self, handler: impl Fn(Ask) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Elicited> + Send + 'static,
    {
        self.options.declare(|capabilities| capabilities.elicitation = true);
        self.wiring.elicitation = Some(Arc::new(move |ask| {
            let answer = handler(ask);
            Box::pin(async move { answer.await.into_answer().map_err(internal) })
        }));
        self
    }

    /// Has requests for completions by the host's model answered by a function, and declares that capability. The answer
    /// is a `CreateMessageResult`: that of [`Sampling::answer`], or any of that form. An error declines.
    ///
    /// ```
    /// use mcp_proto::Options;
    /// use mcp_proto::jsonrpc::ErrorObject;
    /// use mcp_proto::protocol::content::Sampling;
    /// use mcp_proto_tokio::Host;
    ///
    /// let host = Host::new(Options::new("my-host", "1.0")).sampling(|ask| async move {
    ///     match ask.sampling().messages.as_slice() {
    ///         [] => Err(ErrorObject::new(-1, "the user declined")),
    ///         messages => Ok(Sampling::answer("my-model", &format!("{} messages", messages.len()))),
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn sampling<F>(mut self, handler: impl Fn(Ask) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Box<RawValue>, ErrorObject>> + Send + 'static,
    {
        self.options.declare(|capabilities| capabilities.sampling = true);
        self.wiring.sampling = Some(Arc::new(move |ask| Box::pin(handler(ask))));
        self
    }

    /// Uses this HTTP client: an [`HttpClient`], to share its connections with others, or one of the host's own. By default
    /// each host makes one when it needs it.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn http(mut self, client: impl HttpTransport) -> Self {
        self.wiring.http = (Box::new(client) as Box<dyn HttpTransport>).into();
        self
    }

    /// Signs in: of a session over HTTP, where its server demands it; of a hub, at each server whose entry has
    /// `auth: oauth`. Without it, a server that demands a token fails.
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn oauth(mut self, oauth: crate::OAuth) -> Self {
        self.wiring.oauth = Some(oauth);
        self
    }
}

impl Host<Options> {
    /// Has [`Session::connect`](crate::Session::connect) try as often as
    /// [`Reconnect::first_attempts`](mcp_proto::Reconnect::first_attempts) allows, and a server that nobody listens at for
    /// [`Timeouts::connect`](mcp_proto::Timeouts::connect), or a minute without it: for one that starts beside its host.
    #[must_use]
    pub const fn patient(mut self) -> Self {
        self.wiring.is_patient = true;
        self
    }
}

impl Host<HubOptions> {
    /// Has a function say where servers are whose entries have a `command`: at the other end of
    /// [`Streams`](crate::Streams) or [`Channels`](crate::Channels), or another [`Program`](crate::Program) than that of the
    /// entry. It is asked for a server by its name when that starts for the first time; without an endpoint, the entry counts.
    /// It may call nothing of the hub. Servers whose entries have a `url` are reached by [`http`](Self::http).
    ///
    /// ```no_run
    /// use mcp_proto::Options;
    /// use mcp_proto::host::hub::HubOptions;
    /// use mcp_proto_tokio::{Host, Streams};
    /// use tokio::net::TcpStream;
    ///
    /// let host = Host::new(HubOptions::new(Options::new("my-host", "1.0"))).endpoints(|server| match server {
    ///     "weather" => Some(Streams::new(|| TcpStream::connect("127.0.0.1:7000")).into()),
    ///     _ => None,
    /// });
    /// ```
    #[must_use]
    pub fn endpoints(mut self, endpoint: impl Fn(&str) -> Option<Endpoint> + Send + Sync + 'static) -> Self {
        self.wiring.endpoints = Some(Arc::new(endpoint));
        self
    }

    /// Sets these headers of each request to each server over HTTP, in place of those of the same names in its entry.
    /// Headers of the protocol take precedence.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn headers(mut self, headers: http::HeaderMap) -> Self {
        self.wiring.headers = crate::http::sensitive(headers);
        self
    }

    /// Starts the programs of entries with all variables of this process, below those that an entry sets. By default a
    /// program gets those that its entry allows.
    #[must_use]
    pub const fn inherit_environment(mut self) -> Self {
        self.wiring.inherits_environment = true;
        self
    }
}

#[cfg(all(feature = "journal", feature = "snapshot"))]
impl Wiring {
    /// A journal begins with the start of its client.
    pub(crate) fn requires_no_journal(&self) -> Result<(), crate::StartError> {
        match self.journal {
            Some(_) => Err(crate::StartError::Unrecordable("it is restored, and a journal begins with the start")),
            None => Ok(()),
        }
    }
}

#[cfg(feature = "journal")]
impl<O: HostOptions> Host<O> {
    /// Records the session or the hub ([guide](https://docs.rs/mcp-proto/latest/mcp_proto/guide/recording/)):
    /// [`Session::journal`](crate::Session::journal) or [`Hub::journal`](crate::Hub::journal) has the lines.
    #[must_use]
    pub fn record(mut self, limits: mcp_proto::journal::JournalLimits) -> Self {
        self.wiring.journal = Some(limits);
        self
    }
}

fn internal(error: impl fmt::Display) -> ErrorObject {
    ErrorObject::new(-32603, error.to_string())
}

impl Wiring {
    /// A seed of the jitter of reconnects.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| RandomState::new().hash_one("jitter"))
    }

    /// The HTTP client, or the failure of an exchange without one.
    #[cfg(feature = "http")]
    pub(crate) fn http(&self) -> Result<&dyn HttpTransport, HttpPiece> {
        if let Some(client) = self.http.get() {
            return Ok(&**client);
        }
        match HttpClient::new() {
            Ok(client) => Ok(&**self.http.get_or_init(|| Box::new(client))),
            Err(error) => {
                let broken = mcp_proto::binding::http::Broken::Unreachable;
                Err(HttpPiece::Failure(broken, format!("there is no HTTP client: {error}")))
            }
        }
    }

    pub(crate) const fn handler(&self, method: ServerMethod) -> Option<&Handler> {
        match method {
            ServerMethod::Elicitation => self.elicitation.as_ref(),
            ServerMethod::Sampling => self.sampling.as_ref(),
            _ => None,
        }
    }
}

/// The options of a client or of a hub.
pub trait HostOptions: sealed::Declare {
    /// What is reported.
    type Event: Clone + Send + 'static;
}

impl HostOptions for Options {
    type Event = Event;
}

impl HostOptions for HubOptions {
    type Event = HubEvent;
}

mod sealed {
    use super::{ClientCapabilities, HubOptions, Options};

    pub trait Declare {
        fn declare(&mut self, change: impl FnMut(&mut ClientCapabilities));
    }

    impl Declare for Options {
        fn declare(&mut self, mut change: impl FnMut(&mut ClientCapabilities)) {
            change(&mut self.capabilities);
        }
    }

    impl Declare for HubOptions {
        fn declare(&mut self, mut change: impl FnMut(&mut ClientCapabilities)) {
            let own = self.own.values_mut();
            own.chain([&mut self.session]).for_each(|options| change(&mut options.capabilities));
        }
    }
}

impl From<Options> for Host<Options> {
    fn from(options: Options) -> Self {
        Self::new(options)
    }
}

impl From<HubOptions> for Host<HubOptions> {
    fn from(options: HubOptions) -> Self {
        Self::new(options)
    }
}

impl<O: HostOptions + fmt::Debug> fmt::Debug for Host<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("options", &self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_have_the_form_of_the_protocol() {
        for (answer, text) in [
            (Elicited::Accept(json!({"a": 1})), r#"{"action":"accept","content":{"a":1}}"#),
            (Elicited::Accept(Value::Null), r#"{"action":"accept"}"#),
            (Elicited::Decline, r#"{"action":"decline"}"#),
            (Elicited::Cancel, r#"{"action":"cancel"}"#),
            (Elicited::Result(RawValue::from_string("{ }".into()).unwrap()), "{ }"),
        ] {
            assert_eq!(answer.into_answer().unwrap().get(), text);
        }
    }
}
