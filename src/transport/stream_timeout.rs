//! Drops an HTTP/2 stream whose reader has stopped, while the others of its connection continue.
//!
//! A peer that reads from a stream opens its window. While the window is closed, hyper does not poll the response's
//! body. The body cannot notice this, and holds the snapshot of its list. So the task that hyper creates for each
//! stream is observed from outside. If the body yielded a piece in its last poll, and the task sleeps, then the task
//! waits for the reader. If no other piece is read within [`PATIENCE`], the task is dropped, which resets the stream
//! and frees everything. A watch that waits for events yielded nothing in its last poll, so it may wait for any time.
//!
//! [`super::write_timeout`] does the same for whole connections, and for HTTP/1.1.
//!
//! The task also ends when its response must end, because too much is unread: see [`crate::flow_control::unread`]. Over
//! HTTP/1.1 it is the task of the connection ([`until_ended`]).
#![expect(clippy::disallowed_methods, reason = "streams are tasks, which hyper hands here to be started")]

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::{Instant, Sleep, sleep};

use super::pace::PATIENCE;
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::connections::Connections;
use crate::flow_control::limit::Limited;
use crate::flow_control::seats::{UNIT_TIME, Worker};
use crate::flow_control::unread::UnreadResponse;
use crate::flow_control::user::UserShare;

/// The result of the last poll of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollOutcome {
    /// The body yielded a piece.
    Piece,
    /// The body waits until the client has read some of it.
    WaitsForReader,
    /// The body has ended, or waits for something other than its reader.
    Nothing,
}

thread_local! {
    /// The result of the body that was polled last on this thread. `None`: the current poll of a task has polled no
    /// body.
    static OUTCOME: Cell<Option<PollOutcome>> = const { Cell::new(None) };
    /// The response that the task has begun to send in its current poll.
    static RESPONSE: Cell<Option<Weak<UnreadResponse>>> = const { Cell::new(None) };
    /// Whether the task that is being polled sends responses.
    static IS_SENDING: Cell<bool> = const { Cell::new(false) };
}

/// Records the result of a poll of a body on this thread. Bodies call it in each poll.
pub(crate) fn record_poll(outcome: PollOutcome) {
    // A piece that the body yielded before it waits shows that the reader made progress.
    if outcome != PollOutcome::WaitsForReader || OUTCOME.get() != Some(PollOutcome::Piece) {
        OUTCOME.set(Some(outcome));
    }
}

/// Sets the response that the task being polled sends. The task ends when this response must end. A body calls it
/// when its first bytes are counted.
///
/// Tasks do not own the response. Over HTTP/1.1 the task is that of the connection, which can be idle for long after
/// the client has read the response. The share of the response must be free by then.
pub(crate) fn set_response(response: &Arc<UnreadResponse>) {
    RESPONSE.set(Some(Arc::downgrade(response)));
}

/// Whether a task must end, because the response that it sends must end. A response that was read completely no longer
/// exists.
fn must_end(response: Option<&Weak<UnreadResponse>>) -> bool {
    response.and_then(Weak::upgrade).is_some_and(|response| response.is_ended())
}

/// Whether a body is polled by a task that sends it to a client. Only then are its bytes counted as unread: such a task
/// frees them when they are sent, and can be ended.
pub(crate) fn is_sending() -> bool {
    IS_SENDING.get()
}

/// Polls a task that sends responses. Returns its result, and the response that it began to send in this poll, if any.
fn poll_sending<Work: Future>(
    work: Pin<&mut Work>,
    context: &mut Context<'_>,
) -> (Poll<Work::Output>, Option<Weak<UnreadResponse>>) {
    /// Resets the flag when the scope ends, also by a panic.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            IS_SENDING.set(false);
        }
    }
    RESPONSE.set(None);
    IS_SENDING.set(true);
    let _reset = Reset;
    (work.poll(context), RESPONSE.take())
}

