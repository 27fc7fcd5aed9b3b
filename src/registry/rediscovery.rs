//! Requests to read the source's discovery again now, and their completion.
//!
//! The server makes them when the source serves something that the catalog does not have yet; the owner of the registry
//! reads. Requests that arrive while it reads share the next reading, so that their number does not matter.
//!
//! Aggregated APIs are added and removed without a definition to follow. A client that reads discovery does not wait
//! for the source. Its read is noted, and the next client gets what the source serves by then.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Numbered requests, and the number up to which they are completed.
#[derive(Debug, Default)]
pub struct Rediscovery {
    requested: watch::Sender<u64>,
    completed: watch::Sender<u64>,
    /// Whether a client has read discovery since the last reading began.
    is_read: watch::Sender<bool>,
}

impl Rediscovery {
    /// Requests a reading that begins after this call, and waits for its end, but at most for `patience`. If no task
    /// reads discovery (folder mode), that time always passes.
    pub async fn request(&self, patience: Duration) {
        let mut completed = self.completed.subscribe();
        let mut own = 0;
        self.requested.send_modify(|requested| {
            *requested += 1;
            own = *requested;
        });
        // The caller looks into the catalog, whether it was read in time or not.
        let _ = timeout(patience, completed.wait_for(|completed| *completed >= own)).await;
    }

    /// A receiver of the number of the last request.
    pub fn requests(&self) -> watch::Receiver<u64> {
        self.requested.subscribe()
    }

    /// Reports that a reading has ended that began after the request with this number arrived.
    pub fn complete(&self, request: u64) {
        self.completed.send_replace(request);
    }

    /// Records that a client reads the current discovery. Wakes the receivers of [`Rediscovery::readers`] for the first
    /// client since the last reading.
    pub fn note_reader(&self) {
        self.is_read.send_if_modified(|is_read| !std::mem::replace(is_read, true));
    }

    /// Records that a reading of discovery begins: clients that read discovery from now on cause the next one.
    pub fn begin(&self) {
        self.is_read.send_replace(false);
    }

    /// A receiver of whether a client has read discovery since the last reading began.
    pub fn readers(&self) -> watch::Receiver<bool> {
        self.is_read.subscribe()
    }
}
