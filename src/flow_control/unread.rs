//! Bytes that were written for clients, and that no socket has taken yet.
//!
//! When a reader stops, they stay in the process. They are in hyper, and in the send queues of HTTP/2 streams, up to
//! the window that a client announces. So every piece of a response is counted from when its body yields it until its
//! memory is free. The count is part of the piece. Two bounds apply:
//!
//! - One answer is not continued while [`WATCH_AHEAD`] or [`LIST_AHEAD`] bytes of it are unread. So each holds at most
//!   that and one more piece, whatever window the client announces.
//! - All watches together hold at most `--max-unread-bytes`. Beyond it [`slowest`] decides which of them end: their
//!   HTTP/2 stream is reset, or their connection closed, which frees their bytes. The client resumes from its last
//!   event, as after any lost connection. Until the bytes are free, no watch with unread bytes continues. A quarter
//!   above the bound, only watches of users whose watches hold little ([`FIRST`]) continue. Otherwise tens of thousands
//!   of watches would make pieces faster than the slowest are ended. A user with few watches would wait among the
//!   thousands of another one.
//! - All other responses together may hold as much again. Each takes its [`UserShare`] before it is sent, and a request
//!   whose response finds none is rejected with 429. Responses that were begun are not ended, because their client would
//!   repeat the request. They end when their reader has taken nothing for two minutes (`write_timeout`, `stream_timeout`).
//!
//! A small response takes its share after it is made, by the address of the client, because it can come before authentication.
//! Without room its connection ends.
//!
//! Three things are counted separately:
//!
//! - one TLS buffer for each connection, bounded in `tls`
//! - what the kernel holds for a connection, bounded by TCP_NOTSENT_LOWAT in `listen`
//! - changes in mailboxes, bounded in `registry::event_dispatcher`

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};

use bytes::Bytes;

use super::limit::{Limit, Limited, RETRY_AFTER};
use super::slowest::{ResponseBacklog, slowest};
use super::user::{User, UserShare};
use crate::model::quantity;
use crate::model::shares::Shares;

/// Unread bytes of a watch, beyond which it makes no further piece. Users have many watches.
const WATCH_AHEAD: u64 = 64 << 10;

/// The unread bytes from which another response is not continued: two pieces, so that one is created while the other
/// one is sent.
const LIST_AHEAD: u64 = 128 << 10;

/// The part of the bound that the watches of one user may have unread while all watches are held back. It applies as
/// long as all of them hold less than twice the bound. Of the default it is 4 MiB.
const FIRST: u64 = 64;

/// The most that a response which is streamed holds: what it may be ahead, and the piece that is made.
pub const STREAMED: u64 = LIST_AHEAD + (64 << 10);

/// Memory of a response besides its body: its stream, its task and its head.
const RESPONSE: u64 = 2 << 10;

/// Whole answers up to this size are not counted: they are as small as the request that they answer.
pub const SMALL: usize = 16 << 10;

/// The unread bytes of a server.
#[derive(Debug)]
pub struct Unread {
    /// The bound of unread bytes of watches.
    most: u64,
    /// Unread bytes of watches.
    watches: AtomicU64,
    /// Unread bytes of all responses.
    total: AtomicU64,
    /// Unread bytes of responses that are about to end: counted in the total until they have.
    ending: AtomicU64,
    /// Counts the pieces that were read: the clock that measures the progress of readers.
    taken: AtomicU64,
    ended: AtomicU64,
    answers: Mutex<Answers>,
    users: Mutex<Users>,
    /// Whether watches wait until enough is free.
    is_awaited: AtomicBool,
    meters: AtomicU64,
    /// What responses other than watches may hold.
    responses: Arc<Shares<User>>,
    /// The shares of small responses: rejections are among them, so they need room when there is none for others.
    small: Arc<Shares<User>>,
}

/// Users that have watches.
#[derive(Debug, Default)]
struct Users {
    known: HashMap<User, Weak<UserUnread>>,
    /// At this number, users without watches are removed.
    most: usize,
}

/// The watches of one user.
#[derive(Debug, Default)]
struct UserUnread {
    /// Unread bytes of all of them.
    bytes: AtomicU64,
    /// Tasks of watches that wait until enough is free, by the number of the meter: one for each watch at most.
    waiting: Mutex<HashMap<u64, Waker>>,
    is_awaited: AtomicBool,
}

impl UserUnread {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a waker that is called when the user has less unread.
    fn wait(&self, meter: u64, waker: Waker) {
        self.lock().insert(meter, waker);
        self.is_awaited.store(true, Ordering::SeqCst);
    }

