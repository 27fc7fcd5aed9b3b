//! Limits unread bytes: bytes of responses that no socket has accepted yet.
//!
//! If a client stops reading, these bytes stay in hyper, and in the send queues of HTTP/2 streams, up to the window
//! that the client announces. So every piece of a response is counted from when its body yields it until its memory
//! is freed. The count is part of the piece. These bounds apply:
//!
//! - A body creates no further piece while [`WATCH_AHEAD`] or [`LIST_AHEAD`] bytes of its response are unread. So each
//!   response holds at most that and one more piece, whatever window the client announces.
//! - All watches together hold at most `--max-unread-bytes`. Above it, [`slowest`] decides which of them end: their
//!   HTTP/2 stream is reset, or their connection closed, which frees their bytes. The client resumes from its last
//!   event, as after any lost connection. Until the bytes are freed, watches with unread bytes create no further
//!   piece. More than a quarter above the bound, only watches of users whose watches hold little ([`FIRST`]) create
//!   pieces. Otherwise tens of thousands of watches would create pieces faster than the slowest are ended, and a user
//!   with few watches would wait for the thousands of another user.
//! - All other responses together may hold as much again. Each takes its [`UserShare`] before it is sent. If there is
//!   none, the request is rejected with 429. Responses that are being sent are not ended, because their client would
//!   repeat the request. They end if their client has read nothing for two minutes (`write_timeout`,
//!   `stream_timeout`).
//!
//! A small response takes its share after it is created, for the address of the client, because it can be sent before
//! authentication. If there is no share, its connection ends.
//!
//! Three kinds of memory are bounded elsewhere:
//!
//! - one TLS buffer for each connection, in `tls`
//! - the kernel's buffer of each connection, by TCP_NOTSENT_LOWAT in `listen`
//! - changes in mailboxes, in `registry::event_dispatcher`

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

/// A watch creates no further piece while at least this many bytes of it are unread. It is small, because users have
/// many watches.
const WATCH_AHEAD: u64 = 64 << 10;

/// A response other than a watch creates no further piece while at least this many bytes of it are unread. This is the
/// length of two pieces, so that one is created while the other one is sent.
const LIST_AHEAD: u64 = 128 << 10;

/// The divisor of `--max-unread-bytes` for the unread bytes that the watches of one user may have while all other
/// watches must wait. With the default, these are 4 MiB. This applies as long as all watches hold less than twice the
/// bound.
const FIRST: u64 = 64;

/// The maximum number of bytes that a streamed response other than a watch holds: [`LIST_AHEAD`], and the piece that is
/// being created.
pub const STREAMED: u64 = LIST_AHEAD + (64 << 10);

/// The memory of a response besides its body, in bytes: its stream, its task and its head.
const RESPONSE: u64 = 2 << 10;

/// Whole responses up to this many bytes are small. Only their shares are counted, not their unread bytes.
pub const SMALL: usize = 16 << 10;

/// The unread bytes of a server.
#[derive(Debug)]
pub struct Unread {
    /// The maximum of unread bytes of watches.
    most: u64,
    /// Unread bytes of watches.
    watches: AtomicU64,
    /// Unread bytes of all responses.
    total: AtomicU64,
    /// Unread bytes of watches that must end, but have not ended yet. They are also part of `watches` and `total`.
    ending: AtomicU64,
    /// The number of pieces that clients have read. It is the clock that measures the progress of clients.
    taken: AtomicU64,
    /// The number of watches that were ended because of the bound.
    ended: AtomicU64,
    /// The responses with unread bytes.
    table: Mutex<ResponseTable>,
    /// The users with watches.
    users: Mutex<Users>,
    /// Whether watches wait until enough bytes are free.
    is_awaited: AtomicBool,
    /// The number of the next meter.
    meters: AtomicU64,
    /// The shares of responses other than watches and small ones.
    responses: Arc<Shares<User>>,
    /// The shares of small responses. They are separate, because rejections are small responses, and must be possible
    /// when the limit for others is reached.
    small: Arc<Shares<User>>,
}

