//! Supervises the sync tasks, one for each resource, and restarts one that panicked, with a back-off.
//!
//! A panic is contained in its task: its resource has no store for a moment, and other resources are not affected.
//! `resource_sync` is the task.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::backoff::Backoff;
use crate::registry::{LoadState, Resource};

/// Runs sync tasks. Dropping it ends them all.
#[derive(Debug, Default)]
pub struct SyncSupervisor {
    tasks: JoinSet<()>,
    running: HashMap<Id, RunningSync>,
}

/// A running sync task, with the time of its start.
#[derive(Debug)]
struct RunningSync {
    resource: Arc<Resource>,
    since: Instant,
    backoff: Backoff,
}

/// A task that panicked and must be restarted.
#[derive(Debug)]
pub struct PanickedTask {
    /// Its resource.
    pub resource: Arc<Resource>,
    /// How long to wait before the restart, because the cause of the panic may still exist.
    pub delay: Duration,
    backoff: Backoff,
}

impl SyncSupervisor {
    /// Starts the first sync task of a resource.
    pub fn start(&mut self, resource: Arc<Resource>, sync: impl Future<Output = ()> + Send + 'static) {
        // Resources have different seeds, so that their restarts do not coincide.
        let seed =
            resource.gvr.to_string().bytes().fold(7u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        self.spawn(resource, sync, Backoff::new(seed));
    }

    /// Starts a sync task in place of one that panicked. The new task itself must wait for the delay.
    pub fn replace(&mut self, panicked: PanickedTask, sync: impl Future<Output = ()> + Send + 'static) {
        self.spawn(panicked.resource, sync, panicked.backoff);
    }

    /// Starts a task, which takes over the back-off of an earlier one.
    fn spawn(&mut self, resource: Arc<Resource>, sync: impl Future<Output = ()> + Send + 'static, backoff: Backoff) {
        let task = self.tasks.spawn(sync);
        self.running.insert(task.id(), RunningSync { resource, since: Instant::now(), backoff });
    }

    /// Waits until a task ends. Returns `None` immediately if there is none, and `Some(None)` for a task that ended
    /// because its resource did. A task that panicked is returned for its restart: until then, readers wait for a new
    /// store instead of reading the last state of the old one forever. Safe to drop at any point.
    pub async fn next_ended(&mut self) -> Option<Option<PanickedTask>> {
        let ended = self.tasks.join_next_with_id().await?;
        Some(self.handle_end(ended))
    }

    /// Removes a task that ended. Returns it if it panicked: this is logged and counted, and its resource is loading
    /// until the restart.
    fn handle_end(&mut self, ended: Result<(Id, ()), JoinError>) -> Option<PanickedTask> {
        let (id, defect) = match ended {
            Ok((id, ())) => (id, None),
            Err(error) => (error.id(), Some(error)),
        };
        let RunningSync { resource, since, mut backoff } = self.running.remove(&id)?;
        let defect = defect?;
        let delay = backoff.after_failure(since.elapsed());
        tracing::error!(
            resource = %resource.gvr, error = %defect, delay = ?delay,
            "the sync of this resource panicked, restarting it after a delay"
        );
        resource.state.count_panic();
        resource.state.publish(LoadState::Loading("restarting the sync after a panic".to_owned()));
        Some(PanickedTask { resource, delay, backoff })
    }
}
