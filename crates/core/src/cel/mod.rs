//! CEL: expressions over an object, `self`, as Kubernetes has them in validation rules and admission policies.
//!
//! [`CelProgram::compile`] parses and checks an expression. [`CelProgram::evaluate`] evaluates it for the JSON of one
//! object under a limit of cost. This module does not depend on stores or requests.
//!
//! The schema of the object gives types to the parts of an expression. They serve to find errors, usable indexes and
//! sizes before an evaluation. In an evaluation, a value has the type that its JSON has, not the one of the schema.
//! This is as in ValidatingAdmissionPolicies of kube-apiserver, with which `e2e/tests/it/cel.rs` compares results.
//!
//! Map: `lex` and `parse` make the tree of `ast`, within bounds of length and depth. `check` finds names and types
//! ([`types`]) with the table of `function`. `eval` walks the tree with `operate` and `call`; `meter` counts. `value`
//! has the values, which stay JSON as long as possible. `constant` finds constant parts that fail for each object.
//! `plan` bounds the objects for which an expression is true by sets that an index can find; `set` has these sets.
//! `estimate` has the cost before the evaluation.
//! Libraries of functions are `strings`, `text_format`, `lists`, `time`, `quantity`, `net`, `url`, `semver` and
//! `named_format`.
//!
//! The crate `cel` (0.15) is not used. Its default parser and its evaluation overflow the stack on nested brackets and
//! long sums. It limits neither cost nor memory, checks no types, and lacks Kubernetes' own functions such as
//! `quantity`.
//!
//! # Differences from Kubernetes
//! Compared with ValidatingAdmissionPolicies of Kubernetes 1.36 and 1.37, an expression that uses one of these does not
//! compile, and the error names it:
//!
//! - `authorizer` and its functions;
//! - objects of a named type, and the other variables of policies: `oldObject`, `request`, `params`, `variables`,
//!   `namespaceObject`.
//!
//! `includes` is known here, although Kubernetes 1.37 rejects it in new policies.
//!
//! Other differences:
//!
//! - `string(timestamp)` is in UTC; upstream keeps the offset that was read. The time zone `Local` is UTC.
//! - Only the first error of an expression is reported. The texts of syntax errors differ.
//! - Keys of new maps are booleans, integers and texts; upstream also makes maps with keys of other types.
//! - A precision in a format is at most 100. Quantities above 10^29 and patterns with `\Q`, `\C` or octal escapes are
//!   errors.
//! - Costs are close to those of upstream, but not equal.
//! - A pattern of more than 8,000 states is an error. So are literal patterns that together are too large to compile.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "functions are defined for the types that they name; all others are one error of the language"
)]

mod ast;
mod call;
mod check;
mod constant;
mod error;
mod estimate;
mod eval;
mod failure;
mod function;
mod lex;
mod lists;
mod meter;
mod named_format;
mod net;
mod operate;
mod parse;
mod pattern;
mod plan;
mod program;
mod quantity;
mod semver;
mod set;
mod strings;
#[cfg(test)]
mod tests;
mod text_format;
mod time;
pub mod types;
mod url;
mod value;

pub use error::CelError;
pub use estimate::{DEFAULT_ITEMS, DEFAULT_LENGTH, TooExpensive};
pub use failure::EvalError;
pub use meter::{EvaluationLimit, TimeLimit};
pub use parse::{MAX_LENGTH, MAX_LEVELS, MAX_NESTING};
pub use plan::{Indexed, IndexedKind, IndexedPath, Plan, Step};
pub use program::CelProgram;
pub use set::{IndexRequirement, IndexTest, ObjectSet, SetBounds, Subject};
pub use types::CelType;

use crate::json::Json;
use crate::json::tree::Tree;
use eval::Evaluator;
use failure::Failure;
use meter::CostMeter;
use value::UnreadValue;

/// The result of an evaluation, with its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct CelEvaluation {
    /// Whether the expression is true for the object.
    pub result: Result<bool, EvaluationError>,
    /// The cost of what was evaluated, in the unit of Kubernetes. It counts an evaluation that fails, too.
    pub cost: u64,
}

/// Why an evaluation has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The expression fails for this object, for example because it reads a field that the object does not have.
    #[error(transparent)]
    Failed(#[from] EvalError),
    /// The evaluation costs more than the limit, or its new values take more than 8 MiB of memory.
    #[error("the evaluation exceeds the cost limit of {limit}, or 8 MiB of memory, in {expression}")]
    OverLimit {
        /// The part of the expression in which the limit was exceeded.
        expression: String,
        /// The limit.
        limit: u64,
    },
    /// The evaluation takes longer than the limit of time.
    #[error("the evaluation takes too long in {expression}")]
    TooLong {
        /// The part of the expression in which the time limit was exceeded.
        expression: String,
    },
}

