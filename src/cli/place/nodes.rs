//! Nodes by name, and the error for a name that no node has.

use crate::placement::Node;
use crate::placement_service::index::PlacementStores;

/// Most nodes that the error names.
pub(super) const MOST_NAMED: usize = 10;

/// The error for a node that is not in the stores, with names of others.
pub(super) fn no_such_stored_node(name: &str, stores: &PlacementStores) -> String {
    let some: Vec<String> = node_names(stores).take(MOST_NAMED).collect();
    no_such_node(name, &some, stores.nodes.snapshot.len() as u64)
}

/// The error for a node that does not exist. `some` are names of other nodes, and `all` is the number of all nodes.
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

/// Parses a stored node. The error is the reason why it is unknown.
pub(super) fn read_node(stores: &PlacementStores, name: &str) -> Result<Node, String> {
    let stored = stores.nodes.snapshot.get(name).ok_or("there is no such node")?;
    Node::read(&stored.json()).map_err(|error| error.to_string())
}
