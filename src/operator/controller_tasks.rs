//! Runs controllers independently: the election and the admission policies must continue while another controller
//! computes.
//!
//! Futures that are joined in one task are polled one after the other. So each controller is a task of its own
//! ([`ControllerTasks`]), and work whose length users choose runs on another thread ([`compute`]).

use std::panic::resume_unwind;

use tokio::task::{JoinError, JoinSet};

/// Tasks that are aborted with their owner.
#[derive(Default)]
pub(super) struct ControllerTasks(JoinSet<()>);

impl ControllerTasks {
    /// Starts a task; [`ControllerTasks::run`] waits for its end.
    pub(super) fn start(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task);
    }

    /// Runs until all tasks have ended. If one panics, this panics too, and the other tasks are aborted.
    pub(super) async fn run(mut self) {
        while let Some(ended) = self.0.join_next().await {
            if let Err(error) = ended {
                unwind(error);
            }
        }
    }
}

/// Computes on a blocking thread, while other tasks continue. Panics if `work` panics. Never returns if the process
/// ends before `work` begins.
pub(super) async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            unwind(error);
            std::future::pending().await
        }
    }
}

/// Resumes the panic of a task. Does nothing for a cancelled task: the process is ending.
fn unwind(error: JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        resume_unwind(panic);
    }
}
