//! The policy of the audit log: which requests it contains.

/// The requests that are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// No request.
    None,
    /// Requests through Views with `authorization: View`, and rejected requests through any name of a View.
    #[default]
    ViewRights,
    /// Requests through any View.
    Views,
    /// All requests except health checks.
    All,
}

/// The class of a request, by which a policy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// Through a View with `authorization: View`.
    ViewRight,
    /// Through another View, or through a View that is not served.
    View,
    /// A rejected request through the name of a View. It is the same for every View, also for a missing one. So neither
    /// the work of a rejection nor its event depends on the View.
    RejectedView,
    /// A health check: probes arrive every few seconds and are of no interest.
    Health,
    /// Any other request.
    Other,
}

impl Policy {
    /// Whether requests of a class are logged.
    pub fn contains(self, class: RequestClass) -> bool {
        match self {
            Policy::None => false,
            Policy::ViewRights => matches!(class, RequestClass::ViewRight | RequestClass::RejectedView),
            Policy::Views => matches!(class, RequestClass::ViewRight | RequestClass::View | RequestClass::RejectedView),
            Policy::All => class != RequestClass::Health,
        }
    }
}
