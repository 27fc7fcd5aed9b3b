//! Constant parts of an expression, which fail when the expression is compiled instead of for each object.
//!
//! cel-go (`interpreter/decorators.go`, decOptimize) evaluates literals within conversions, lists and maps when it plans
//! an expression, also those in branches that no evaluation enters. The results are not kept here: they are made again
//! for each object, at the cost that kube-apiserver counts.

use super::ast::{Ast, Expr, ExprId};
use super::check::{CheckedNode, Meaning};
use super::error::CelError;
use super::eval::Evaluator;
use super::failure::Failure;
use super::function::Function;
use super::meter::CostMeter;
use super::value::CelValue;

/// The limit of cost for all constant parts of an expression. Parts above it are left to the evaluation.
const LIMIT: u64 = 10_000;

/// Evaluates the conversions of constants and the constant keys of a checked tree.
///
/// # Errors
/// One of them fails for each object.
pub(super) fn check(ast: &Ast, checked: &[CheckedNode]) -> Result<(), CelError> {
    let mut constant = vec![false; ast.len()];
    let mut left = LIMIT;
    // Nodes have larger numbers than those below them.
    for id in ast.ids() {
        let is_constant = |id: &ExprId| constant[id.index()];
        let error = |message| CelError::at(&ast.text, ast.node(id).position, message);
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

/// Whether a function converts a value to another type, or only hides its type.
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
