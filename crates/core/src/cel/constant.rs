//! Constant parts of an expression. A constant part that fails is an error of the compilation, not of each evaluation.
//!
//! cel-go (`interpreter/decorators.go`, decOptimize) evaluates literals within conversions, lists and maps when it
//! plans an expression, also those in branches that no evaluation enters. The results are not kept here: an evaluation
//! makes them again for each object, at the cost that kube-apiserver counts.

use super::ast::{Ast, Expr, ExprId};
use super::check::{CheckedNode, Meaning};
use super::error::CelError;
use super::eval::Evaluator;
use super::failure::Failure;
use super::function::Function;
use super::meter::CostMeter;
use super::value::CelValue;

/// The limit of cost for evaluating all constant parts of an expression together. Parts beyond it are not evaluated
/// here, so they fail in the evaluation.
const LIMIT: u64 = 10_000;

/// Evaluates the conversions of constants, such as `int('1')`, and the constant keys of indexes, such as `a[1.5]`.
///
/// # Errors
/// A conversion fails, or a key is of a type that no list or map has.
pub(super) fn check(ast: &Ast, checked: &[CheckedNode]) -> Result<(), CelError> {
    // For each node, whether it is constant.
    let mut constant = vec![false; ast.len()];
    let mut left = LIMIT;
    // Of the nodes that can be constant, those below a node have smaller numbers, so they have been decided.
    for id in ast.ids() {
        let is_constant = |id: &ExprId| constant[id.index()];
        let error = |message| CelError::at(&ast.text, ast.node(id).position, message);
        // Constant parts do not read the object, so null takes its place.
        let mut evaluate = |id| {
            let mut evaluator = Evaluator::new(ast, checked, CelValue::Null, CostMeter::new(left.into()));
            let result = evaluator.constant(id);
            left = left.saturating_sub(evaluator.meter.spent());
            result
        };
        constant[id.index()] = match ast.expr(id) {
            Expr::Literal(_) => true,
            Expr::Name(_) => matches!(checked[id.index()].meaning, Meaning::Type(_)),
            Expr::List(elements) => elements.iter().all(|(element, is_optional)| !is_optional && is_constant(element)),
            Expr::Map(entries) => {
                entries.iter().all(|(key, value, is_optional)| !is_optional && is_constant(key) && is_constant(value))
            }
            Expr::Call { arguments, .. } => match (&checked[id.index()].meaning, &arguments[..]) {
                (Meaning::Call { function, has_target: false, .. }, [argument])
                    if is_conversion(*function) && is_constant(argument) =>
                {
                    match evaluate(id) {
                        Err(Failure::Error(found)) => return Err(error(found.to_string())),
                        // Beyond the limit of cost, the part counts as not constant.
                        result => result.is_ok(),
                    }
                }
                _ => false,
            },
            Expr::Index { key, .. } if is_constant(key) => {
                let is_key = |key: CelValue<'_>| key.as_key().is_some() || matches!(key, CelValue::Double(_));
                match evaluate(*key) {
                    Ok(found) if !is_key(found.clone()) => {
                        return Err(error(format!("invalid qualifier type: {}", found.type_name())));
                    }
                    _ => false,
                }
            }
            _ => false,
        };
    }
    Ok(())
}

/// Whether a function converts a value to another type, or hides its type (`dyn`).
fn is_conversion(function: Function) -> bool {
    matches!(
        function,
        Function::ToInt
            | Function::ToUint
            | Function::ToDouble
            | Function::ToText
            | Function::ToBytes
            | Function::ToBool
            | Function::ToTimestamp
            | Function::ToDuration
            | Function::Dyn
    )
}
