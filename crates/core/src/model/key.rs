//! The name of an object within its resource, and the order of a list.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// `namespace/name`, or `name` for a cluster-scoped object.
///
/// Invariant: keys compare by the bytes of the joined text, not pair-wise: `a-b/x` sorts before `a/x`. This is the
/// order of etcd's keys and so of every Kubernetes list (apiserver `storage/etcd3`).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// Joins a namespace (empty for cluster-scoped) and a name. Neither may contain a slash; Kubernetes names never do.
    pub fn new(namespace: &str, name: &str) -> Key {
        if namespace.is_empty() { Key(Arc::from(name)) } else { Key(Arc::from(format!("{namespace}/{name}"))) }
    }

    /// The key as text: `NAMESPACE/NAME` or `NAME`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        Key::split(&self.0).0
    }

    /// The name.
    pub fn name(&self) -> &str {
        Key::split(&self.0).1
    }

    /// The namespace and the name of a key as text.
    pub fn split(joined: &str) -> (&str, &str) {
        joined.split_once('/').unwrap_or(("", joined))
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", &*self.0)
    }
}
