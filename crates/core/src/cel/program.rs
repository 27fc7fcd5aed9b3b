//! A compiled expression as data. The parent module compiles and evaluates it.

use std::sync::Arc;

use super::ast::Ast;
use super::check::CheckedNode;
use super::types::CelType;

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct CelProgram {
    pub(super) ast: Ast,
    pub(super) checked: Vec<CheckedNode>,
    pub(super) object: Arc<CelType>,
}
