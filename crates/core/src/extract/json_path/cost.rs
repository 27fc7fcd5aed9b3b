//! Estimates whether the evaluation of a template takes much longer than reading its object.

use super::template::{JsonPath, Literal, PathNode, Steps, Test};

/// The maximum number of ways in which a template that is cheap reads a value. `['a','b']` has two.
pub const MOST_WAYS: usize = 4;

/// The maximum length of a text in a template that is cheap, in bytes. A filter compares it with each element.
const LONGEST_TEXT: usize = 256;

impl JsonPath {
    /// The number of ways in which the evaluation reads each value of an object, if these are few. `None`: the
    /// evaluation may take up to a quarter of a second for any object ([`super::search::Search`] has the bound), and
    /// must not run between other work.
    pub fn ways_if_cheap(&self) -> Option<usize> {
        self.actions.iter().try_fold(0, |sum: usize, action| {
            let ways = ways(action).filter(|ways| *ways <= MOST_WAYS)?;
            Some(sum.saturating_add(ways))
        })
    }
}

/// The number of ways in which these steps read a value. `None` if it has no bound that is independent of the object,
/// or if a text or name in the steps is longer than [`LONGEST_TEXT`].
fn ways(list: &Steps) -> Option<usize> {
    let mut all: usize = 1;
    for node in list {
        let more = match node {
            PathNode::Recursive => return None,
            PathNode::Literal(Literal::Text(text)) if text.len() > LONGEST_TEXT => return None,
            PathNode::Field(name) if name.len() > LONGEST_TEXT => return None,
            PathNode::Union(lists) => {
                lists.iter().try_fold(0, |sum: usize, list| Some(sum.saturating_add(ways(list)?)))?
            }
            PathNode::Filter(filter) => {
                let right = match &filter.test {
                    Test::Exists => None,
                    Test::Compares(_, right) | Test::Unknown(right) => Some(right),
                };
                // Each side reads the element by itself, and the more expensive one counts.
                let left = ways(&filter.left)?;
                left.max(right.map_or(Some(1), ways)?)
            }
            PathNode::Field(_)
            | PathNode::Wildcard
            | PathNode::Slice(_)
            | PathNode::Literal(_)
            | PathNode::Range
            | PathNode::Word(_) => 1,
        };
        all = all.saturating_mul(more);
    }
    Some(all)
}
