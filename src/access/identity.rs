//! Who a request comes from, as Kubernetes describes users (apiserver `authentication/user`).
//!
//! Plain data: how an identity is found is in [`super::authentication`], what it may do in [`super::authorization`]. A
//! name means nothing here, not even `system:` ones, but for the two groups that every API server treats alike.

use std::collections::BTreeMap;

/// Everybody who has been authenticated is in this group.
pub const AUTHENTICATED: &str = "system:authenticated";

/// Everybody else is in this one.
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Who asks when nobody in particular does.
const ANONYMOUS: &str = "system:anonymous";

/// Members may do everything; API servers ask nobody about them.
const PRIVILEGED: &str = "system:masters";

/// A user. Two requests of one user compare equal when the reviewing API server would see no difference between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// The name.
    pub user: String,
    /// What tells users of one name apart over time; empty where nobody says.
    pub uid: String,
    /// Groups, in the order in which they were told.
    pub groups: Vec<String>,
    /// What else is known of the user, such as the pod that a token is bound to. Keys are lower case where they came in
    /// headers, and as the API server wrote them where they came of a review.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// The same user with the group of all that were authenticated (apiserver `authentication/group`), unless it is in
    /// it, or is said to be nobody.
    #[must_use]
    pub fn authenticated(mut self) -> Identity {
        let is_settled = self.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
        if self.user != ANONYMOUS && !is_settled {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Nobody in particular.
    pub fn anonymous() -> Identity {
        Identity { user: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Identity::default() }
    }

    /// Whether this is nobody in particular.
    pub fn is_anonymous(&self) -> bool {
        self.user == ANONYMOUS || self.groups.iter().any(|group| group == UNAUTHENTICATED)
    }

    /// Whether everything is allowed without a review, as in every API server.
    pub fn is_privileged(&self) -> bool {
        self.groups.iter().any(|group| group == PRIVILEGED)
    }
}
