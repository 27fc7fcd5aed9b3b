//! The time, as the process that starts the server defines it.

use std::sync::Arc;

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;
