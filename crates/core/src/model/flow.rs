//! Who shares a scarce resource: a user, and the tenant that the user belongs to.

use std::hash::Hash;

/// A user of a scarce resource. Limits are fair between tenants first, and then between the users of each. Otherwise a
/// tenant that can create users would get a part for each of them.
pub trait Flow: Clone + Eq + Hash + Ord {
    /// The tenant of the user. It has the same type, and is its own tenant.
    #[must_use]
    fn tenant(&self) -> Self;
}
