//! The cost of an expression before any evaluation, and the paths that it reads.
//!
//! Sizes come from the schema (maxItems, maxProperties, maxLength), from literals, or are defaults. The estimate is
//! what an evaluation of an object of these sizes costs if no operand is skipped. Objects can be larger than the
//! defaults, so an evaluation has its own limit. kube-apiserver assumes the largest possible object instead, which
//! would reject most macros over lists without maxItems.

use std::ops::ControlFlow;

use super::ast::{Ast, BinaryOperator, CelLiteral, Expr, ExprId, FoldKind};
use super::check::Meaning;
use super::eval::ROUND_COST;
use super::function::Function;
use super::lex::excerpt;
use super::meter::SCANNED;
use super::plan::{Indexed, Step};
use super::program::CelProgram;
use super::strings::{compile_cost, match_cost};
use super::types::CelType;

/// The number of elements or entries of a list or map without a bound in the schema.
pub const DEFAULT_ITEMS: u64 = 100;

/// The length of a text without a bound in the schema, in characters.
pub const DEFAULT_LENGTH: u64 = 256;

/// An expression that is too expensive to be evaluated for many objects. Display names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the estimated cost of {expression} is {cost} for an object, above the limit of {limit}{}",
    field.as_ref().map_or(String::new(), |field| format!("; add {field} to the selectable fields"))
)]
pub struct TooExpensive {
    /// The part of the expression that costs most.
    pub expression: String,
    /// The estimated cost of the whole expression.
    pub cost: u64,
    /// The limit.
    pub limit: u64,
    /// The path of a field with which an index could answer the part, such as `$.spec.items[*].name`.
    pub field: Option<String>,
}

/// Estimates of the nodes of a program.
struct Estimator<'a> {
    program: &'a CelProgram,
    costs: Vec<u64>,
}

/// The estimated cost of an expression.
pub(super) fn cost(program: &CelProgram) -> u64 {
    let mut estimator = Estimator { program, costs: vec![0; program.ast.len()] };
    estimator.cost(program.ast.root)
}

/// Checks the estimated cost of an expression against a limit.
pub(super) fn check(program: &CelProgram, limit: u64) -> Result<u64, TooExpensive> {
    let mut estimator = Estimator { program, costs: vec![0; program.ast.len()] };
    let cost = estimator.cost(program.ast.root);
    if cost <= limit {
        return Ok(cost);
    }
    let part = estimator.most_expensive();
    let mut field = None;
    let _ = read_paths(program, part, &mut |steps| match path_text(steps).filter(|_| steps.contains(&Step::Each)) {
        Some(path) => {
            field = Some(path);
            ControlFlow::Break(())
        }
        None => ControlFlow::Continue(()),
    });
    Err(TooExpensive { expression: excerpt(program.ast.text_of(part)), cost, limit, field })
}

