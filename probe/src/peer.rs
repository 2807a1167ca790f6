//! A server of the run: the way to it, and what was noted of it.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use mcp_proto::binding::http::{ExchangeId, HttpRequest};
use mcp_proto::{ConnectionId, Engine, ShutdownStep, Time};

use crate::args::DEMO_SERVER;
use crate::child::{self, Program, Server};
use crate::exchanges::Piece;
use crate::io::Io;
use crate::record::Record;
use crate::trace::Trace;
use crate::web::Web;

/// Where a server is.
pub(crate) enum Place {
    /// It is probe itself, told how often it was started where that counts.
    Demo {
        counted: bool,
    },
    Process(Program),
    /// An address; these headers go with every request.
    Web(HeaderMap),
}

/// The way to it, while there is one.
enum Way {
    Process(Server),
    Web(Web),
}

pub(crate) enum Heard {
    Process(child::Heard),
    Exchange(ExchangeId, Piece),
}

pub(crate) struct Peer {
    pub(crate) name: String,
    place: Place,
    way: Option<Way>,
    /// Which of the session's connections the process is.
    pub(crate) connection: ConnectionId,
    /// How often a process was started.
    starts: u32,
    /// The next process, or the next that is heard over HTTP, opens the session anew; otherwise it goes on with the
    /// handshake of the one before.
    pub(crate) anew: bool,
    pub(crate) record: Record,
    pub(crate) trace: Trace,
    /// Its session, as it was at its end.
    pub(crate) last: Option<Engine>,
}

impl Peer {
    pub(crate) fn new(name: String, place: Place, trace: Trace) -> Self {
        Self {
            name,
            place,
            way: None,
            connection: ConnectionId::default(),
            starts: 0,
            anew: true,
            record: Record::default(),
            trace,
            last: None,
        }
    }

    /// Sees to what it needs before anything is opened.
    pub(crate) fn prepare(&mut self, io: &mut Io) -> Result<(), String> {
        if let Place::Web(headers) = &self.place {
            self.way = Some(Way::Web(Web::new(io.client()?, headers.clone())));
        }
        Ok(())
    }

    pub(crate) const fn is_web(&self) -> bool {
        matches!(self.place, Place::Web(_))
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Heard> {
        match &mut self.way {
            None => Poll::Pending,
            Some(Way::Process(server)) => server.poll(context).map(Heard::Process),
            Some(Way::Web(web)) => match web.poll(context) {
                Poll::Ready(Some((exchange, piece))) => Poll::Ready(Heard::Exchange(exchange, piece)),
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            },
        }
    }

    /// How soon it is to be asked again although nothing woke.
    pub(crate) fn tick(&self) -> Option<Duration> {
        match &self.way {
            Some(Way::Process(server)) => Some(server.tick()),
            Some(Way::Web(_)) | None => None,
        }
    }

    /// Starts its process.
    pub(crate) fn open(&mut self, connection: ConnectionId, now: Time) -> io::Result<()> {
        self.connection = connection;
        self.starts = self.starts.saturating_add(1);
        self.record.opened.get_or_insert(now);
        self.way = None;
        self.trace.reset();
        let started = match &self.place {
            Place::Demo { counted } => std::env::current_exe().and_then(|program| {
                let count = counted.then(|| self.starts.to_string());
                let args = [DEMO_SERVER.into()].into_iter().chain(count.map(Into::into)).collect();
                Server::start(&Program { program: program.into_os_string(), args, ..Program::default() })
            }),
            Place::Process(program) => Server::start(program).map_err(|error| program.not_started(error)),
            Place::Web(_) => Err(io::Error::other("there is nothing to start")),
        };
        match started {
            Ok(server) => {
                self.opened();
                self.trace.note(format!("process {} started", server.id()));
                self.way = Some(Way::Process(server));
                Ok(())
            }
            Err(error) => {
                self.trace.note(format!("not started: {error}"));
                Err(error)
            }
        }
    }

    /// Counts how often the session was opened.
    pub(crate) fn opened(&mut self) {
        let anew = std::mem::take(&mut self.anew);
        self.record.connects = self.record.connects.saturating_add(u32::from(anew));
    }

    pub(crate) fn send(&mut self, message: &[u8], line: &[u8]) {
        self.trace.sent(message);
        if let Some(Way::Process(server)) = &self.way {
            server.send(line);
        }
    }

    /// Whether there is a process to shut.
    pub(crate) fn shut(&mut self, how: ShutdownStep) -> bool {
        self.trace.note(match how {
            ShutdownStep::CloseInput => "input closed",
            ShutdownStep::Terminate => "told to terminate",
            ShutdownStep::Kill => "killed",
        });
        let Some(Way::Process(server)) = &mut self.way else { return false };
        server.shut(how);
        true
    }

    /// Its process is gone.
    pub(crate) fn gone(&mut self, why: &str) {
        self.way = None;
        self.trace.note(format!("process gone: {why}"));
        self.trace.reset();
    }

    pub(crate) fn request(&mut self, now: Time, request: HttpRequest) {
        self.record.opened.get_or_insert(now);
        if let Some(Way::Web(web)) = &mut self.way {
            web.start(request, &mut self.trace);
        }
    }

    pub(crate) fn drop(&mut self, exchange: ExchangeId) {
        if let Some(Way::Web(web)) = &mut self.way {
            web.drop(exchange, &mut self.trace);
        }
    }

    /// Whether what comes of an exchange may be a stream of events.
    pub(crate) fn is_stream(&self, exchange: ExchangeId) -> bool {
        matches!(&self.way, Some(Way::Web(web)) if web.is_stream(exchange))
    }

    /// Has the trace show what came; false where the exchange was dropped meanwhile.
    pub(crate) fn show(&mut self, exchange: ExchangeId, piece: &Piece) -> bool {
        match &mut self.way {
            Some(Way::Web(web)) if web.is_running(exchange) => {
                web.show(exchange, piece, &mut self.trace);
                true
            }
            Some(Way::Web(_) | Way::Process(_)) | None => false,
        }
    }

    /// What it is waited for, in words.
    pub(crate) fn waiting(&self, closing: bool, idle: &str) -> String {
        match (&self.way, closing) {
            (None, _) => "the process to start".into(),
            (Some(Way::Process(_)), true) => "the process to end".into(),
            (Some(Way::Web(_)), true) => "the server to end the session".into(),
            (Some(_), false) => self.trace.waiting().unwrap_or_else(|| idle.into()),
        }
    }
}
