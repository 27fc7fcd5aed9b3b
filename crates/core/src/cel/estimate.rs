//! The estimated cost of an evaluation, which is known before any evaluation, and the paths that an expression reads.
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
    field.as_ref().map_or(String::new(), |field| format!("; add {field} to the selectableFields of a FieldCache"))
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

/// An estimate in progress.
struct Estimator<'a> {
    program: &'a CelProgram,
    /// The cost of one evaluation of each node and the nodes below it, by [`ExprId::index`]; 0 if it is not known yet.
    costs: Vec<u64>,
}

/// The estimated cost of an evaluation of the expression.
pub(super) fn cost(program: &CelProgram) -> u64 {
    let mut estimator = Estimator { program, costs: vec![0; program.ast.len()] };
    estimator.cost(program.ast.root)
}

/// The estimated cost of an evaluation, if it is at most `limit`.
///
/// # Errors
/// The estimated cost is above the limit. The error names the most expensive part, and the first path through a list
/// that this part reads: a walk over a list is what an index avoids.
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
    /// The syntax tree of the program.
    fn ast(&self) -> &Ast {
        &self.program.ast
    }

    /// The assumed size of the value of a node: characters of a text (bytes of a literal), elements of a list, entries
    /// of a map; 1 for other types. It is an upper bound if the node or the schema bounds the size, and otherwise a
    /// default.
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

    /// Like [`Estimator::size`], for a value that an operator or function may read as a text. A dynamic value can be
    /// one.
    fn length(&self, id: ExprId) -> u64 {
        match self.program.checked[id.index()].kind {
            CelType::Dyn => DEFAULT_LENGTH,
            _ => self.size(id),
        }
    }

    /// The cost of scanning a text of the object when a selection or an index reads it; 0 for other types.
    fn scan(&self, id: ExprId) -> u64 {
        match self.program.checked[id.index()].kind {
            CelType::Text { .. } | CelType::Dyn => self.length(id) / SCANNED as u64,
            _ => 0,
        }
    }

    /// The cost of a node and the nodes below it. Records the cost of each of them.
    fn cost(&mut self, id: ExprId) -> u64 {
        let cost = self.cost_of(id);
        self.costs[id.index()] = cost;
        cost
    }

    /// The cost of several nodes together.
    fn sum(&mut self, ids: impl IntoIterator<Item = ExprId>) -> u64 {
        ids.into_iter().fold(0, |sum: u64, id| sum.saturating_add(self.cost(id)))
    }

    /// Like [`Estimator::cost`], but does not record the cost of the node itself. The numbers are close to
    /// those that [`super::eval`] counts.
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
                // A text costs one for each ten characters.
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

    /// The cost of a call without that of its arguments. `arguments` has the target first.
    fn call_cost(&self, id: ExprId, arguments: &[ExprId]) -> u64 {
        let size = |index: usize| arguments.get(index).map_or(1, |argument| self.size(*argument));
        let length = |index: usize| arguments.get(index).map_or(1, |argument| self.length(*argument));
        let Meaning::Call { function, pattern, .. } = &self.program.checked[id.index()].meaning else { return 1 };
        match function {
            Function::Matches | Function::Find | Function::FindAll => {
                // The states of a pattern that is not a literal are not known: one for each character is assumed.
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

    /// The node that an author should change: the deepest one on the way down that has more than half of the cost of
    /// the node above it. The way ends at the first macro.
    fn most_expensive(&self) -> ExprId {
        let ast = self.ast();
        let mut id = ast.root;
        loop {
            // The condition of a macro is evaluated for each element, so the macro itself is the reason for the cost.
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

/// At most `most` of the paths below `self` that an expression reads and that are not in an index. They are JSON paths,
/// without repetition, in the order of the expression. The name, the namespace and labels are omitted, because each
/// index has them, and so are paths that are longer than [`LONGEST_PATH`].
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

/// Calls `take` with each path of the object that a node and the nodes below it read, until `take` breaks. The range of
/// a macro is omitted if it is a path itself: what the macro reads of the elements is not.
fn read_paths(program: &CelProgram, id: ExprId, take: &mut dyn FnMut(&[Step]) -> ControlFlow<()>) -> ControlFlow<()> {
    Reader { program, variables: Vec::new(), take }.read(id)
}

/// A walk over nodes that finds paths. It passes on each path at once instead of collecting them: their number is not
/// bounded, and each can repeat a long key.
struct Reader<'a> {
    program: &'a CelProgram,
    /// For each variable of the macros around the current node, the path of its value; `None` if its value is not that
    /// of a path, such as the index of an element.
    variables: Vec<Option<Vec<Step>>>,
    take: &'a mut dyn FnMut(&[Step]) -> ControlFlow<()>,
}

impl Reader<'_> {
    /// Finds the paths of a node and of the nodes below it.
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
                // The first one of two variables is an index or a key.
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

    /// The path from the object to the value of an expression. `None` unless the expression starts at `self`, or at a
    /// variable with a path, and has only selections and literal keys.
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

/// The maximum length of a path that an error names, in bytes, without the punctuation of its last key.
const LONGEST_PATH: usize = 256;

/// A path as the author of a FieldCache writes it, such as `$.spec.items[*].name`; `None` if it is longer than
/// [`LONGEST_PATH`].
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