impl Estimator<'_> {
    fn ast(&self) -> &Ast {
        &self.program.ast
    }

    /// The largest size of a value: characters of a text, elements of a list, entries of a map; 1 for others.
    fn size(&self, id: ExprId) -> u64 {
        let ast = self.ast();
        match ast.expr(id) {
            Expr::Literal(CelLiteral::Text(text)) => text.len() as u64,
            Expr::Call { arguments, .. } if self.is_range(id) => match arguments.first().map(|end| ast.expr(*end)) {
                Some(Expr::Literal(CelLiteral::Int(end))) => u64::try_from(*end).unwrap_or(0),
                _ => DEFAULT_ITEMS,
            },
            Expr::List(elements) => elements.len() as u64,
            Expr::Map(entries) => entries.len() as u64,
            Expr::Binary(BinaryOperator::Add, left, right) => self.size(*left).saturating_add(self.size(*right)),
            Expr::Conditional(_, then, otherwise) => self.size(*then).max(self.size(*otherwise)),
            Expr::Fold {
                kind: FoldKind::Map | FoldKind::Filter | FoldKind::TransformMap | FoldKind::SortBy,
                range,
                ..
            } => self.size(*range),
            _ => match &self.program.checked[id.index()].kind {
                CelType::Text { longest, .. } => longest.unwrap_or(DEFAULT_LENGTH),
                CelType::List(list) => list.most.unwrap_or(DEFAULT_ITEMS),
                CelType::Map(map) => map.most.unwrap_or(DEFAULT_ITEMS),
                CelType::Dyn | CelType::Object(_) | CelType::Optional(_) => DEFAULT_ITEMS,
                CelType::Bytes => DEFAULT_LENGTH,
                CelType::Null
                | CelType::Bool
                | CelType::Int
                | CelType::Uint
                | CelType::Double
                | CelType::Timestamp
                | CelType::Duration
                | CelType::Type
                | CelType::Quantity
                | CelType::Ip
                | CelType::Cidr
                | CelType::Url
                | CelType::Semver
                | CelType::Format => 1,
            },
        }
    }

    /// Whether a node calls `lists.range`.
    fn is_range(&self, id: ExprId) -> bool {
        matches!(&self.program.checked[id.index()].meaning, Meaning::Call { function: Function::Range, .. })
    }

    /// The length of a value that is read as a text, in characters. A value of an unknown type can be one.
    fn length(&self, id: ExprId) -> u64 {
        match self.program.checked[id.index()].kind {
            CelType::Dyn => DEFAULT_LENGTH,
            _ => self.size(id),
        }
    }

    /// The cost of scanning a value of the object when it is read.
    fn scan(&self, id: ExprId) -> u64 {
        match self.program.checked[id.index()].kind {
            CelType::Text { .. } | CelType::Dyn => self.length(id) / SCANNED as u64,
            _ => 0,
        }
    }

    /// The cost of a node and those below it.
    fn cost(&mut self, id: ExprId) -> u64 {
        let cost = self.cost_of(id);
        self.costs[id.index()] = cost;
        cost
    }

    fn sum(&mut self, ids: impl IntoIterator<Item = ExprId>) -> u64 {
        ids.into_iter().fold(0, |sum: u64, id| sum.saturating_add(self.cost(id)))
    }

    fn cost_of(&mut self, id: ExprId) -> u64 {
        let program = self.program;
        let ast = &program.ast;
        match ast.expr(id) {
            Expr::Literal(_) => 0,
            Expr::Name(_) => 1,
            Expr::Select { of, .. } => self.cost(*of).saturating_add(1 + self.scan(id)),
            Expr::Not(of) | Expr::Negate(of) => self.cost(*of).saturating_add(1),
            Expr::Has { of, .. } => self.cost(*of),
            Expr::Index { of, key, .. } => self.sum([*of, *key]).saturating_add(1 + self.scan(id)),
            Expr::List(elements) => self.sum(elements.iter().map(|(element, _)| *element)).saturating_add(10),
            Expr::Map(entries) => {
                self.sum(entries.iter().flat_map(|(key, value, _)| [*key, *value])).saturating_add(30)
            }
            Expr::And(operands) | Expr::Or(operands) => self.sum(operands.iter().copied()),
            Expr::Conditional(condition, then, otherwise) => {
                let chosen = self.cost(*then).max(self.cost(*otherwise));
                self.cost(*condition).saturating_add(chosen)
            }
            Expr::Binary(operator, left, right) => {
                let operands = self.sum([*left, *right]);
                let items = self.size(*right);
                let (left, right) = (self.length(*left), self.length(*right));
                let own = match operator {
                    BinaryOperator::In => items.saturating_mul(left.div_ceil(10).max(1)),
                    BinaryOperator::Add => left.saturating_add(right).div_ceil(10),
                    _ => left.min(right).div_ceil(10),
                };
                operands.saturating_add(own.max(1))
            }
            Expr::Call { target, arguments, .. } => {
                let all: Vec<ExprId> = target.iter().chain(arguments).copied().collect();
                let operands = self.sum(all.iter().copied());
                let own = self.call_cost(id, &all);
                operands.saturating_add(own)
            }
            Expr::Fold { range, filter, result, .. } => {
                let round = self.sum(filter.iter().chain(result).copied()).saturating_add(ROUND_COST);
                self.cost(*range).saturating_add(self.size(*range).saturating_mul(round))
            }
            Expr::OptionalMap { target, body, .. } => self.sum([*target, *body]).saturating_add(ROUND_COST),
        }
    }

    /// The cost of a function itself.
    fn call_cost(&self, id: ExprId, arguments: &[ExprId]) -> u64 {
        let size = |index: usize| arguments.get(index).map_or(1, |argument| self.size(*argument));
        let length = |index: usize| arguments.get(index).map_or(1, |argument| self.length(*argument));
        let Meaning::Call { function, pattern, .. } = &self.program.checked[id.index()].meaning else { return 1 };
        match function {
            Function::Matches | Function::Find | Function::FindAll => {
                // A pattern that is not a literal has perhaps a state for each character.
                let states = pattern.as_ref().map_or_else(|| length(1), |pattern| pattern.size);
                let compile = if pattern.is_some() { 0 } else { compile_cost(states) };
                match_cost(length(0), states).saturating_add(compile)
            }
            Function::SetsContains | Function::SetsIntersects => size(0).saturating_mul(size(1)),
            Function::SetsEquivalent => size(0).saturating_mul(size(1)).saturating_mul(2),
            Function::Range => self.size(id),
            Function::Distinct => size(0).saturating_mul(size(0)),
            Function::Sort => size(0).saturating_mul(8),
            Function::Sum
            | Function::Min
            | Function::Max
            | Function::IsSorted
            | Function::Includes
            | Function::Join
            | Function::Flatten => size(0),
            _ => length(0).div_ceil(10).max(1),
        }
    }

    /// The node that an author should change: the macro or call that has most of the cost.
    fn most_expensive(&self) -> ExprId {
        let ast = self.ast();
        let mut id = ast.root;
        loop {
            // The condition of a macro is evaluated for each element, so the macro itself is the reason.
            if matches!(ast.expr(id), Expr::Fold { .. }) {
                return id;
            }
            let most = children(ast.expr(id)).into_iter().max_by_key(|child| self.costs[child.index()]);
            match most {
                Some(child) if self.costs[child.index()] > self.costs[id.index()] / 2 => id = child,
                _ => return id,
            }
        }
    }
}