/// The users that have watches.
#[derive(Debug, Default)]
struct Users {
    /// The counters of each user, as long as the user has a watch.
    known: HashMap<User, Weak<UserUnread>>,
    /// When `known` has this many users, users without watches are removed from it.
    most: usize,
}

/// The watches of one user.
#[derive(Debug, Default)]
struct UserUnread {
    /// The unread bytes of all watches of the user.
    bytes: AtomicU64,
    /// The tasks of watches that wait until enough bytes are free, by the number of their meter.
    waiting: Mutex<HashMap<u64, Waker>>,
    /// Whether `waiting` may have a task.
    is_awaited: AtomicBool,
}

impl UserUnread {
    /// Locks the tasks that wait.
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the task of a watch, which [`UserUnread::wake`] wakes. `meter` is the number of the meter of the
    /// watch.
    fn register(&self, meter: u64, waker: Waker) {
        self.lock().insert(meter, waker);
        self.is_awaited.store(true, Ordering::SeqCst);
    }

    /// Wakes the tasks of all waiting watches of the user.
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

/// The responses that have a meter and unread bytes, or had some.
#[derive(Debug, Default)]
struct ResponseTable {
    /// The number of the next response.
    next: u64,
    /// The responses by number.
    known: HashMap<u64, Weak<UnreadResponse>>,
}

/// Counts the unread bytes of one response.
#[derive(Debug)]
pub struct Meter {
    unread: Arc<Unread>,
    user: User,
    /// The watches of the user; `None` if the response is not a watch.
    watches: Option<Arc<UserUnread>>,
    /// The number of the meter, under which its task is registered in `watches`.
    number: u64,
    /// The number of unread bytes from which on the body waits: [`WATCH_AHEAD`] or [`LIST_AHEAD`].
    ahead: u64,
    is_watch: bool,
    /// Whether the task of the watch may be registered in `watches`.
    has_waited: AtomicBool,
    /// The response; `None` until its first bytes are counted.
    response: Option<Arc<UnreadResponse>>,
    /// The share of the response, until it moves to `response`.
    share: Option<UserShare>,
}

/// A response of which bytes have been counted.
#[derive(Debug)]
pub struct UnreadResponse {
    unread: Arc<Unread>,
    user: User,
    /// The watches of the user; `None` if the response is not a watch.
    watches: Option<Arc<UserUnread>>,
    /// The number in [`ResponseTable`].
    number: u64,
    is_watch: bool,
    /// The number of unread bytes.
    bytes: AtomicU64,
    /// When the client last read a piece: the value of [`Unread::taken`].
    progress: AtomicU64,
    /// The number of unread bytes when `is_ended` was set; 0 before that.
    ending: AtomicU64,
    /// Whether the response must end.
    is_ended: AtomicBool,
    /// Whether the body waits until the client has read some bytes.
    waits: AtomicBool,
    /// The waker of the task that sends the response.
    task: Waker,
    /// The share of a response that is not a watch, until all of its pieces are freed.
    share: Mutex<Option<UserShare>>,
}

/// A piece of a response, which counts as unread until it is dropped.
struct Piece {
    bytes: Bytes,
    response: Arc<UnreadResponse>,
}

impl Unread {
    /// A limit of `most` unread bytes for watches, and as much again for other responses; no byte is unread yet.
    pub fn new(most: quantity::Bytes) -> Unread {
        Unread {
            most: most.0,
            watches: AtomicU64::new(0),
            total: AtomicU64::new(0),
            ending: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            table: Mutex::default(),
            users: Mutex::default(),
            is_awaited: AtomicBool::new(false),
            meters: AtomicU64::new(0),
            responses: Arc::new(Shares::new(most.0, STREAMED)),
            small: Arc::new(Shares::new(most.0, RESPONSE + SMALL as u64)),
        }
    }

