//! How far a store has advanced, and how far its readers need it to.
//!
//! A *progress notification* is anything that shows that nothing up to a version is missing: an event, a bookmark, a
//! list. The feed records the time of the last one. Readers compare it with the lag that they accept, and register the
//! version that they wait for. The feed then requests progress from its source immediately (`source::list_watch`). This
//! file sends no requests.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::model::Version;

/// How long progress is requested for an awaited version: as long as its reader waits.
const WISH: Duration = Duration::from_secs(3);

/// How long a source takes to report progress on request. A watch with timeoutSeconds=3 sends a bookmark after 0.5 to
/// 1.4 s (measured with kube-apiserver 1.36).
const PROGRESS_TAKES: Duration = Duration::from_millis(1_500);

/// How long a version that the source reported is used to reject versions that are far ahead of it, without another
/// request.
const SOURCE_VERSION_VALID: Duration = Duration::from_secs(5);

/// How far ahead a version must be. A cluster cannot make this many writes within [`SOURCE_VERSION_VALID`]: etcd makes
/// fewer than 100,000 a second.
const FAR: u64 = 1_000_000;

/// The progress of one store.
#[derive(Debug)]
pub struct Freshness {
    /// The last version that the source reported on request.
    source_version: watch::Sender<Option<SourceVersion>>,
    /// The last progress notification.
    proof: watch::Sender<Proof>,
    /// The highest version that readers wait for.
    awaited: watch::Sender<Option<AwaitedVersion>>,
}

/// The newest version of the source at some moment after `requested_at`.
#[derive(Clone, Copy, Debug)]
struct SourceVersion {
    requested_at: Instant,
    version: Version,
}

/// The last progress notification of the source.
#[derive(Clone, Debug, Default)]
struct Proof {
    /// The time of that notification; `None` before the first one, and for a folder, which cannot lag.
    made: Option<Instant>,
    /// Why there was no progress since then, if that is known.
    trouble: Option<String>,
}

/// A store without progress for too long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cached data is stale: no progress from the source for {} s, and the maximum is {} s{}",
    .lag.as_secs(),
    .most.as_secs_f64(),
    .trouble.as_ref().map(|trouble| format!(": {trouble}")).unwrap_or_default()
)]
/// The error for a store without progress for too long.
pub struct Lagging {
    /// The time since the last progress notification.
    pub lag: Duration,
    /// The maximum lag that the reader accepts.
    pub most: Duration,
    /// The cause, if it is known.
    pub trouble: Option<String>,
}

/// A version that a reader waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AwaitedVersion {
    version: Version,
    /// When the last reader began to wait.
    since: Instant,
    /// When its wait ends.
    until: Instant,
}

impl Default for Freshness {
    fn default() -> Freshness {
        Freshness {
            source_version: watch::Sender::new(None),
            proof: watch::Sender::default(),
            awaited: watch::Sender::new(None),
        }
    }
}

impl Freshness {
    /// For feeds: records that the source reported progress at this moment. Ignored if a later moment is recorded.
    pub fn note_progress(&self, made: Instant) {
        self.proof.send_if_modified(|proof| {
            let is_newer = proof.made.is_none_or(|last| last <= made);
            if is_newer {
                *proof = Proof { made: Some(made), trouble: None };
            }
            is_newer
        });
    }

    /// For feeds: records why the source reports no progress now.
    pub fn note_interruption(&self, trouble: String) {
        self.proof.send_modify(|proof| proof.trouble = Some(trouble));
    }

    /// Forgets what the source has reported, because a new store is loaded. Readers still wait for their versions.
    pub fn forget(&self) {
        self.proof.send_replace(Proof::default());
        self.source_version.send_replace(None);
    }

    /// The time of the last progress notification; `None` before the first one, and for a folder, which cannot lag.
    pub fn last_progress(&self) -> Option<Instant> {
        self.proof.borrow().made
    }

    /// The time since the last progress notification. Zero for a folder, which cannot lag, and before the first
    /// notification, which comes with the first list: nothing is served before.
    pub fn lag(&self) -> Duration {
        self.last_progress().map_or(Duration::ZERO, |made| made.elapsed())
    }

