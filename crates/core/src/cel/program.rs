//! A compiled expression as data. [`super`] compiles and evaluates expressions.

use std::sync::Arc;

use super::ast::{Ast, ExprId};
use super::check::{CheckedNode, Meaning};

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct CelProgram {
    pub(super) ast: Ast,
    /// The type and the meaning of each node of `ast`, by [`ExprId::index`].
    pub(super) checked: Vec<CheckedNode>,
}

impl CelProgram {
    /// The JSON key of the member that a node `of.field` or `has(of.field)` names. It differs from `field` if the
    /// expression escapes the name: `__namespace__` names the member `namespace`.
    pub(super) fn key_of(&self, selection: ExprId, field: &Arc<str>) -> Arc<str> {
        match &self.checked[selection.index()].meaning {
            Meaning::Key(key) => key.clone(),
            _ => field.clone(),
        }
    }

    /// The memory of the compiled literal patterns of the expression and of the caches for matching them, in bytes.
    pub fn pattern_bytes(&self) -> usize {
        let bytes_of_node = |node: &CheckedNode| match &node.meaning {
            Meaning::Call { pattern: Some(pattern), .. } => pattern.held_bytes(),
            _ => 0,
        };
        self.checked.iter().map(bytes_of_node).sum()
    }
}
