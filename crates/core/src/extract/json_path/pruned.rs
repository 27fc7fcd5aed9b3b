//! Decides whether a template reads pruned parts of an object.

use super::template::{JsonPath, PathNode, Steps, Test};
use crate::extract::prune::{Prune, PrunedPart};

impl JsonPath {
    /// Whether a template reads a pruned part of an object, or may read one.
    pub fn reads_pruned(&self, prune: &Prune) -> bool {
        !prune.is_empty() && self.actions.iter().any(|action| steps_read_pruned(action, &mut vec![prune]))
    }
}

/// Whether these steps read a pruned part. `places` are the places in the pruned paths that correspond to the values
/// before the steps; afterwards, those that correspond to the results. An element of a list has the place of the list.
fn steps_read_pruned(list: &Steps, places: &mut Vec<&Prune>) -> bool {
    for node in list {
        match node {
            PathNode::Field(name) => {
                let parts: Vec<&PrunedPart> = places.iter().filter_map(|place| place.part(name)).collect();
                let Some(inside) = inner_prunes(parts) else { return true };
                *places = inside;
            }
            PathNode::Wildcard if places.iter().any(|place| place.keeps_named_only()) => return true,
            PathNode::Wildcard => {
                let parts = places.iter().flat_map(|place| place.parts()).map(|(_, part)| part).collect();
                let Some(inside) = inner_prunes(parts) else { return true };
                places.extend(inside);
            }
            // Some part below is pruned.
            PathNode::Recursive if !places.is_empty() => return true,
            PathNode::Recursive | PathNode::Slice(_) | PathNode::Range | PathNode::Word(_) => {}
            PathNode::Filter(filter) => {
                let right = match &filter.test {
                    Test::Exists => None,
                    Test::Compares(_, right) | Test::Unknown(right) => Some(right),
                };
                if std::iter::once(&filter.left).chain(right).any(|side| steps_read_pruned(side, &mut places.clone())) {
                    return true;
                }
            }
            PathNode::Union(lists) => {
                let mut all = Vec::new();
                for list in lists {
                    let mut places = places.clone();
                    if steps_read_pruned(list, &mut places) {
                        return true;
                    }
                    all.extend(places);
                }
                *places = all;
            }
            PathNode::Literal(_) => places.clear(),
        }
        // Each place once: many steps can lead to the same one.
        places.sort_unstable_by_key(|place| std::ptr::from_ref::<Prune>(place));
        places.dedup_by_key(|place| std::ptr::from_ref::<Prune>(place));
    }
    false
}

/// The pruned paths that continue inside of these parts; `None` if one of the parts is pruned as a whole.
fn inner_prunes(parts: Vec<&PrunedPart>) -> Option<Vec<&Prune>> {
    let inside = parts.into_iter().map(|part| match part {
        PrunedPart::Whole => None,
        PrunedPart::Inside(inside) => Some(inside),
    });
    inside.collect()
}
