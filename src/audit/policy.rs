//! Which requests the audit log contains.

/// Which requests are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// None.
    None,
    /// Those through Views that are a right of their own, and those through any name of a View that are rejected.
    #[default]
    ViewRights,
    /// Those through any View.
    Views,
    /// All but those for health.
    All,
}

/// What a request is to a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Through a View that is a right of its own.
    ViewRight,
    /// Through another View, or through one that is not served.
    View,
    /// Through the name of a View, by a caller that is rejected: the same whatever there is of that name, so that neither the work of
    /// a rejection nor its event depends on it.
    RejectedView,
    /// For health: probes come every few seconds and tell nothing.
    Health,
    /// For anything else.
    Other,
}

impl Policy {
    /// Whether such a request is told.
    pub fn takes(self, subject: Subject) -> bool {
        match self {
            Policy::None => false,
            Policy::ViewRights => matches!(subject, Subject::ViewRight | Subject::RejectedView),
            Policy::Views => matches!(subject, Subject::ViewRight | Subject::View | Subject::RejectedView),
            Policy::All => subject != Subject::Health,
        }
    }
}
