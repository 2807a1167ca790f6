//! Queues between a client and its embedder, which lose their oldest items when they are full.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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
    /// Of the tasks that wait, by their readers.
    wakers: BTreeMap<u64, Waker>,
    readers: u64,
}

/// What a client reports, in order: its events, or the progress of a call. It ends with what it belongs to.
///
/// A stream that is not read keeps 1,024 items and 16 MiB, and leaves out the oldest ones: it never slows the client down.
/// Nothing that needs an answer is lost with it, since results and what servers ask for go other ways.
pub struct Reports<T> {
    queue: Arc<Queue<T>>,
    reader: u64,
}

/// The end at which reports are added.
pub(crate) struct Queue<T>(Mutex<State<T>>);

impl<T> Queue<T> {
    pub(crate) fn new() -> Arc<Self> {
        let (items, wakers) = (VecDeque::new(), BTreeMap::new());
        Arc::new(Self(Mutex::new(State { items, bytes: 0, left_out: 0, is_over: false, wakers, readers: 0 })))
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
    let wakers = std::mem::take(&mut state.wakers);
    drop(state);
    wakers.into_values().for_each(Waker::wake);
}

impl<T> Reports<T> {
    pub(crate) fn of(queue: Arc<Queue<T>>) -> Self {
        let reader = {
            let mut state = queue.state();
            state.readers = state.readers.saturating_add(1);
            state.readers
        };
        Self { queue, reader }
    }

    /// The next report; `None` after the last one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|context| self.poll(context)).await
    }

    /// How many reports were left out since the last call.
    pub fn left_out(&mut self) -> u64 {
        std::mem::take(&mut self.queue.state().left_out)
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Option<T>> {
        let mut state = self.queue.state();
        if let Some((item, bytes)) = state.items.pop_front() {
            state.bytes = state.bytes.saturating_sub(bytes);
            return Poll::Ready(Some(item));
        }
        if state.is_over {
            return Poll::Ready(None);
        }
        state.wakers.insert(self.reader, context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Reports<T> {
    fn drop(&mut self) {
        self.queue.state().wakers.remove(&self.reader);
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

/// Those who get events. Their streams end with it.
pub(crate) struct Subscribers<E>(Vec<Weak<Queue<E>>>);

impl<E> Default for Subscribers<E> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<E> Subscribers<E> {
    pub(crate) fn add(&mut self, queue: &Arc<Queue<E>>) {
        self.0.push(Arc::downgrade(queue));
    }

    /// Ends all streams.
    pub(crate) fn clear(&mut self) {
        self.0.drain(..).filter_map(|queue| queue.upgrade()).for_each(|queue| queue.finish());
    }
}

impl<E: Clone> Subscribers<E> {
    pub(crate) fn push(&mut self, event: &E, bytes: usize) {
        self.0.retain(|queue| queue.upgrade().inspect(|queue| queue.push(event.clone(), bytes)).is_some());
    }
}

impl<E> Drop for Subscribers<E> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_readers_of_a_stream_are_woken() {
        let queue = Queue::new();
        let read = |mut reports: Reports<u32>| tokio::spawn(async move { reports.next().await });
        let readers = [0; 3].map(|_| read(Reports::of(Arc::clone(&queue))));
        tokio::task::yield_now().await;
        assert_eq!(queue.state().wakers.len(), 3);
        queue.push(7, 1);
        // One that is dropped leaves nothing.
        drop(Reports::of(Arc::clone(&queue)));
        // Each of the others waits on.
        tokio::task::yield_now().await;
        queue.finish();
        let mut found = Vec::new();
        for reader in readers {
            found.extend(reader.await.unwrap());
        }
        assert_eq!((found, queue.state().wakers.len()), (vec![7], 0));
    }

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
