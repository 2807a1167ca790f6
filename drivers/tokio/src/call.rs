//! A call in flight.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mcp_proto::host::hub::CallId;
use mcp_proto::{Diagnosis, Outcome, Progress, TimeBound};
use mcp_proto_std::{CallError, CallErrorKind, Reply, reply};
use tokio::sync::oneshot;

use crate::process::Aborted;
use crate::queue::{Queue, Reports};
use crate::trace::CallSpan;

/// How a call ended, and why its connection or exchange is lost, if it ended because of that.
pub(crate) type Ended = (Outcome, Option<Box<Diagnosis>>);

/// What cancels a call.
pub(crate) trait Cancel: Send + Sync {
    fn cancel(&self, call: CallId, reason: Option<&str>);

    /// Cancels a call after this time, and says that it is over before.
    fn cancel_after(&self, call: CallId, after: Duration, is_over: Arc<AtomicBool>) -> Aborted<()>;
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
    outcome: Option<oneshot::Receiver<Ended>>,
    progress: Arc<Queue<Progress>>,
    /// What ends it when its time is over, and whether that was so.
    deadline: Option<(Aborted<()>, Arc<AtomicBool>)>,
    span: CallSpan,
}

impl Call {
    pub(crate) fn new(
        session: Arc<dyn Cancel>,
        id: CallId,
        server: Box<str>,
        name: (&str, &str),
        outcome: oneshot::Receiver<Ended>,
        progress: Arc<Queue<Progress>>,
        span: CallSpan,
    ) -> Self {
        Self {
            session,
            id,
            server,
            name: (name.0.into(), name.1.into()),
            outcome: Some(outcome),
            progress,
            deadline: None,
            span,
        }
    }

    /// The client's id of the call, or the hub's.
    pub const fn id(&self) -> CallId {
        self.id
    }

    /// The server's name.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Bounds the time until the result from now on, whatever progress is reported, and whether or not the call is awaited. The
    /// call is cancelled then, which ends its progress, and ends as [`Outcome::TimedOut`]: it may have run. The timeouts of the
    /// client's options apply in any case.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(session: mcp_proto_tokio::Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let reply = session.start_tool("export", &serde_json::json!({}))?.timeout(Duration::from_secs(5)).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn timeout(mut self, after: Duration) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let timer = self.session.cancel_after(self.id, after, Arc::clone(&is_over));
        self.deadline = Some((timer, is_over));
        self
    }

    /// Cancels the call, with a reason that the server is told, for its logs. It ends as [`Outcome::Cancelled`], unless it has
    /// ended. Dropping the call cancels it, too.
    pub fn cancel(&self, reason: &str) {
        if let Some((timer, _)) = &self.deadline {
            timer.0.abort();
        }
        if self.outcome.is_some() {
            self.session.cancel(self.id, Some(reason));
        }
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
        let (mut outcome, cause) = ready!(Pin::new(outcome).poll(context)).unwrap_or((Outcome::Unknown, None));
        let is_over = self.deadline.as_ref().is_some_and(|(_, is_over)| is_over.load(Ordering::Relaxed));
        if is_over && matches!(outcome, Outcome::Cancelled) {
            outcome = Outcome::TimedOut(TimeBound::Total);
        }
        self.outcome = None;
        let (method, target) = &self.name;
        let result = reply(outcome);
        self.span.end(&self.server, result.as_ref());
        Poll::Ready(result.map_err(|kind| CallError::new(&self.server, method, target, kind).because(cause)))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.outcome.is_some() {
            self.session.cancel(self.id, None);
            self.span.end(&self.server, Err(&CallErrorKind::Ended(Outcome::Cancelled)));
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, server, name, .. } = self;
        f.debug_struct("Call").field("id", id).field("server", server).field("name", name).finish_non_exhaustive()
    }
}
