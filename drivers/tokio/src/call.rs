//! A call in flight.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use mcp_proto::host::hub::CallId;
use mcp_proto::{Outcome, Progress};
use mcp_proto_std::{CallError, Reply, reply};
use tokio::sync::oneshot;

use crate::queue::{Queue, Reports};

/// What cancels a call.
pub(crate) trait Cancel: Send + Sync {
    fn cancel(&self, call: CallId);
}

/// A call in flight: a future of its result. The call runs whether or not it is awaited. When it is dropped before, the
/// call is cancelled, and the server told so.
///
/// ```no_run
/// # async fn example(session: mcp_proto_tokio::Session) -> Result<(), Box<dyn std::error::Error>> {
/// let call = session.start_tool("export", &serde_json::json!({"year": 2026}))?;
/// let mut progress = call.progress();
/// while let Some(step) = progress.next().await {
///     println!("{:?} of {:?}", step.progress(), step.total());
/// }
/// println!("{}", call.await?.text());
/// # Ok(()) }
/// ```
pub struct Call {
    session: Arc<dyn Cancel>,
    id: CallId,
    server: Box<str>,
    name: (Box<str>, Box<str>),
    /// `None` after the outcome.
    outcome: Option<oneshot::Receiver<Outcome>>,
    progress: Arc<Queue<Progress>>,
}

impl Call {
    pub(crate) fn new(
        session: Arc<dyn Cancel>,
        id: CallId,
        server: Box<str>,
        name: (&str, &str),
        outcome: oneshot::Receiver<Outcome>,
        progress: Arc<Queue<Progress>>,
    ) -> Self {
        Self { session, id, server, name: (name.0.into(), name.1.into()), outcome: Some(outcome), progress }
    }

    /// The client's id of the call, or the hub's.
    pub const fn id(&self) -> CallId {
        self.id
    }

    /// The server's name.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The progress that the server reports, until the call ends. Calls of tools ask for it, others if
    /// [`Request::progress`](mcp_proto::Request::progress) says so. There is one stream: those of several calls of this
    /// method share the reports.
    pub fn progress(&self) -> Reports<Progress> {
        Reports::of(Arc::clone(&self.progress))
    }
}

impl Future for Call {
    type Output = Result<Reply, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(outcome) = &mut self.outcome else { return Poll::Pending };
        // Each call ends; without an end the runtime does.
        let outcome = ready!(Pin::new(outcome).poll(context)).unwrap_or(Outcome::Unknown);
        self.outcome = None;
        let (method, target) = &self.name;
        Poll::Ready(reply(outcome).map_err(|kind| CallError::new(&self.server, method, target, kind)))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.outcome.is_some() {
            self.session.cancel(self.id);
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, server, name, .. } = self;
        f.debug_struct("Call").field("id", id).field("server", server).field("name", name).finish_non_exhaustive()
    }
}