    /// Counts the memory of a response that is not a watch, until the share is dropped. `bytes` is the maximum that the
    /// response holds, which for a streamed response is [`STREAMED`].
    ///
    /// # Errors
    /// 429 if unread responses of this user hold the maximum.
    pub fn admit(&self, user: &User, bytes: u64) -> Result<UserShare, Limited> {
        self.responses.take(user, bytes).ok_or_else(|| {
            let (flag, most) = (Limit::UnreadBytes.flag(), quantity::Bytes(self.responses.most()));
            // The message states no usage, which would reveal what others read, and the length of objects that a View
            // prunes.
            let message = format!(
                "too many requests, please try again later: the unread responses of user {user} hold the maximum memory for one user, which is half of what other users leave free of {flag}={most}. Read responses before you send more requests, send fewer requests at a time, or raise {flag}"
            );
            Limited { limit: Limit::UnreadBytes, message, retry_after: Some(RETRY_AFTER) }
        })
    }

    /// Counts the memory of a small response after it is created, until the share is dropped. `address` is the address
    /// of the client, and `length` the length of the body in bytes. `None`: the limit is reached.
    pub fn admit_small(&self, address: &User, length: usize) -> Option<UserShare> {
        self.small.take(address, RESPONSE + length as u64)
    }

    /// A meter for a response to this user. `is_watch` states whether the response is a watch. `share` is the result of
    /// [`Unread::admit`] for a response that is not a watch; `None` for a watch.
    pub fn meter(self: &Arc<Unread>, user: &User, is_watch: bool, share: Option<UserShare>) -> Meter {
        let ahead = if is_watch { WATCH_AHEAD } else { LIST_AHEAD };
        let number = self.meters.fetch_add(1, Ordering::Relaxed);
        let has_waited = AtomicBool::new(false);
        let (unread, watches) = (self.clone(), is_watch.then(|| self.watches_of(user)));
        Meter { unread, user: user.clone(), watches, number, ahead, is_watch, has_waited, response: None, share }
    }

    /// The counter of the unread bytes of a user's watches.
    fn watches_of(&self, user: &User) -> Arc<UserUnread> {
        let mut users = self.lock_users();
        if let Some(known) = users.known.get(user).and_then(Weak::upgrade) {
            return known;
        }
        // The search happens only after the number has doubled, which bounds its average cost.
        if users.known.len() >= users.most {
            users.known.retain(|_, known| known.strong_count() > 0);
            users.most = 2 * users.known.len().max(32);
        }
        let new = Arc::<UserUnread>::default();
        users.known.insert(user.clone(), Arc::downgrade(&new));
        new
    }

    /// Locks the users with watches.
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

    /// Whether a watch of this user may create a piece. This depends on the unread bytes of all watches: they may
    /// exceed the maximum by a quarter. For a user with few unread bytes ([`FIRST`]), they may be up to twice the
    /// maximum.
    fn has_room(&self, user: &UserUnread) -> bool {
        let bytes = self.bytes();
        bytes <= self.most.saturating_add(self.most / 4)
            || (bytes < self.most.saturating_mul(2) && user.bytes.load(Ordering::SeqCst) < self.most / FIRST)
    }

    /// Records that unread bytes of this user's watches are freed, and wakes watches that may continue.
    fn record_freed(&self, user: &UserUnread, bytes: u64) {
        let before = self.watches.fetch_sub(bytes, Ordering::SeqCst);
        let of_user = user.bytes.fetch_sub(bytes, Ordering::SeqCst);
        if before.saturating_sub(bytes) <= self.most {
            self.wake_waiting();
        } else {
            // Woken watches of this user soon wait again. So they are woken once for each half of the user's part,
            // not for each piece.
            let half = self.most / FIRST / 2;
            if of_user >= half && of_user.saturating_sub(bytes) < half {
                user.wake();
            }
        }
    }

