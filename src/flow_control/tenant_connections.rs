//! Authenticated connections by user and by tenant. Finds the connection to close for a new one.
//!
//! The rules are max-min fairness between tenants, and then between the users of each:
//!
//! - A tenant with fewer connections than the equal part always gets a place, from the tenant with the most.
//! - Within a tenant, a user with fewer connections than the equal part gets a place from the user with the most.
//! - Otherwise, an idle connection of the same user is closed.

use std::collections::HashMap;
use std::sync::Arc;

use super::groups::{ConnectionGroups, GroupMember};
use super::user::User;
use crate::model::flow::Flow;

/// Connections of users, and of their tenants.
#[derive(Debug)]
pub(super) struct TenantConnections<State> {
    /// The connections of each tenant.
    tenants: ConnectionGroups<User, State>,
    /// For each tenant with a connection, the connections of each of its users.
    users: HashMap<User, ConnectionGroups<User, State>>,
}

impl<State> Default for TenantConnections<State> {
    fn default() -> TenantConnections<State> {
        TenantConnections { tenants: ConnectionGroups::default(), users: HashMap::new() }
    }
}

impl<State: GroupMember> TenantConnections<State> {
    /// The number of all connections.
    pub(super) fn total(&self) -> usize {
        self.tenants.total()
    }

    /// The number of users with a connection.
    pub(super) fn users(&self) -> usize {
        self.users.values().map(ConnectionGroups::groups).sum()
    }

    /// The number of connections of the user with the most.
    pub(super) fn largest(&self) -> usize {
        self.users.values().map(ConnectionGroups::largest).max().unwrap_or_default()
    }

    /// The number of connections of a user.
    pub(super) fn count(&self, user: &User) -> usize {
        self.users.get(&user.tenant()).map_or(0, |users| users.count(user))
    }

    /// Adds a connection of a user.
    pub(super) fn insert(&mut self, user: &User, number: u64, state: Arc<State>) {
        let tenant = user.tenant();
        self.tenants.insert(&tenant, number, state.clone());
        self.users.entry(tenant).or_default().insert(user, number, state);
    }

    /// Removes a connection of a user, and returns it; `None` if the user does not have it.
    pub(super) fn remove(&mut self, user: &User, number: u64) -> Option<Arc<State>> {
        let tenant = user.tenant();
        let users = self.users.get_mut(&tenant)?;
        let removed = users.remove(user, number);
        if users.total() == 0 {
            self.users.remove(&tenant);
        }
        if removed.is_some() {
            self.tenants.remove(&tenant, number);
        }
        removed
    }

    /// The connection to close for a new connection of `user`, with the user of that connection. `None` if none may be
    /// closed, so that the new connection must be rejected.
    pub(super) fn victim_for(&self, user: &User) -> Option<(User, u64)> {
        let tenant = user.tenant();
        // After the exchange, the tenant that loses a connection must still have at least as many as this tenant.
        if self.tenants.largest() > self.tenants.count(&tenant) + 1 {
            let (largest, _) = self.tenants.first_of_largest()?;
            return self.users.get(&largest)?.first_of_largest();
        }
        let users = self.users.get(&tenant)?;
        // The same rule for the users of the tenant.
        if users.largest() > users.count(user) + 1 {
            return users.first_of_largest();
        }
        Some((user.clone(), users.idle_of(user)?))
    }
}