/// Runs the task of a connection, `work`, until it ends, and returns its result. `None`: it was ended because its
/// client left too much of a response unread. `worker`: takes turns for the work; `None` if work is not limited.
///
/// Over HTTP/2 the work of the connection itself is charged to the user of `worker`. A peer can make this work
/// expensive with frames that are not requests, such as SETTINGS, each of which changes every stream. A turn for each
/// poll would cost as much as the poll. So the connection takes a turn once its polls amount to a unit of work. Over
/// HTTP/1.1 nearly all of the work is that of the responses, which take turns themselves.
pub(crate) async fn until_ended<Work: Future>(
    link: &Link,
    mut worker: Option<Worker>,
    work: Work,
) -> Option<Work::Output> {
    let mut work = pin!(work);
    let mut response: Option<Weak<UnreadResponse>> = None;
    let mut unpaid = Duration::ZERO;
    poll_fn(|context| {
        link.polls.fetch_add(1, Ordering::Relaxed);
        link.task.get_or_init(|| context.waker().clone());
        if must_end(response.as_ref()) {
            return Poll::Ready(None);
        }
        let mut payer = worker.as_mut().filter(|_| unpaid >= UNIT_TIME);
        if let Some(worker) = &mut payer {
            ready!(worker.poll_turn(context));
        }
        let begun = Instant::now();
        let (done, begun_response) = poll_sending(work.as_mut(), context);
        match payer {
            Some(worker) => worker.work_and_settle(std::mem::take(&mut unpaid) + begun.elapsed(), || ()),
            None if link.has_streams.load(Ordering::Relaxed) => unpaid += begun.elapsed(),
            None => {}
        }
        // Over HTTP/1.1, this task sends the responses, and the newest one is in progress.
        response = begun_response.or(response.take());
        done.map(Some)
    })
    .await
}

/// The state that the task of a connection and the tasks of its HTTP/2 streams share.
///
/// A stream that is reset frees its queued bytes only when the reset is written. If the socket accepts no bytes, this
/// may never happen. So the connection ends if the reset is not written soon.
#[derive(Debug)]
pub(crate) struct Link {
    state: Arc<ConnectionState>,
    /// The table of connections, which also counts the memory of long heads, and of requests that are not processed
    /// yet.
    connections: Arc<Connections>,
    /// Whether a stream was reset, and the reset is not written yet.
    must_write: AtomicBool,
    /// Whether the connection uses HTTP/2 and has carried a request.
    has_streams: AtomicBool,
    /// Whether the connection is upgraded to a WebSocket, so that no further request comes.
    is_upgraded: AtomicBool,
    /// The number of polls of the connection's task.
    polls: AtomicU64,
    /// The memory of the request whose task is started next, in bytes. hyper starts the task of a request as soon as
    /// it has read its headers.
    next_request: AtomicU64,
    /// The waker of the connection's task.
    task: OnceLock<Waker>,
}

impl Link {
    /// The shared state of a new connection.
    pub(crate) fn new(state: Arc<ConnectionState>, connections: Arc<Connections>) -> Link {
        let [must_write, has_streams, is_upgraded] = [(); 3].map(|()| AtomicBool::new(false));
        let (polls, next_request) = (AtomicU64::new(0), AtomicU64::new(0));
        Link { state, connections, must_write, has_streams, is_upgraded, polls, next_request, task: OnceLock::new() }
    }

    /// Whether the connection must not be read now, because too many requests are not processed yet.
    pub(crate) fn must_pause(&self) -> bool {
        self.connections.must_pause(self.state.user(), self.state.is_authenticated())
    }

    /// Takes this many bytes of the memory for long heads of requests (see [`super::heads`]), until the share is
    /// dropped. They count for the address of the client, which is `state.user()` here: the user is unknown until the
    /// head has been read.
    ///
    /// # Errors
    /// 429 when the long heads of this address take as much as they may.
    pub(crate) fn take_head(&self, bytes: u64) -> Result<UserShare, Limited> {
        self.connections.take_head(self.state.user(), bytes)
    }

    /// Requires that the connection writes its queued bytes soon, because a stream was reset.
    pub(crate) fn require_write(&self) {
        self.must_write.store(true, Ordering::Relaxed);
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }

    /// The number of the current poll of the connection.
    pub(crate) fn poll(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Records that the connection is upgraded to a WebSocket.
    pub(crate) fn record_upgrade(&self) {
        self.is_upgraded.store(true, Ordering::Relaxed);
    }

    /// Whether the connection is upgraded to a WebSocket.
    pub(crate) fn is_upgraded(&self) -> bool {
        self.is_upgraded.load(Ordering::Relaxed)
    }

    /// Sets the memory, in bytes, of the request whose task is started next.
    pub(crate) fn set_next_request(&self, bytes: u64) {
        self.next_request.store(bytes, Ordering::Relaxed);
    }

    /// Whether a write may wait for the reader for the usual time: no reset has to be written.
    pub(crate) fn may_wait(&self) -> bool {
        !self.must_write.load(Ordering::Relaxed)
    }

    /// Records that all queued bytes are written, and with them the reset of a stream.
    pub(crate) fn record_written(&self) {
        self.must_write.store(false, Ordering::Relaxed);
    }
}

/// Starts the tasks of a connection's HTTP/2 streams, with a timeout for readers that stop.
#[derive(Clone, Debug)]
pub(crate) struct StreamTimeoutExecutor(pub(crate) Arc<Link>);

impl<Work> Executor<Work> for StreamTimeoutExecutor
where
    Work: Future<Output = ()> + Send + 'static,
{
    /// Starts the task of a stream. Drops it, which resets the stream, if too many requests are not processed yet.
    fn execute(&self, work: Work) {
        let Link { state, connections, next_request, has_streams, .. } = &*self.0;
        has_streams.store(true, Ordering::Relaxed);
        let Some(unstarted) = connections.begin_stream(state.user(), next_request.load(Ordering::Relaxed)) else {
            // Dropping `work` resets its stream. A reset takes memory until it is written, so a peer without
            // credentials must not cause thousands of them.
            if !state.is_authenticated() {
                state.evict();
            }
            return;
        };
        tokio::spawn(Watched {
            work: Box::pin(work),
            unstarted: Some(unstarted),
            gives_up: None,
            response: None,
            link: self.0.clone(),
        });
    }
}

/// The task of a stream.
struct Watched<Work> {
    work: Pin<Box<Work>>,
    /// The share of the request's memory, until the task is polled for the first time.
    unstarted: Option<UserShare>,
    /// Ends the task when it is ready. `None`: the task does not wait for its reader.
    gives_up: Option<Pin<Box<Sleep>>>,
    /// The response that the task sends.
    response: Option<Weak<UnreadResponse>>,
    link: Arc<Link>,
}

impl<Work: Future<Output = ()>> Future for Watched<Work> {
    type Output = ();

    /// Polls the work of the stream. Ends the task, which resets the stream, if its response must end, or if the client
    /// has read nothing for [`PATIENCE`].
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // From its first poll on, the request is being processed.
        self.unstarted = None;
        if must_end(self.response.as_ref()) {
            self.link.require_write();
            return Poll::Ready(());
        }
        OUTCOME.set(None);
        let (done, begun) = poll_sending(self.work.as_mut(), context);
        if done.is_ready() {
            return Poll::Ready(());
        }
        if begun.is_some() {
            self.response = begun;
        }
        match OUTCOME.take() {
            Some(PollOutcome::Nothing) => self.gives_up = None,
            Some(PollOutcome::Piece) => match &mut self.gives_up {
                Some(gives_up) => gives_up.as_mut().reset(Instant::now() + PATIENCE),
                none => *none = Some(Box::pin(sleep(PATIENCE))),
            },
            Some(PollOutcome::WaitsForReader) if self.gives_up.is_none() => {
                self.gives_up = Some(Box::pin(sleep(PATIENCE)));
            }
            // No progress of the reader, or no poll of the body: the timeout goes on.
            Some(PollOutcome::WaitsForReader) | None => {}
        }
        match &mut self.gives_up {
            Some(gives_up) => gives_up.as_mut().poll(context).map(|()| {
                tracing::debug!("a client stopped reading a response, resetting its stream");
            }),
            None => Poll::Pending,
        }
    }
}
