//! A compiled expression as data. The parent module compiles and evaluates it.

use std::sync::Arc;

use super::ast::{Ast, ExprId};
use super::check::{CheckedNode, Meaning};

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct CelProgram {
    pub(super) ast: Ast,
    pub(super) checked: Vec<CheckedNode>,
}

impl CelProgram {
    /// The key in the object of the member that a selection names.
    pub(super) fn key_of(&self, selection: ExprId, field: &Arc<str>) -> Arc<str> {
        match &self.checked[selection.index()].meaning {
            Meaning::Key(key) => key.clone(),
            _ => field.clone(),
        }
    }

    /// The memory of the compiled patterns of the expression, and of what matching them caches, in bytes.
    pub fn pattern_bytes(&self) -> usize {
        let of_node = |node: &CheckedNode| match &node.meaning {
            Meaning::Call { pattern: Some(pattern), .. } => pattern.held_bytes(),
            _ => 0,
        };
        self.checked.iter().map(of_node).sum()
    }
}
