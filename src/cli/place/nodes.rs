//! Nodes by name, and the error for a name that no node has.

use crate::placement::Node;
use crate::placement_service::index::PlacementStores;

/// Most nodes that the error names.
pub(super) const MOST_NAMED: usize = 10;

/// The error for a missing node, with names of others.
pub(super) fn nodes_there(name: &str, stores: &PlacementStores) -> String {
    let some: Vec<String> = node_names(stores).take(MOST_NAMED).collect();
    no_such_node(name, &some, stores.nodes.snapshot.len() as u64)
}

/// The error for a node that does not exist, with the names of `some` others of `all`.
pub(super) fn no_such_node(name: &str, some: &[String], all: u64) -> String {
    let others = match (some.len() as u64, all) {
        (_, 0) => "there are no nodes".to_owned(),
        (0, all) => format!("there are {all} others"),
        (shown, all) if shown < all => format!("the nodes are {}, … ({all})", some.join(", ")),
        _ => format!("the nodes are {}", some.join(", ")),
    };
    format!("there is no node {name:?}: {others}")
}

/// The names of all nodes.
pub(super) fn node_names(stores: &PlacementStores) -> impl Iterator<Item = String> {
    stores.nodes.snapshot.range(std::ops::Bound::Unbounded).map(|(_, object)| object.key().to_owned())
}

/// Reads a stored node.
pub(super) fn node(stores: &PlacementStores, name: &str) -> Result<Node, String> {
    let stored = stores.nodes.snapshot.get(name).ok_or("there is no such node")?;
    Node::read(&stored.json()).map_err(|error| error.to_string())
}
