//! The loop: runs the session's actions and reports their results to it.

use std::time::{Duration, Instant};

use mcp_proto::binding::http::HttpAction;
use mcp_proto::binding::oauth::{OAuthAction, Reach};
use mcp_proto::{Client, Event, Http, Options, Time};
use reqwest::header::HeaderMap;
use tokio::time::timeout;

use crate::exchanges::{Clients, Exchange, Exchanges, tell};

/// What a session wants of its host.
pub(crate) enum Next {
    Event(Event),
    #[allow(dead_code, reason = "only sessions that authorize themselves have them")]
    OAuth(OAuthAction),
}

/// A session that runs while its events are awaited.
pub(crate) struct Driver {
    pub(crate) session: Client<Http>,
    exchanges: Exchanges,
    /// Headers of each request of this session.
    own: HeaderMap,
    start: Instant,
}

impl Driver {
    /// Each session needs a different `seed`.
    pub(crate) fn new(options: Options, seed: u64, http: Http, clients: Clients, own: HeaderMap) -> Self {
        let (session, exchanges) = (Client::new(http, options, seed), Exchanges::new(clients));
        Self { session, exchanges, own, start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_epoch(self.start.elapsed())
    }

    /// What the host has to know or to do next; `None` after the last event. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Next> {
        loop {
            while let Some(action) = self.session.poll() {
                match action {
                    HttpAction::Request(it) => {
                        let own = self.own.clone();
                        self.exchanges.start(Exchange::Server(it.exchange), Reach::Any, it.request, own);
                    }
                    HttpAction::Drop(exchange) => self.exchanges.drop(Exchange::Server(exchange)),
                    HttpAction::Event(event) => return Some(Next::Event(event)),
                    // The server's headers are not for its authorization server.
                    HttpAction::OAuth(OAuthAction::Request(it)) => {
                        self.exchanges.start(Exchange::OAuth(it.exchange), it.reach, it.request, HeaderMap::new());
                    }
                    HttpAction::OAuth(OAuthAction::Drop(exchange)) => self.exchanges.drop(Exchange::OAuth(exchange)),
                    HttpAction::OAuth(action) => return Some(Next::OAuth(action)),
                    _ => {}
                }
            }
            if self.session.is_closed() {
                return None;
            }
            let wait = self.session.deadline().map_or(Duration::MAX, |deadline| deadline.since(self.now()));
            match timeout(wait, self.exchanges.next()).await {
                Ok(Some((exchange, piece))) => {
                    let now = self.now();
                    tell(&mut self.session, now, exchange, &piece);
                }
                Ok(None) | Err(_) => {
                    let now = self.now();
                    self.session.handle_timeout(now);
                }
            }
        }
    }
}
