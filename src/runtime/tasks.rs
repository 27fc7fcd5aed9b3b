//! Named tasks that run side by side, and what the end of each means.

use std::collections::HashMap;
use std::future::Future;

use anyhow::anyhow;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::task::{AbortHandle, Id, JoinSet};

/// What the end of a task means for the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnEnd {
    /// The command ends successfully. If the task panicked, the command fails.
    Finish,
    /// The command fails: the task never ends without an internal error.
    Fail,
    /// The command continues.
    Continue,
}

/// A task that is not started yet.
pub(super) struct Task {
    name: &'static str,
    on_end: OnEnd,
    future: BoxFuture<'static, ()>,
}

impl Task {
    /// A task; `name` is its name in the log.
    pub(super) fn new(name: &'static str, on_end: OnEnd, future: impl Future<Output = ()> + Send + 'static) -> Task {
        Task { name, on_end, future: future.boxed() }
    }

    /// The name of the task in the log.
    #[cfg(test)]
    pub(super) fn name(&self) -> &'static str {
        self.name
    }
}

/// Running tasks. They are aborted when this is dropped.
pub(super) struct Tasks {
    running: JoinSet<()>,
    /// The name of each running task, what its end means, and its handle.
    named: HashMap<Id, (&'static str, OnEnd, AbortHandle)>,
}

impl Tasks {
    /// Starts the tasks, each under its name.
    pub(super) fn start(tasks: impl IntoIterator<Item = Task>) -> Tasks {
        let (mut running, mut named) = (JoinSet::new(), HashMap::new());
        for Task { name, on_end, future } in tasks {
            let handle = running.spawn(future);
            named.insert(handle.id(), (name, on_end, handle));
        }
        Tasks { running, named }
    }

    /// Waits until a task ends whose end also ends the command, or until no task is left. Logs the name of each other
    /// task that ends or panics.
    pub(super) async fn ended(&mut self) -> anyhow::Result<()> {
        while let Some(ended) = self.running.join_next_with_id().await {
            let (id, panic) = match ended {
                Ok((id, ())) => (id, None),
                Err(error) => (error.id(), Some(error)),
            };
            let Some((name, on_end, _)) = self.named.remove(&id) else { continue };
            match (&panic, on_end) {
                (None, OnEnd::Finish) => return Ok(()),
                (Some(error), _) => tracing::error!(task = name, %error, "a task panicked"),
                (None, OnEnd::Fail | OnEnd::Continue) => tracing::error!(task = name, "a task ended"),
            }
            if on_end != OnEnd::Continue {
                return Err(anyhow!("the task {name:?} ended because of an internal error; see the log"));
            }
        }
        Ok(())
    }

    /// Aborts the task of this name.
    pub(super) fn abort(&self, name: &str) {
        self.named.values().filter(|(its_name, ..)| *its_name == name).for_each(|(.., handle)| handle.abort());
    }
}
