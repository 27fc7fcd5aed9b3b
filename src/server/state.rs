//! What handlers share: what is served, the settings, the limits, and what is made once for all requests.

use std::sync::Arc;

use tokio::sync::watch as state;

use super::audit_id::AuditIds;
use super::context::RequestContext;
use super::documents;
use super::pass_through::PassThrough;
use super::permitted_callers::PermittedCallers;
use super::placement_review::reviews::Reviews;
use super::read::WaitingMemory;
use super::settings::Settings;
use crate::fair_semaphore::FairSemaphore;
use crate::flow_control::Limits;
use crate::flow_control::user::User;
use crate::model::shares::Shares;
use crate::registry::upstream::Upstream;
use crate::registry::{Catalog, PanicOrigin, Registry};
use crate::wire::api_error::ApiError;
use crate::wire::shared_columns::SharedColumns;

/// How often a request is tried. Another try is needed if its resource was replaced meanwhile. Resources are replaced
/// when their CRD changes; three times within one request only happens in a loop.
pub(super) const MOST_ATTEMPTS: usize = 3;

/// The maximum number of forwarded requests in progress, including watches. One user may have as many as are free for
/// all others: half of them if no other user has any.
pub(super) const MOST_FORWARDED: u64 = 512;

/// The number of forwarded requests that each user may have, even if the others use up [`MOST_FORWARDED`].
const FIRST_FORWARDED: u64 = 8;

/// The state that handlers share; see the module.
pub(super) struct ServerState {
    pub(super) registry: Arc<Registry>,
    pub(super) settings: Settings,
    /// True once the process is ending: watches end, and `/readyz` fails.
    pub(super) draining: state::Sender<bool>,
    pub(super) audit_ids: AuditIds,
    /// The limits of what clients may use, and their current use.
    pub(super) limits: Arc<Limits>,
    /// Permits of forwarded requests.
    pub(super) forwarding: Arc<Shares<User>>,
    /// Permits of requests whose documents are being made or encoded.
    pub(super) making_documents: Arc<FairSemaphore<User>>,
    /// Columns of the tables that are being written.
    pub(super) columns: SharedColumns,
    /// The callers whose permitted namespaces are known.
    pub(super) permitted_callers: Arc<PermittedCallers>,
    /// The index and the limit of PlacementReviews.
    pub(super) reviews: Reviews,
}

impl ServerState {
    /// The state of a server that has not served any request yet.
    pub(super) fn new(registry: Arc<Registry>, settings: Settings) -> ServerState {
        ServerState {
            reviews: Reviews::new(registry.memory().clone()),
            permitted_callers: Arc::new(PermittedCallers::new(registry.clone())),
            registry,
            limits: Arc::new(Limits::new(settings.limits)),
            settings,
            draining: state::Sender::new(false),
            audit_ids: AuditIds::default(),
            forwarding: Arc::new(Shares::new(MOST_FORWARDED, FIRST_FORWARDED)),
            making_documents: Arc::new(FairSemaphore::of_places(documents::MOST_AT_ONCE, 0)),
            columns: SharedColumns::default(),
        }
    }

    /// Memory of this many bytes that the work of a request of `user` holds.
    pub(super) fn waiting_memory<'a>(&'a self, user: &'a User, bytes: u64) -> WaitingMemory<'a> {
        WaitingMemory { unread: self.limits.unread(), user, bytes }
    }

    /// The API server to which requests are forwarded; `None` if none are.
    pub(super) fn upstream(&self) -> Option<&dyn Upstream> {
        self.settings.upstream.as_deref().filter(|_| self.settings.pass_through != PassThrough::Off)
    }

    /// Which requests may be forwarded; [`PassThrough::Off`] without an API server.
    pub(super) fn pass_through(&self) -> PassThrough {
        if self.upstream().is_some() { self.settings.pass_through } else { PassThrough::Off }
    }

    /// Counts an internal error that ended a request, and returns the 500 for its client.
    pub(super) fn internal_error(&self) -> ApiError {
        self.registry.panics().count(PanicOrigin::Request);
        ApiError::Internal("internal error; see the log of the server".to_owned())
    }

    /// The catalog that a request sees: the whole one, or that of its View.
    pub(super) fn catalog(&self, context: &RequestContext<'_>) -> Arc<Catalog> {
        let whole = self.registry.catalog();
        match &context.view {
            Some(through) => through.catalog(&whole),
            None => whole,
        }
    }
}