/// The nodes directly below an expression.
fn children(expr: &Expr) -> Vec<ExprId> {
    match expr {
        Expr::Literal(_) | Expr::Name(_) => Vec::new(),
        Expr::Select { of, .. } | Expr::Has { of, .. } | Expr::Not(of) | Expr::Negate(of) => vec![*of],
        Expr::Index { of, key, .. } => vec![*of, *key],
        Expr::Call { target, arguments, .. } => target.iter().chain(arguments).copied().collect(),
        Expr::List(elements) => elements.iter().map(|(element, _)| *element).collect(),
        Expr::Map(entries) => entries.iter().flat_map(|(key, value, _)| [*key, *value]).collect(),
        Expr::And(operands) | Expr::Or(operands) => operands.clone(),
        Expr::Binary(_, left, right) => vec![*left, *right],
        Expr::Conditional(condition, then, otherwise) => vec![*condition, *then, *otherwise],
        Expr::Fold { range, filter, result, .. } => [*range].into_iter().chain(*filter).chain(*result).collect(),
        Expr::OptionalMap { target, body, .. } => vec![*target, *body],
    }
}

/// At most `most` of the paths below `self` that an expression reads and that are not in an index, as JSON paths, in the
/// order in which they are read, without repetition. The name, the namespace, labels and very long paths are omitted.
pub(super) fn unindexed(program: &CelProgram, indexed: &Indexed, most: usize) -> Vec<String> {
    let mut found = Vec::new();
    let _ = read_paths(program, program.ast.root, &mut |steps| {
        let is_known = indexed.paths.iter().any(|path| path.steps == steps)
            || matches!(steps, [Step::Key(metadata), Step::Key(key), ..]
                if &**metadata == "metadata" && ["name", "namespace", "labels"].contains(&&**key));
        let Some(path) = path_text(steps).filter(|path| !is_known && !found.contains(path)) else {
            return ControlFlow::Continue(());
        };
        if found.len() == most {
            return ControlFlow::Break(());
        }
        found.push(path);
        ControlFlow::Continue(())
    });
    found
}

