//! Keeps the sockets polled while a thread of the runtime is busy.
//!
//! One idle thread of the runtime waits for sockets, and the others sleep. If the only thread that is awake gets an
//! event whose task takes long, no thread waits for sockets meanwhile, although others are idle. tokio wakes another
//! thread only when a task becomes runnable. So a thread of its own makes an empty task runnable from time to time: the
//! thread that runs it waits for sockets afterwards.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;

/// The time between two empty tasks. A new request waits at most this long if a thread is idle.
const INTERVAL: Duration = Duration::from_millis(100);

/// Keeps the sockets of a runtime polled until it is dropped.
#[derive(Debug)]
pub struct PollKeeper {
    /// Ends the thread when it is dropped. Nothing is sent.
    _ends: Sender<()>,
}

impl PollKeeper {
    /// Starts the thread for a runtime.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    #[expect(clippy::disallowed_methods, reason = "the tasks are empty")]
    pub fn start(runtime: Handle) -> std::io::Result<PollKeeper> {
        let (ends, ended) = channel();
        thread::Builder::new().name("poll-keeper".to_owned()).spawn(move || {
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                runtime.spawn(async {});
            }
        })?;
        Ok(PollKeeper { _ends: ends })
    }
}