    /// Wakes the tasks of the waiting watches of all users.
    fn wake_waiting(&self) {
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            let users: Vec<Arc<UserUnread>> = self.lock_users().known.values().filter_map(Weak::upgrade).collect();
            users.iter().for_each(|user| user.wake());
        }
    }

    /// Whether all watches together have more unread bytes than the maximum. Unread bytes of watches that are ending do
    /// not count.
    fn is_too_much(&self) -> bool {
        self.bytes().saturating_sub(self.ending.load(Ordering::Relaxed)) > self.most
    }

    /// Makes the slowest watches end, if too many bytes are unread. Ends as many as are needed to get to seven
    /// eighths of the maximum, so that this is rarely necessary.
    fn end_slowest(&self) {
        let known: Vec<Arc<UnreadResponse>> = {
            let table = self.lock();
            if !self.is_too_much() {
                return;
            }
            table.known.values().filter_map(Weak::upgrade).collect()
        };
        let alive: Vec<Arc<UnreadResponse>> =
            known.into_iter().filter(|response| response.is_watch && !response.is_ended()).collect();
        let backlogs: Vec<ResponseBacklog> = alive
            .iter()
            .map(|response| ResponseBacklog {
                user: response.user.clone(),
                bytes: response.bytes.load(Ordering::Relaxed),
                progress: response.progress.load(Ordering::Relaxed),
            })
            .collect();
        let (mut watches, mut freed, mut user) = (0_u64, 0, None);
        for index in slowest(&backlogs, self.most - self.most / 8) {
            let (response, bytes) = (&alive[index], backlogs[index].bytes);
            if !response.is_ended.swap(true, Ordering::Relaxed) {
                response.ending.store(bytes, Ordering::Relaxed);
                self.ending.fetch_add(bytes, Ordering::Relaxed);
                self.ended.fetch_add(1, Ordering::Relaxed);
                (watches, freed) = (watches + 1, freed + bytes);
                user.get_or_insert(&response.user);
                response.task.wake_by_ref();
            }
        }
        if let Some(user) = user {
            // `user` has the most unread bytes in the tenant with the most, so its watch ends first.
            tracing::warn!(
                watches,
                bytes = freed,
                user = user.name(),
                "ended the watches with the slowest clients, because more than --max-unread-bytes={} are unread: of all tenants, that of this user has the most unread bytes, and of its users, this one",
                quantity::Bytes(self.most)
            );
        }
    }

    /// Locks the responses with unread bytes.
    fn lock(&self) -> MutexGuard<'_, ResponseTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meter {
    /// Whether this response may create a piece; for a watch, this depends on the unread bytes of all watches. If
    /// false, the task is registered, and woken when bytes are freed.
    fn room_or_wake(&self, context: &Context<'_>) -> bool {
        let (unread, Some(user)) = (&self.unread, &self.watches) else { return true };
        if unread.has_room(user) {
            return true;
        }
        if unread.is_too_much() {
            unread.end_slowest();
        }
        self.has_waited.store(true, Ordering::Relaxed);
        user.register(self.number, context.waker().clone());
        unread.is_awaited.store(true, Ordering::SeqCst);
        // Bytes may have become free before the task was registered.
        unread.has_room(user)
    }

    /// Whether the body may create the next piece, because not too much is unread. If false, the task is woken when
    /// bytes have been read.
    pub fn ready_or_wake(&self, context: &Context<'_>) -> bool {
        let Some(response) = &self.response else { return self.room_or_wake(context) };
        // If all watches exceed the maximum, only watches without unread bytes continue.
        let is_full = self.is_watch && self.unread.bytes() > self.unread.most;
        let ahead = if is_full { 1 } else { self.ahead };
        let has_room = || response.bytes.load(Ordering::SeqCst) < ahead;
        if has_room() {
            return self.room_or_wake(context);
        }
        response.waits.store(true, Ordering::SeqCst);
        if !response.task.will_wake(context.waker()) {
            // `response` would wake another task than the one that polls now. So this task wakes itself, and polls
            // again.
            context.waker().wake_by_ref();
        }
        // The client may have read bytes before `waits` was set.
        has_room() && self.room_or_wake(context)
    }