    /// Wakes all waiting watches of the user.
    fn wake(&self) {
        if self.is_awaited.load(Ordering::SeqCst) {
            let waiting = {
                let mut waiting = self.lock();
                self.is_awaited.store(false, Ordering::SeqCst);
                std::mem::take(&mut *waiting)
            };
            waiting.into_values().for_each(Waker::wake);
        }
    }
}

#[derive(Debug, Default)]
struct Answers {
    next: u64,
    known: HashMap<u64, Weak<UnreadResponse>>,
}

/// Counts the unread bytes of one answer.
#[derive(Debug)]
pub struct Meter {
    unread: Arc<Unread>,
    user: User,
    /// `None` where it is no watch.
    watches: Option<Arc<UserUnread>>,
    number: u64,
    ahead: u64,
    is_watch: bool,
    /// Its task may be among those that wait.
    has_waited: AtomicBool,
    answer: Option<Arc<UnreadResponse>>,
    /// Held by the meter until there is a response, then by the response.
    share: Option<UserShare>,
}

/// One answer of which something was unread.
#[derive(Debug)]
pub struct UnreadResponse {
    unread: Arc<Unread>,
    user: User,
    /// `None` where it is no watch.
    watches: Option<Arc<UserUnread>>,
    number: u64,
    is_watch: bool,
    bytes: AtomicU64,
    /// When its reader read something last.
    progress: AtomicU64,
    /// The bytes that it had when it was marked as ending.
    ending: AtomicU64,
    is_ended: AtomicBool,
    /// Its body waits until something is read.
    waits: AtomicBool,
    /// The waker of the task that sends it.
    task: Waker,
    /// What a response that is no watch may hold, until all of its pieces are free.
    share: Mutex<Option<UserShare>>,
}

/// A piece with its count.
struct Piece {
    bytes: Bytes,
    answer: Arc<UnreadResponse>,
}

impl Unread {
    /// A count of unread bytes with the bound `most`; no byte is unread yet.
    pub fn new(most: quantity::Bytes) -> Unread {
        Unread {
            most: most.0,
            watches: AtomicU64::new(0),
            total: AtomicU64::new(0),
            ending: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            answers: Mutex::default(),
            users: Mutex::default(),
            is_awaited: AtomicBool::new(false),
            meters: AtomicU64::new(0),
            responses: Arc::new(Shares::new(most.0, STREAMED)),
            small: Arc::new(Shares::new(most.0, RESPONSE + SMALL as u64)),
        }
    }

    /// Takes the share of a response that is no watch and may hold this many bytes; a streamed one holds
    /// [`STREAMED`].
    ///
    /// # Errors
    /// 429 when unread responses of this user take as much memory as they may.
    pub fn admit(&self, user: &User, bytes: u64) -> Result<UserShare, Limited> {
        self.responses.take(user, bytes).ok_or_else(|| {
            let (flag, most) = (Limit::UnreadBytes.flag(), quantity::Bytes(self.responses.most()));
            // The count reveals how long objects are that the caller may not see, and what others do.
            let message = format!(
                "too many requests, please try again later: user {user} has unread responses that take as much memory as is free of {flag}={most}. Read responses before you send more requests, send fewer at a time, or raise {flag}"
            );
            Limited { limit: Limit::UnreadBytes, message, retry_after: Some(RETRY_AFTER) }
        })
    }

    /// Takes the share of a small response, which is made before it is known whether there is room; `None`: there is none.
    pub fn admit_small(&self, address: &User, length: usize) -> Option<UserShare> {
        self.small.take(address, RESPONSE + length as u64)
    }

    /// A meter for a response to this user. `is_watch`: it is that of a watch.
    pub fn meter(self: &Arc<Unread>, user: &User, is_watch: bool, share: Option<UserShare>) -> Meter {
        let ahead = if is_watch { WATCH_AHEAD } else { LIST_AHEAD };
        let number = self.meters.fetch_add(1, Ordering::Relaxed);
        let has_waited = AtomicBool::new(false);
        let (unread, watches) = (self.clone(), is_watch.then(|| self.watches_of(user)));
        Meter { unread, user: user.clone(), watches, number, ahead, is_watch, has_waited, answer: None, share }
    }

