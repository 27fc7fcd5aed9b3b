//! The user of a request, as in apiserver `authentication/user`.
//!
//! [`super::authentication`] makes identities, [`super::authorization`] decides what they may do. Names have no meaning
//! here, except for the groups and the user that every API server treats alike.

use std::collections::BTreeMap;

/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The group of all others.
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The user of requests without credentials.
const ANONYMOUS: &str = "system:anonymous";

/// Members may do everything, without a review.
const PRIVILEGED: &str = "system:masters";

/// A user. Two identities are equal if a review makes no difference between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// The name.
    pub user: String,
    /// Distinguishes users that have the same name at different times; often empty.
    pub uid: String,
    /// Groups, in the order of their source.
    pub groups: Vec<String>,
    /// Further attributes, such as the Pod that a token is bound to. Keys from headers are in lower case, keys from a
    /// review are as the API server wrote them.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Adds the group of authenticated users (apiserver `authentication/group`), unless the user is anonymous, or has
    /// that group or the one of unauthenticated users already.
    #[must_use]
    pub fn authenticated(mut self) -> Identity {
        let is_settled = self.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
        if self.user != ANONYMOUS && !is_settled {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// The anonymous user.
    pub fn anonymous() -> Identity {
        Identity { user: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Identity::default() }
    }

    /// Whether the user is anonymous.
    pub fn is_anonymous(&self) -> bool {
        self.user == ANONYMOUS || self.groups.iter().any(|group| group == UNAUTHENTICATED)
    }

    /// Whether every request of the user is allowed without a review, as in every API server.
    pub fn is_privileged(&self) -> bool {
        self.groups.iter().any(|group| group == PRIVILEGED)
    }
}