    /// Waits until the lag is at most `most`, because a notification may be on its way, but for at most `patience`. A
    /// store without any notification has no lag (see [`Freshness::lag`]).
    ///
    /// # Errors
    /// The remaining lag, with its cause if that is known.
    pub async fn wait_for_lag(&self, most: Duration, patience: Duration) -> Result<(), Lagging> {
        if self.lag() <= most {
            return Ok(());
        }
        let mut proofs = self.proof.subscribe();
        let proven = proofs.wait_for(|proof| proof.made.is_none_or(|made| made.elapsed() <= most));
        match timeout(patience, proven).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Lagging { lag: self.lag(), most, trouble: self.proof.borrow().trouble.clone() }),
        }
    }

    /// Records the newest version of the source, and when it was requested. Ignored if the result of a later request is
    /// recorded.
    pub fn note_source_version(&self, requested_at: Instant, version: Version) {
        self.source_version.send_if_modified(|current| {
            let is_newer = current.is_none_or(|current| current.requested_at <= requested_at);
            if is_newer {
                *current = Some(SourceVersion { requested_at, version });
            }
            is_newer
        });
    }

    /// Registers a reader that waits for this version: the feed requests progress immediately. False if the source
    /// has just reported that it is far from the version; then no request is sent.
    #[must_use = "a reader must not wait for a version that no request requires"]
    pub fn want(&self, version: Version) -> bool {
        let now = Instant::now();
        let source_version = *self.source_version.borrow();
        let is_far = source_version.is_some_and(|source_version| {
            source_version.requested_at + SOURCE_VERSION_VALID > now
                && version.number().saturating_sub(source_version.version.number()) > FAR
        });
        if is_far {
            return false;
        }
        self.awaited.send_if_modified(|current| {
            // Readers that still wait keep their version if it is higher. The feed is woken only for a higher version.
            let open = current.filter(|current| current.until > now && !self.is_answered(current));
            let wanted = open.map_or(version, |open| open.version.max(version));
            *current = Some(AwaitedVersion { version: wanted, since: now, until: now + WISH });
            open.is_none_or(|open| open.version < version)
        });
        true
    }

    /// Waits until the source has reported, in response to a request at or after `since`, that it has not reached a
    /// version. No client can then have seen that version there before `since`. Safe to drop at any point.
    pub async fn wait_until_lacking(&self, version: Version, since: Instant) {
        let mut statements = self.source_version.subscribe();
        let lacks = |current: &Option<SourceVersion>| {
            current.is_some_and(|current| current.requested_at >= since && current.version < version)
        };
        if statements.wait_for(lacks).await.is_err() {
            std::future::pending().await
        }
    }

    /// Whether the source has reported, in response to a request after the last reader began to wait, that it has not
    /// reached the version.
    fn is_answered(&self, awaited: &AwaitedVersion) -> bool {
        let source_version = *self.source_version.borrow();
        source_version.is_some_and(|source_version| {
            source_version.requested_at >= awaited.since && source_version.version < awaited.version
        })
    }

    /// For feeds: the version that a reader waits for. `None` if there is none, the store (at version `reached`) has
    /// it, or the source has not reached it either.
    pub fn awaited(&self, reached: Version) -> Option<Version> {
        let awaited = *self.awaited.borrow();
        let awaited = awaited.filter(|awaited| awaited.version > reached && awaited.until > Instant::now());
        awaited.filter(|awaited| !self.is_answered(awaited)).map(|awaited| awaited.version)
    }

    /// When the next progress must be requested so that it arrives before the lag exceeds `max_lag`. `None` without any
    /// progress yet.
    fn due(&self, max_lag: Duration) -> Option<Instant> {
        let made = self.last_progress()?;
        // Bookmarks come about once a minute by themselves; with the usual limit of 90 s this comes a little after
        // them.
        Some(made + (max_lag * 3 / 4).min(max_lag.saturating_sub(PROGRESS_TAKES)))
    }

    /// For feeds, before they open a watch: whether the source must report progress now. `reached` is the version of
    /// the store, and `max_lag` the lag that readers accept.
    pub fn needs_progress(&self, reached: Version, max_lag: Duration) -> bool {
        self.awaited(reached).is_some() || self.due(max_lag).is_some_and(|due| due <= Instant::now())
    }

    /// For feeds, while a watch is open: waits until [`Freshness::needs_progress`] is true. Safe to drop at any point.
    pub async fn progress_needed(&self, reached: Version, max_lag: Duration) {
        let mut wishes = self.awaited.subscribe();
        while !self.needs_progress(reached, max_lag) {
            // Long enough: without any progress yet, only an awaited version ends the wait.
            let never = Instant::now() + Duration::from_secs(3600);
            let due = self.due(max_lag).unwrap_or(never);
            tokio::select! {
                _ = wishes.changed() => {}
                () = sleep_until(due) => {}
            }
        }
    }
}
