//! Shared I/O: a runtime, an HTTP client, and waiting for the first server with input.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::client::Client;
use crate::peer::{Input, Peer};

pub(crate) struct Io {
    /// `None` only while dropping.
    runtime: Option<Runtime>,
    client: Option<Client>,
    /// The server that was served last: the next wait starts after it, so that a busy server does not starve the
    /// others.
    last: usize,
}

impl Io {
    pub(crate) fn new() -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        Ok(Self { runtime: Some(runtime), client: None, last: 0 })
    }

    pub(crate) fn client(&mut self) -> Result<Client, String> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = Client::new().map_err(|error| error.to_string())?;
        Ok(self.client.insert(client).clone())
    }

    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.runtime.as_ref().map(Runtime::enter)
    }

    /// Waits for input from any server, until this time.
    pub(crate) fn wait(&mut self, peers: &mut [Peer], until: Instant) -> Option<(usize, Input)> {
        let (runtime, first) = (self.runtime.as_ref()?, self.last.saturating_add(1));
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            let tick = peers.iter().filter_map(Peer::tick).min().unwrap_or(rest);
            let input = runtime.block_on(async {
                // Lets exchanges proceed even if a process always has input.
                yield_now().await;
                timeout(rest.min(tick), poll_fn(|context| poll(peers, first, context))).await
            });
            match input {
                Ok(input) => {
                    self.last = input.0;
                    return Some(input);
                }
                Err(_) if Instant::now() >= until => return None,
                Err(_) => {}
            }
        }
    }
}

/// Polls each server in turn, starting with `first`.
fn poll(peers: &mut [Peer], first: usize, context: &mut Context<'_>) -> Poll<(usize, Input)> {
    let (before, after) = peers.split_at_mut(first.min(peers.len()));
    let after = after.iter_mut().enumerate().map(|(at, peer)| (at.saturating_add(first), peer));
    for (at, peer) in after.chain(before.iter_mut().enumerate()) {
        if let Poll::Ready(input) = peer.poll(context) {
            return Poll::Ready((at, input));
        }
    }
    Poll::Pending
}

impl Drop for Io {
    /// Does not wait for pending name lookups.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
