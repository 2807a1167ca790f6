//! The loop: runs the session's actions and reports their results to it.

use std::time::{Duration, Instant};

use mcp_proto::binding::http::HttpAction;
use mcp_proto::{Client, Event, Http, Options, Time};
use reqwest::header::HeaderMap;
use tokio::time::timeout;

use crate::exchanges::{Exchanges, tell};

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
    pub(crate) fn new(options: Options, seed: u64, url: http::Uri, client: reqwest::Client, own: HeaderMap) -> Self {
        let (session, exchanges) = (Client::new(Http::new(url), options, seed), Exchanges::new(client));
        Self { session, exchanges, own, start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_epoch(self.start.elapsed())
    }

    /// The next event; `None` after the last one. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(action) = self.session.poll() {
                match action {
                    HttpAction::Request(request) => self.exchanges.start(request, self.own.clone()),
                    HttpAction::Drop(exchange) => self.exchanges.drop(exchange),
                    HttpAction::Event(event) => return Some(event),
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