impl CelProgram {
    /// Compiles an expression whose variable `self` has the type `object`. The type only serves to find errors, sets of
    /// an index and sizes: in an evaluation, values have the types of their JSON. So an object that conforms to its
    /// schema gives the same result for [`CelType::Dyn`].
    ///
    /// # Errors
    /// The first error, with its position: the syntax, an unknown name, a wrong type, a constant part that fails for
    /// each object, or a result that is not a boolean.
    pub fn compile(text: &str, object: &CelType) -> Result<CelProgram, CelError> {
        let ast = parse::parse(text)?;
        let checked = check::check(&ast, object)?;
        constant::check(&ast, &checked)?;
        Ok(CelProgram { ast, checked })
    }

    /// The expression.
    pub fn text(&self) -> &str {
        &self.ast.text
    }

    /// The estimated cost of an evaluation. Sizes come from the schema; otherwise they are [`DEFAULT_ITEMS`] and
    /// [`DEFAULT_LENGTH`].
    pub fn estimated_cost(&self) -> u64 {
        estimate::cost(self)
    }

    /// The estimated cost, if it is at most `limit`.
    ///
    /// # Errors
    /// The estimated cost is above `limit`. The error names the most expensive part, and a field of that part that an
    /// index could have.
    pub fn check_cost(&self, limit: u64) -> Result<u64, TooExpensive> {
        estimate::check(self, limit)
    }

    /// At most `most` of the paths that the expression reads and that an index does not have, such as
    /// `$.spec.items[*].name`.
    pub fn unindexed(&self, indexed: &Indexed, most: usize) -> Vec<String> {
        estimate::unindexed(self, indexed, most)
    }

    /// Bounds of the objects for which the expression is true, and of those for which it is false. The bounds are sets
    /// that an index of these paths can find.
    pub fn analyze(&self, indexed: &Indexed) -> Plan {
        plan::analyze(self, indexed)
    }

    /// Evaluates the expression for the JSON of one object. A text that is not JSON fails at a cost of 0.
    pub fn evaluate(&self, object: &[u8], limit: impl Into<EvaluationLimit>) -> CelEvaluation {
        match Tree::read(object) {
            Ok(tree) => self.evaluate_tree(&tree, limit),
            Err(error) => {
                let error = EvalError::Other(format!("the object cannot be read: {error}"));
                CelEvaluation { result: Err(error.into()), cost: 0 }
            }
        }
    }

    /// Evaluates the expression for an object whose JSON was parsed before.
    pub fn evaluate_tree(&self, tree: &Tree<'_>, limit: impl Into<EvaluationLimit>) -> CelEvaluation {
        let limit = limit.into();
        let mut meter = CostMeter::new(limit);
        let object = match UnreadValue::of_json(Json::root(Some(tree))).read(&mut meter) {
            Ok(object) => object,
            Err(Failure::Error(error)) => return CelEvaluation { result: Err(error.into()), cost: meter.spent() },
            Err(Failure::Over) => return self.over(None, limit.cost, meter.spent(), meter.is_late()),
        };
        let mut evaluator = Evaluator::new(&self.ast, &self.checked, object, meter);
        let result = evaluator.run();
        let cost = evaluator.meter.spent();
        match result {
            Ok(result) => CelEvaluation { result: Ok(result), cost },
            Err(Failure::Error(error)) => CelEvaluation { result: Err(error.into()), cost },
            Err(Failure::Over) => self.over(evaluator.over, limit.cost, cost, evaluator.meter.is_late()),
        }
    }

    /// The result of an evaluation that exceeded a limit. `part`: where; `None`: the whole expression. `limit`: the
    /// limit of cost. `is_late`: the limit of time was exceeded, not that of cost.
    fn over(&self, part: Option<ast::ExprId>, limit: u64, cost: u64, is_late: bool) -> CelEvaluation {
        let part = part.unwrap_or(self.ast.root);
        let expression = lex::excerpt(self.ast.text_of(part));
        let error = match is_late {
            true => EvaluationError::TooLong { expression },
            false => EvaluationError::OverLimit { expression, limit },
        };
        CelEvaluation { result: Err(error), cost }
    }
}