    /// The unread bytes of the watches of a user.
    fn watches_of(&self, user: &User) -> Arc<UserUnread> {
        let mut users = self.lock_users();
        if let Some(known) = users.known.get(user).and_then(Weak::upgrade) {
            return known;
        }
        if users.known.len() >= users.most {
            users.known.retain(|_, known| known.strong_count() > 0);
            users.most = 2 * users.known.len().max(32);
        }
        let new = Arc::<UserUnread>::default();
        users.known.insert(user.clone(), Arc::downgrade(&new));
        new
    }

    fn lock_users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The unread bytes of all watches.
    pub fn bytes(&self) -> u64 {
        self.watches.load(Ordering::SeqCst)
    }

    /// The unread bytes of all responses.
    pub fn bytes_of_all(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The number of watches that were ended because of the bound.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Whether a watch without unread bytes can create a piece.
    fn has_room(&self, user: &UserUnread) -> bool {
        let bytes = self.bytes();
        bytes <= self.most.saturating_add(self.most / 4)
            || (bytes < self.most.saturating_mul(2) && user.bytes.load(Ordering::SeqCst) < self.most / FIRST)
    }

    /// Notes that bytes of watches of this user are free.
    fn freed(&self, user: &UserUnread, bytes: u64) {
        let before = self.watches.fetch_sub(bytes, Ordering::SeqCst);
        let of_user = user.bytes.fetch_sub(bytes, Ordering::SeqCst);
        if before.saturating_sub(bytes) <= self.most {
            self.wake_waiting();
        } else {
            // All of the user wait again soon, so they are woken once for every half of its part, not for each piece.
            let half = self.most / FIRST / 2;
            if of_user >= half && of_user.saturating_sub(bytes) < half {
                user.wake();
            }
        }
    }

    /// Wakes the waiting watches of all users.
    fn wake_waiting(&self) {
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            let users: Vec<Arc<UserUnread>> = self.lock_users().known.values().filter_map(Weak::upgrade).collect();
            users.iter().for_each(|user| user.wake());
        }
    }

    /// Whether all responses together have more unread bytes than the limit, without those that are ending.
    fn is_too_much(&self) -> bool {
        self.bytes().saturating_sub(self.ending.load(Ordering::Relaxed)) > self.most
    }

