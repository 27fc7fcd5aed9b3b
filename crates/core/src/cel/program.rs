//! A compiled expression as data. The parent module compiles and evaluates it.

use super::ast::Ast;
use super::check::{CheckedNode, Meaning};

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct CelProgram {
    pub(super) ast: Ast,
    pub(super) checked: Vec<CheckedNode>,
}

impl CelProgram {
    /// The memory of the compiled patterns of the expression, and of what matching them caches, in bytes.
    pub fn pattern_bytes(&self) -> usize {
        let of_node = |node: &CheckedNode| match &node.meaning {
            Meaning::Call { pattern: Some(pattern), .. } => pattern.held_bytes(),
            _ => 0,
        };
        self.checked.iter().map(of_node).sum()
    }
}
