//! Shared I/O: a runtime, an HTTP client, and waiting for the first server with input.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::access::{self, Access};
use crate::client::Client;
use crate::peer::{Input, Peer};

/// An input of the run.
pub(crate) enum Came {
    /// From the server with this index.
    Server(usize, Input),
    Access(access::Came),
}

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

    /// Runs a future to its end.
    pub(crate) fn block_on<T: Default>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.as_ref().map(|runtime| runtime.block_on(future)).unwrap_or_default()
    }

    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.runtime.as_ref().map(Runtime::enter)
    }

    /// Waits for input from any server, the user or the store, until this time.
    pub(crate) fn wait(&mut self, peers: &mut [Peer], mut access: Option<&mut Access>, until: Instant) -> Option<Came> {
        let (runtime, first) = (self.runtime.as_ref()?, self.last.saturating_add(1));
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            let tick = peers.iter().filter_map(Peer::tick).min().unwrap_or(rest);
            let input = runtime.block_on(async {
                // Lets exchanges proceed even if a process always has input.
                yield_now().await;
                timeout(rest.min(tick), poll_fn(|context| poll(peers, access.as_deref_mut(), first, context))).await
            });
            match input {
                Ok(Came::Server(at, input)) => {
                    self.last = at;
                    return Some(Came::Server(at, input));
                }
                Ok(came) => return Some(came),
                Err(_) if Instant::now() >= until => return None,
                Err(_) => {}
            }
        }
    }
}

/// Polls the user and the store, then each server in turn, starting with `first`.
fn poll(peers: &mut [Peer], access: Option<&mut Access>, first: usize, context: &mut Context<'_>) -> Poll<Came> {
    if let Some(Poll::Ready(came)) = access.map(|access| access.poll(context)) {
        return Poll::Ready(Came::Access(came));
    }
    let (before, after) = peers.split_at_mut(first.min(peers.len()));
    let after = after.iter_mut().enumerate().map(|(at, peer)| (at.saturating_add(first), peer));
    for (at, peer) in after.chain(before.iter_mut().enumerate()) {
        if let Poll::Ready(input) = peer.poll(context) {
            return Poll::Ready(Came::Server(at, input));
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
