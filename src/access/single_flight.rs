//! A TTL cache with request coalescing (single flight): concurrent callers with the same key share one request.
//!
//! The number of entries is bounded, and the least recently used one is evicted first (apiserver `util/cache`
//! LRUExpireCache with the single flight of `authentication/token/cache`). Nothing runs in the background: the callers
//! that wait for a request poll it, and it is dropped when the last of them is dropped. The type of the request and of
//! its answer is up to the caller.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::time::Instant;

/// A keyed hash of a request; see [`super::cache_key_hasher`].
pub type CacheKey = [u8; 32];

/// How a lookup got its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheResult {
    /// The answer was cached.
    Hit,
    /// A request of another caller was in progress, and its answer is shared.
    Shared,
    /// A new request was sent.
    Miss,
}

/// A cache of answers by key.
pub struct SingleFlightCache<Answer: Clone> {
    entries: Mutex<Entries<Answer>>,
    most: usize,
    /// How long an answer is cached; `None`: not at all.
    keep: fn(&Answer) -> Option<Duration>,
}

struct Entries<Answer: Clone> {
    entries: HashMap<CacheKey, Entry<Answer>>,
    /// Keys by the number of their last use.
    order: BTreeMap<u64, CacheKey>,
    /// The number of uses so far.
    uses: u64,
}

struct Entry<Answer: Clone> {
    /// The number of its last use.
    used: u64,
    state: State<Answer>,
}

enum State<Answer: Clone> {
    /// A request in progress, as long as a caller waits for it.
    Request(WeakShared<BoxFuture<'static, Answer>>),
    /// An answer, and the time until which it is valid.
    Known(Answer, Instant),
}

impl<Answer: Clone> fmt::Debug for SingleFlightCache<Answer> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SingleFlightCache").field("most", &self.most).finish_non_exhaustive()
    }
}

impl<Answer: Clone + Send + Sync + 'static> SingleFlightCache<Answer> {
    /// A cache of at most `most` answers, each for the time that `keep` returns; `None`: the answer is not cached.
    pub fn new(most: usize, keep: fn(&Answer) -> Option<Duration>) -> Arc<SingleFlightCache<Answer>> {
        let entries = Entries { entries: HashMap::new(), order: BTreeMap::new(), uses: 0 };
        Arc::new(SingleFlightCache { entries: Mutex::new(entries), most, keep })
    }

    /// The cached answer; `None` if there is none, or it has expired. Does not wait for a request in progress.
    pub fn cached(&self, key: &CacheKey) -> Option<Answer> {
        let mut entries = self.entries();
        match entries.look(key)? {
            State::Known(answer, until) if *until > Instant::now() => Some(answer.clone()),
            State::Request(_) | State::Known(..) => None,
        }
    }

    /// The answer for a key, and how it was found: in the cache, from a request in progress, or from the new request
    /// that `start` returns.
    pub async fn get<Request>(self: &Arc<Self>, key: CacheKey, start: impl FnOnce() -> Request) -> (Answer, CacheResult)
    where
        Request: Future<Output = Answer> + Send + 'static,
    {
        self.get_or_start(key, true, start).await
    }

    /// Like [`SingleFlightCache::get`], without cached answers. The new answer replaces a cached one.
    pub async fn refresh<Request>(
        self: &Arc<Self>,
        key: CacheKey,
        start: impl FnOnce() -> Request,
    ) -> (Answer, CacheResult)
    where
        Request: Future<Output = Answer> + Send + 'static,
    {
        self.get_or_start(key, false, start).await
    }

    /// Returns a cached answer if `accepts_kept`; otherwise the answer of a request in progress, or of the new one that
    /// `start` returns.
    async fn get_or_start<Request>(
        self: &Arc<Self>,
        key: CacheKey,
        accepts_kept: bool,
        start: impl FnOnce() -> Request,
    ) -> (Answer, CacheResult)
    where
        Request: Future<Output = Answer> + Send + 'static,
    {
        let (flight, had) = {
            let mut entries = self.entries();
            let underway = match entries.look(&key) {
                Some(State::Known(answer, until)) if accepts_kept && *until > Instant::now() => {
                    return (answer.clone(), CacheResult::Hit);
                }
                // A completed request whose answer was not cached is not shared any more.
                Some(State::Request(flight)) => flight.upgrade().filter(|flight| flight.peek().is_none()),
                _ => None,
            };
            match underway {
                Some(flight) => (flight, CacheResult::Shared),
                None => {
                    let flight = self.begin(key, start());
                    if let Some(weak) = flight.downgrade() {
                        entries.put(key, State::Request(weak), self.most);
                    }
                    (flight, CacheResult::Miss)
                }
            }
        };
        (flight.await, had)
    }

    /// Makes a request shareable. When it completes, it stores its answer in the cache.
    fn begin(
        self: &Arc<Self>,
        key: CacheKey,
        request: impl Future<Output = Answer> + Send + 'static,
    ) -> Shared<BoxFuture<'static, Answer>> {
        let flights = Arc::downgrade(self);
        async move {
            let answer = request.await;
            if let Some(flights) = flights.upgrade()
                && let Some(time) = (flights.keep)(&answer)
            {
                let until = Instant::now() + time;
                flights.entries().put(key, State::Known(answer.clone(), until), flights.most);
            }
            answer
        }
        .boxed()
        .shared()
    }

    fn entries(&self) -> MutexGuard<'_, Entries<Answer>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Answer: Clone> Entries<Answer> {
    /// Looks up an entry, which may have expired, and marks it as used last.
    fn look(&mut self, key: &CacheKey) -> Option<&State<Answer>> {
        let entry = self.entries.get_mut(key)?;
        self.order.remove(&entry.used);
        self.uses += 1;
        entry.used = self.uses;
        self.order.insert(entry.used, *key);
        Some(&entry.state)
    }

    /// Stores an entry, and evicts those that were used least recently while there are more than `most`.
    fn put(&mut self, key: CacheKey, state: State<Answer>, most: usize) {
        self.uses += 1;
        let used = self.uses;
        if let Some(replaced) = self.entries.insert(key, Entry { used, state }) {
            self.order.remove(&replaced.used);
        }
        self.order.insert(used, key);
        while self.entries.len() > most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }
}
