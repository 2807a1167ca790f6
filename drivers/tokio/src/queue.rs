//! Queues between a client and its embedder, which lose their oldest items when they are full.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

/// Items that wait, at most, and bytes of theirs.
const ITEMS: usize = 1024;
const BYTES: usize = 16 << 20;

struct State<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    left_out: u64,
    is_over: bool,
    waker: Option<Waker>,
}

/// What a client reports, in order: its events, or the progress of a call. It ends with what it belongs to.
///
/// A stream that is not read keeps 1,024 items and 16 MiB, and leaves out the oldest ones: it never slows the client down.
/// Nothing that needs an answer is lost with it, since results and what servers ask for go other ways.
pub struct Reports<T>(Arc<Queue<T>>);

/// The end at which reports are added.
pub(crate) struct Queue<T>(Mutex<State<T>>);

impl<T> Queue<T> {
    pub(crate) fn new() -> Arc<Self> {
        let (items, waker) = (VecDeque::new(), None);
        Arc::new(Self(Mutex::new(State { items, bytes: 0, left_out: 0, is_over: false, waker })))
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, item: T, bytes: usize) {
        let mut state = self.state();
        state.items.push_back((item, bytes));
        state.bytes = state.bytes.saturating_add(bytes);
        while state.items.len() > ITEMS || state.bytes > BYTES && state.items.len() > 1 {
            let lost = state.items.pop_front().map_or(0, |(_, bytes)| bytes);
            state.bytes = state.bytes.saturating_sub(lost);
            state.left_out = state.left_out.saturating_add(1);
        }
        wake(state);
    }

    /// No item follows.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.is_over = true;
        wake(state);
    }
}

fn wake<T>(mut state: MutexGuard<'_, State<T>>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl<T> Reports<T> {
    pub(crate) const fn of(queue: Arc<Queue<T>>) -> Self {
        Self(queue)
    }

    /// The next report; `None` after the last one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|context| self.poll(context)).await
    }

    /// How many reports were left out since the last call.
    pub fn left_out(&mut self) -> u64 {
        std::mem::take(&mut self.0.state().left_out)
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.state();
        if let Some((item, bytes)) = state.items.pop_front() {
            state.bytes = state.bytes.saturating_sub(bytes);
            return Poll::Ready(Some(item));
        }
        if state.is_over {
            return Poll::Ready(None);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Stream for Reports<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll(context)
    }
}

impl<T> fmt::Debug for Reports<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_items_are_left_out_by_number_and_by_size() {
        let queue = Queue::new();
        let mut reports = Reports::of(Arc::clone(&queue));
        for number in 0..ITEMS + 3 {
            queue.push(number, 1);
        }
        assert_eq!((reports.next().await, reports.left_out(), reports.left_out()), (Some(3), 3, 0));
        queue.push(7, BYTES + 1);
        queue.push(8, 0);
        queue.finish();
        let mut rest = Vec::new();
        while let Some(number) = reports.next().await {
            rest.push(number);
        }
        assert_eq!((rest, reports.left_out()), (vec![8], u64::try_from(ITEMS).unwrap()));
        assert_eq!(queue.state().bytes, 0);
    }
}
