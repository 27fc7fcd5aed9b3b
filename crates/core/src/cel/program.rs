//! A compiled expression as data. The parent module compiles and evaluates it.

use super::ast::Ast;
use super::check::CheckedNode;

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct CelProgram {
    pub(super) ast: Ast,
    pub(super) checked: Vec<CheckedNode>,
}