    /// Ends the slowest watches, down to seven eighths of the bound so that this is done rarely.
    fn end_slowest(&self) {
        let known: Vec<Arc<UnreadResponse>> = {
            let answers = self.lock();
            if !self.is_too_much() {
                return;
            }
            answers.known.values().filter_map(Weak::upgrade).collect()
        };
        let alive: Vec<Arc<UnreadResponse>> =
            known.into_iter().filter(|answer| answer.is_watch && !answer.is_ended()).collect();
        let backlogs: Vec<ResponseBacklog> = alive
            .iter()
            .map(|answer| ResponseBacklog {
                user: answer.user.clone(),
                bytes: answer.bytes.load(Ordering::Relaxed),
                progress: answer.progress.load(Ordering::Relaxed),
            })
            .collect();
        let (mut watches, mut freed, mut user) = (0_u64, 0, None);
        for place in slowest(&backlogs, self.most - self.most / 8) {
            let (answer, bytes) = (&alive[place], backlogs[place].bytes);
            if !answer.is_ended.swap(true, Ordering::Relaxed) {
                answer.ending.store(bytes, Ordering::Relaxed);
                self.ending.fetch_add(bytes, Ordering::Relaxed);
                self.ended.fetch_add(1, Ordering::Relaxed);
                (watches, freed) = (watches + 1, freed + bytes);
                user.get_or_insert(&answer.user);
                answer.task.wake_by_ref();
            }
        }
        if let Some(user) = user {
            // Of the heaviest user the first one ends.
            tracing::warn!(
                watches,
                bytes = freed,
                user = user.name(),
                "ended the watches with the slowest clients: more than --max-unread-bytes={} are unread, most of them by this user",
                quantity::Bytes(self.most)
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meter {
    /// Whether there is room among all watches. Otherwise the task is woken when there is.
    fn has_room_among_all(&self, context: &Context<'_>) -> bool {
        let (unread, Some(user)) = (&self.unread, &self.watches) else { return true };
        if unread.has_room(user) {
            return true;
        }
        if unread.is_too_much() {
            unread.end_slowest();
        }
        self.has_waited.store(true, Ordering::Relaxed);
        user.wait(self.number, context.waker().clone());
        unread.is_awaited.store(true, Ordering::SeqCst);
        // Bytes may have become free in between.
        unread.has_room(user)
    }

    /// Whether the next piece can be made: not too much is unread. Otherwise the task is woken when something has been read.
    pub fn is_ready(&self, context: &Context<'_>) -> bool {
        let Some(answer) = &self.answer else { return self.has_room_among_all(context) };
        // Beyond the bound of all, only watches without unread bytes continue.
        let is_full = self.is_watch && self.unread.bytes() > self.unread.most;
        let ahead = if is_full { 1 } else { self.ahead };
        let has_room = || answer.bytes.load(Ordering::SeqCst) < ahead;
        if has_room() {
            return self.has_room_among_all(context);
        }
        answer.waits.store(true, Ordering::SeqCst);
        if !answer.task.will_wake(context.waker()) {
            // Another task polls it than at first, so it must come back by itself.
            context.waker().wake_by_ref();
        }
        // Something may have been read in between.
        has_room() && self.has_room_among_all(context)
    }

    /// Counts a piece; `None` if it is longer than its share can become.
    pub fn count(&mut self, bytes: Bytes, context: &Context<'_>) -> Option<Bytes> {
        if bytes.is_empty() {
            return Some(bytes);
        }
        let answer = match &self.answer {
            Some(answer) => answer.clone(),
            None => {
                let share = self.share.take();
                self.answer.insert(UnreadResponse::new(self, share, context)).clone()
            }
        };
        let length = bytes.len() as u64;
        let unread_bytes = answer.bytes.load(Ordering::SeqCst).saturating_add(length);
        if !self.is_watch && !answer.raise(unread_bytes) {
            return None;
        }
        answer.bytes.fetch_add(length, Ordering::SeqCst);
        self.unread.total.fetch_add(length, Ordering::Relaxed);
        if let Some(user) = &self.watches {
            user.bytes.fetch_add(length, Ordering::SeqCst);
            self.unread.watches.fetch_add(length, Ordering::SeqCst);
            if self.unread.is_too_much() {
                self.unread.end_slowest();
            }
        }
        Some(Bytes::from_owner(Piece { bytes, answer }))
    }

    /// The response that is counted, if any. The task that sends it uses this to learn whether it must end.
    pub fn answer(&self) -> Option<&Arc<UnreadResponse>> {
        self.answer.as_ref()
    }
}

impl UnreadResponse {
    /// Registers a response with unread bytes.
    fn new(meter: &Meter, share: Option<UserShare>, context: &Context<'_>) -> Arc<UnreadResponse> {
        let Meter { unread, user, watches, is_watch, .. } = meter;
        let mut answers = unread.lock();
        let number = answers.next;
        answers.next += 1;
        let answer = Arc::new(UnreadResponse {
            unread: unread.clone(),
            user: user.clone(),
            watches: watches.clone(),
            number,
            is_watch: *is_watch,
            bytes: AtomicU64::new(0),
            progress: AtomicU64::new(unread.taken.load(Ordering::Relaxed)),
            ending: AtomicU64::new(0),
            is_ended: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            task: context.waker().clone(),
            share: Mutex::new(share),
        });
        answers.known.insert(number, Arc::downgrade(&answer));
        answer
    }

    /// Raises the share to this amount, if possible.
    fn raise(&self, bytes: u64) -> bool {
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        share.as_mut().is_none_or(|share| share.raise(bytes))
    }

    /// Whether the sending task must end.
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(user) = self.watches.as_ref().filter(|_| self.has_waited.load(Ordering::Relaxed)) {
            user.lock().remove(&self.number);
        }
    }
}

impl Drop for UnreadResponse {
    fn drop(&mut self) {
        self.unread.lock().known.remove(&self.number);
        let ending = self.ending.load(Ordering::Relaxed);
        // All watches that had to end are gone. More than the bound can still be unread, as each was counted with what it held when it was
        // chosen. The watches that wait check again, and end the next ones.
        if ending > 0 && self.unread.ending.fetch_sub(ending, Ordering::Relaxed) == ending {
            self.unread.wake_waiting();
        }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    /// The socket has taken the piece: its bytes are no longer unread, its reader has made progress, and a waiting
    /// body can continue.
    fn drop(&mut self) {
        let (length, answer) = (self.bytes.len() as u64, &self.answer);
        answer.bytes.fetch_sub(length, Ordering::SeqCst);
        answer.unread.total.fetch_sub(length, Ordering::Relaxed);
        if let Some(user) = &answer.watches {
            answer.unread.freed(user, length);
        }
        answer.progress.store(answer.unread.taken.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        if answer.waits.swap(false, Ordering::SeqCst) {
            answer.task.wake_by_ref();
        }
    }
}
