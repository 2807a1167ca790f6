//! A small host: it offers a server's tools to a model, reads resources, and shows the
//! server's questions to a user.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_proto::testkit::Embedder;
use mcp_proto::{Client, Event, Lines, Options, Outcome, RawValue};
use mcp_proto::{Request, RequestId, ServerRequestId, Time};

/// A mistake to plant in the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A read that fails is tried once more than allowed.
    RetryTooMany,
    /// Of two requests for the same thing, the host forgets the first.
    LostAnswer,
    /// The model is not told of changes.
    StaleCatalogue,
    /// A tool is called by its position in the list, which a rename moves.
    WrongRoute,
    /// A question that waits is shown again after a reconnect.
    PromptShownTwice,
}

/// How often a read may be tried.
pub const TRIES: usize = 3;

/// The time that the user takes to answer.
const USER: Duration = Duration::from_secs(5);

/// What was asked of the host.
#[derive(Clone, Debug)]
struct Job {
    ticket: usize,
    key: String,
    is_read: bool,
    tries: usize,
}

pub struct Host {
    client: Client<Lines>,
    bug: Option<Bug>,
    jobs: BTreeMap<RequestId, Job>,
    tickets: usize,
    /// The tools that the model knows, with their positions.
    tools: BTreeMap<String, usize>,
    /// The questions that wait for the user, and when each is answered.
    questions: BTreeMap<ServerRequestId, Time>,
    /// How each job ended, by ticket.
    pub answers: Vec<(usize, Result<String, String>)>,
    /// The questions in the order in which the user saw them.
    pub shown: Vec<ServerRequestId>,
}

impl Host {
    pub fn new(bug: Option<Bug>) -> Self {
        let mut options = Options::new("example-host", "1.0.0");
        options.capabilities.elicitation = true;
        Self {
            client: Client::new(Lines::new(), options, 1),
            bug,
            jobs: BTreeMap::new(),
            tickets: 0,
            tools: BTreeMap::new(),
            questions: BTreeMap::new(),
            answers: vec![],
            shown: vec![],
        }
    }

    pub fn open(&mut self, now: Time) {
        self.client.open(now).expect("it was not open");
    }

    /// The tools that the model knows.
    pub fn tools(&self) -> BTreeSet<&str> {
        self.tools.keys().map(String::as_str).collect()
    }

    /// The model calls a tool. Returns whether there is one of this name.
    pub fn call(&mut self, now: Time, name: &str) -> bool {
        let Some(position) = self.tools.get(name) else { return false };
        let routed = match self.bug {
            Some(Bug::WrongRoute) => {
                let catalog = self.client.catalog();
                catalog.tools().nth(*position).map(|tool| tool.name.to_string())
            }
            _ => Some(name.into()),
        };
        routed.is_some_and(|name| self.accept(now, name, false))
    }

    /// The model reads a resource. Returns whether the host accepts that.
    pub fn read(&mut self, now: Time, uri: &str) -> bool {
        self.accept(now, uri.into(), true)
    }

    fn accept(&mut self, now: Time, key: String, is_read: bool) -> bool {
        let job = Job { ticket: self.tickets, key, is_read, tries: 0 };
        let accepted = self.start(now, job).is_ok();
        self.tickets += usize::from(accepted);
        accepted
    }

    fn start(&mut self, now: Time, mut job: Job) -> Result<(), String> {
        job.tries += 1;
        // The host tries again itself, so the client does not.
        let request = match job.is_read {
            true => Request::read_resource(&job.key),
            false => Request::call_tool(&job.key, None),
        };
        let id = self.client.request(now, request.replay(false));
        let id = id.map_err(|error| error.to_string())?;
        if self.bug == Some(Bug::LostAnswer) {
            self.jobs.retain(|_, known| known.key != job.key);
        }
        self.jobs.insert(id, job);
        Ok(())
    }

    fn finish(&mut self, now: Time, request: RequestId, outcome: Outcome) {
        let Some(job) = self.jobs.remove(&request) else { return };
        let tries = if self.bug == Some(Bug::RetryTooMany) { TRIES + 1 } else { TRIES };
        let answer = match outcome {
            Outcome::Result(result) => Ok(result.get().into()),
            _ if job.is_read && job.tries < tries => match self.start(now, job.clone()) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            other => Err(format!("{other:?}")),
        };
        self.answers.push((job.ticket, answer));
    }

    fn update_tools(&mut self) {
        let names = self.client.catalog().tools().map(|tool| tool.name.to_string());
        let names = names.enumerate().map(|(position, name)| (name, position));
        let tools: BTreeMap<_, _> = names.collect();
        match self.bug {
            Some(Bug::StaleCatalogue) if !self.tools.is_empty() => {}
            Some(Bug::WrongRoute) => {
                self.tools.retain(|name, _| tools.contains_key(name));
                tools.into_iter().for_each(|(name, position)| {
                    self.tools.entry(name).or_insert(position);
                });
            }
            _ => self.tools = tools,
        }
    }
}

impl Embedder for Host {
    type Driven = Client<Lines>;

    fn driven(&mut self) -> &mut Client<Lines> {
        &mut self.client
    }

    fn on_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Ready => {
                self.update_tools();
                if self.bug == Some(Bug::PromptShownTwice) {
                    self.shown.extend(self.questions.keys());
                }
            }
            Event::CatalogChanged { .. } => self.update_tools(),
            Event::Finished { request, outcome, .. } => self.finish(now, request, outcome),
            Event::ServerRequest { id, .. } => {
                self.shown.push(id);
                self.questions.insert(id, now + USER);
            }
            Event::ServerRequestEnded { .. } if self.bug == Some(Bug::PromptShownTwice) => {}
            Event::ServerRequestEnded { id, .. } => {
                self.questions.remove(&id);
            }
            _ => {}
        }
    }

    /// When the user answers the next question.
    fn deadline(&self) -> Option<Time> {
        self.questions.values().min().copied()
    }

    fn on_timeout(&mut self, now: Time) {
        let due = self.questions.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id);
        for id in due.collect::<Vec<_>>() {
            self.questions.remove(&id);
            let declined = r#"{"action": "decline"}"#.into();
            let declined = RawValue::from_string(declined).expect("it is JSON");
            // An error means that the question is over.
            let _ = self.client.respond(now, id, Ok(&declined));
        }
    }
}
