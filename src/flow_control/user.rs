//! The user that shares limits: an authenticated user, or an address.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use crate::model::fair_queue::Flow;
use crate::model::{quote, shares, user_name};

/// What one request holds of a quantity that users share.
pub type UserShare = shares::Share<User>;

/// The user that shares limits: an authenticated user, or an address. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct User(Arc<str>);

impl User {
    /// An authenticated user of this name.
    pub fn named(name: &str) -> User {
        User(Arc::from(name))
    }

    /// The clients of an address, for requests without an authenticated user.
    pub fn at(address: IpAddr) -> User {
        match origin_of(address) {
            IpAddr::V6(network) => User::named(&format!("{network}/64")),
            address => User::named(&address.to_string()),
        }
    }

    /// The name of an authenticated user, or the address of another one.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Flow for User {
    fn tenant(&self) -> User {
        match user_name::tenant(&self.0) {
            tenant if tenant.len() < self.0.len() => User::named(tenant),
            _ => self.clone(),
        }
    }
}

/// For requests that come over no connection.
impl Default for User {
    fn default() -> User {
        User::named("local")
    }
}

/// The address that limits apply to: a host usually has a whole /64 of IPv6.
pub(super) fn origin_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [first, second, third, fourth, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(first, second, third, fourth, 0, 0, 0, 0))
        }
        address => address,
    }
}

/// In quotes: a name is the user's own choice.
impl fmt::Display for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&quote(&self.0))
    }
}