/// Calls `take` with each path that a node and those below it read, until it breaks. Ranges of macros are omitted; values
/// within their elements are not.
fn read_paths(program: &CelProgram, id: ExprId, take: &mut dyn FnMut(&[Step]) -> ControlFlow<()>) -> ControlFlow<()> {
    Reader { program, variables: Vec::new(), take }.read(id)
}

/// Finds paths. Their number is not bounded, so they are not collected: each can repeat a long key.
struct Reader<'a> {
    program: &'a CelProgram,
    /// For each variable of the macros around, the path of its value; `None` if it has none.
    variables: Vec<Option<Vec<Step>>>,
    take: &'a mut dyn FnMut(&[Step]) -> ControlFlow<()>,
}

impl Reader<'_> {
    /// Reads the paths of a node and those below it.
    fn read(&mut self, id: ExprId) -> ControlFlow<()> {
        if let Some(steps) = self.steps(id) {
            return if steps.is_empty() { ControlFlow::Continue(()) } else { (self.take)(&steps) };
        }
        let program = self.program;
        match program.ast.expr(id) {
            Expr::Has { of, field } => match self.steps(*of) {
                Some(mut steps) => {
                    steps.push(Step::Key(program.key_of(id, field)));
                    (self.take)(&steps)
                }
                None => self.read(*of),
            },
            Expr::Fold { range, variables, filter, result, .. } => {
                let elements = self.steps(*range).map(|mut steps| {
                    steps.push(Step::Each);
                    steps
                });
                if elements.is_none() {
                    self.read(*range)?;
                }
                let outside = self.variables.len();
                match variables.len() {
                    1 => self.variables.push(elements),
                    _ => self.variables.extend([None, elements]),
                }
                for part in filter.iter().chain(result) {
                    self.read(*part)?;
                }
                self.variables.truncate(outside);
                ControlFlow::Continue(())
            }
            Expr::OptionalMap { target, body, .. } => {
                self.read(*target)?;
                self.variables.push(None);
                self.read(*body)?;
                self.variables.pop();
                ControlFlow::Continue(())
            }
            expr => children(expr).into_iter().try_for_each(|child| self.read(child)),
        }
    }

    /// The path of an expression; `None` if it is not a path.
    fn steps(&self, id: ExprId) -> Option<Vec<Step>> {
        match self.program.ast.expr(id) {
            Expr::Name(_) => match &self.program.checked[id.index()].meaning {
                Meaning::Object => Some(Vec::new()),
                Meaning::Variable(index) => self.variables.get(*index)?.clone(),
                _ => None,
            },
            Expr::Select { of, field, .. } => {
                let mut steps = self.steps(*of)?;
                steps.push(Step::Key(self.program.key_of(id, field)));
                Some(steps)
            }
            Expr::Index { of, key, .. } => {
                let mut steps = self.steps(*of)?;
                match self.program.ast.expr(*key) {
                    Expr::Literal(CelLiteral::Text(key)) => steps.push(Step::Key(key.clone())),
                    _ => return None,
                }
                Some(steps)
            }
            _ => None,
        }
    }
}

/// The longest path that an error names, in bytes.
const LONGEST_PATH: usize = 256;

/// A path as the author of a FieldCache writes it; `None` if it is longer than [`LONGEST_PATH`].
fn path_text(steps: &[Step]) -> Option<String> {
    let mut text = "$".to_owned();
    for step in steps {
        match step {
            Step::Key(key) if text.len() + key.len() > LONGEST_PATH => return None,
            Step::Each => text.push_str("[*]"),
            Step::Key(key) if key.chars().all(|character| character.is_ascii_alphanumeric() || character == '_') => {
                text.push('.');
                text.push_str(key);
            }
            Step::Key(key) => {
                text.push_str("['");
                text.push_str(key);
                text.push_str("']");
            }
        }
    }
    Some(text)
}
