//! The users between whom limits are shared: authenticated users, and addresses of unauthenticated clients.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use crate::model::flow::Flow;
use crate::model::{quote, shares, user_name};

/// The part that one request, connection or response takes of a limit. The part becomes free when the value is dropped.
pub type UserShare = shares::Share<User>;

/// A user for whom requests count: an authenticated user, or the address of an unauthenticated client. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct User(Arc<str>);

impl User {
    /// The authenticated user with this name.
    pub fn named(name: &str) -> User {
        User(Arc::from(name))
    }

    /// The clients of an address, for unauthenticated requests. Of an IPv6 address, all clients of its /64 network.
    pub fn at(address: IpAddr) -> User {
        match origin_of(address) {
            IpAddr::V6(network) => User::named(&format!("{network}/64")),
            address => User::named(&address.to_string()),
        }
    }

    /// The name of an authenticated user, or the address of unauthenticated clients.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Flow for User {
    /// For a ServiceAccount, all ServiceAccounts of its namespace; for others, the user itself.
    fn tenant(&self) -> User {
        match user_name::tenant(&self.0) {
            // The name of the tenant is the beginning of the user's name, or the same.
            tenant if tenant.len() < self.0.len() => User::named(tenant),
            _ => self.clone(),
        }
    }
}

/// The user of requests that do not arrive over a connection.
impl Default for User {
    fn default() -> User {
        User::named("local")
    }
}

/// The address that limits apply to: an IPv4 address, or the /64 network of an IPv6 address, because a host usually has
/// a whole /64 network.
pub(super) fn origin_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [first, second, third, fourth, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(first, second, third, fourth, 0, 0, 0, 0))
        }
        address => address,
    }
}

/// Displays the name in quotes, because users can choose their names.
impl fmt::Display for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&quote(&self.0))
    }
}