    /// Counts a piece as unread until the returned bytes are dropped. `None`: the share of the response cannot grow to
    /// its unread bytes, so the response must end.
    pub fn count(&mut self, bytes: Bytes, context: &Context<'_>) -> Option<Bytes> {
        if bytes.is_empty() {
            return Some(bytes);
        }
        let response = match &self.response {
            Some(response) => response.clone(),
            None => {
                let share = self.share.take();
                self.response.insert(UnreadResponse::new(self, share, context)).clone()
            }
        };
        let length = bytes.len() as u64;
        let unread_bytes = response.bytes.load(Ordering::SeqCst).saturating_add(length);
        if !self.is_watch && !response.raise(unread_bytes) {
            return None;
        }
        response.bytes.fetch_add(length, Ordering::SeqCst);
        self.unread.total.fetch_add(length, Ordering::Relaxed);
        if let Some(user) = &self.watches {
            user.bytes.fetch_add(length, Ordering::SeqCst);
            self.unread.watches.fetch_add(length, Ordering::SeqCst);
            if self.unread.is_too_much() {
                self.unread.end_slowest();
            }
        }
        Some(Bytes::from_owner(Piece { bytes, response }))
    }

    /// The response whose bytes are counted; `None` before the first bytes. The task that sends it checks whether it
    /// must end.
    pub fn response(&self) -> Option<&Arc<UnreadResponse>> {
        self.response.as_ref()
    }
}

impl UnreadResponse {
    /// Adds a response to the table, when its first bytes are counted. `context` is of the task that sends the
    /// response.
    fn new(meter: &Meter, share: Option<UserShare>, context: &Context<'_>) -> Arc<UnreadResponse> {
        let Meter { unread, user, watches, is_watch, .. } = meter;
        let mut table = unread.lock();
        let number = table.next;
        table.next += 1;
        let response = Arc::new(UnreadResponse {
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
        table.known.insert(number, Arc::downgrade(&response));
        response
    }

    /// Raises the share to this many bytes. Returns false if the user may not hold as many, and true if the response
    /// has no share.
    fn raise(&self, bytes: u64) -> bool {
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        share.as_mut().is_none_or(|share| share.raise(bytes))
    }

    /// Whether the task that sends the response must end.
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }
}

impl Drop for Meter {
    /// Removes the task from the waiting tasks of the user.
    fn drop(&mut self) {
        if let Some(user) = self.watches.as_ref().filter(|_| self.has_waited.load(Ordering::Relaxed)) {
            user.lock().remove(&self.number);
        }
    }
}

impl Drop for UnreadResponse {
    /// Removes the response from the table, once all of its pieces are freed and its body has ended.
    fn drop(&mut self) {
        self.unread.lock().known.remove(&self.number);
        let ending = self.ending.load(Ordering::Relaxed);
        // If this was the last watch that had to end, the waiting watches check again, and may end further watches.
        // More than the maximum can still be unread, because the bytes of each ended watch were counted when the watch
        // was chosen.
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
    /// The socket has accepted the piece, so its bytes are no longer unread, its client has made progress, and its
    /// body may continue.
    fn drop(&mut self) {
        let (length, response) = (self.bytes.len() as u64, &self.response);
        response.bytes.fetch_sub(length, Ordering::SeqCst);
        response.unread.total.fetch_sub(length, Ordering::Relaxed);
        if let Some(user) = &response.watches {
            response.unread.record_freed(user, length);
        }
        response.progress.store(response.unread.taken.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        if response.waits.swap(false, Ordering::SeqCst) {
            response.task.wake_by_ref();
        }
    }
}
