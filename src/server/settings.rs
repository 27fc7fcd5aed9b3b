//! Settings of a server: its limits, policies and connections to the rest of the process.

use std::sync::Arc;
use std::time::Duration;

use crate::access::AccessControl;
use crate::audit::Log;
use crate::registry::upstream::Upstream;

use super::clock::Clock;
use super::guards::Guard;
use super::health::Check;
use super::pass_through::PassThrough;
use crate::flow_control::limit::LimitSettings;

/// The consistency of reads without a resourceVersion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadConsistency {
    /// The store as it is, if its lag is at most [`Settings::max_lag`]. Writes through this server are always visible.
    #[default]
    Eventual,
    /// At least as new as the source was when the request arrived.
    Strong,
}

/// The environment of a server.
#[derive(Clone)]
pub struct Settings {
    /// How long a request waits for the first load of a resource before it gets 429. Local `serve` waits, since the
    /// request itself starts the load; the operator does not, as kube-apiserver does not.
    pub patience: Duration,
    /// The longest accepted time since the source last confirmed progress; `None` where nothing can lag.
    pub max_lag: Option<Duration>,
    /// The consistency of reads without a version.
    pub consistency: ReadConsistency,
    /// Authentication and authorization. `None` disables both: every client has the permissions of the source's
    /// credentials.
    pub access: Option<Arc<AccessControl>>,
    /// The audit log; `None` without one.
    pub audit: Option<Arc<Log>>,
    /// Rejects requests from web pages; `None` where every client is authenticated.
    pub guard: Option<Guard>,
    /// Whether the set of served resources is complete; `None` if it is from the beginning. Until then, nothing is
    /// reported as missing.
    pub is_complete: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    /// Checks of `/livez` and `/readyz`.
    pub checks: Vec<Check>,
    /// The time, for ages in tables.
    pub clock: Clock,
    /// The API server that answers forwarded requests; `None` for a folder.
    pub upstream: Option<Arc<dyn Upstream>>,
    /// Which requests are forwarded to it.
    pub pass_through: PassThrough,
    /// The limits of what clients may use.
    pub limits: LimitSettings,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            patience: Duration::ZERO,
            max_lag: None,
            consistency: ReadConsistency::Eventual,
            access: None,
            audit: None,
            guard: None,
            is_complete: None,
            checks: Vec::new(),
            clock: Arc::new(jiff::Timestamp::now),
            upstream: None,
            pass_through: PassThrough::Off,
            limits: LimitSettings::default(),
        }
    }
}
