//! Which objects an index can find for an expression.
//!
//! An expression is true, false or an error for each object. A [`Plan`] bounds two sets: the objects for which it is
//! true, and the objects for which it is false. Each has a lower and an upper bound, which are sets that an index can
//! find. The objects between the two bounds must be evaluated. Bounds for true alone do not suffice: `!e` is true where
//! `e` is false, and where `e` is an error, so is `!e`. `a && b` is false where one operand is false, even if the other
//! one is an error.
//!
//! An index has one text (`absent`) for an absent value, for null and for the empty text. An expression distinguishes
//! them: `x == 'a'` is an error without `x`, and false if `x` is null or empty. The lower bounds therefore omit the
//! objects with this text, unless the schema excludes the difference. In this file, a value is blank if it is null or
//! the empty text.
//!
//! Expressions with optional values (`?.`), functions other than `startsWith`, and fields compared with each other are
//! not planned: nothing is known about their objects. Exact bounds rely on objects that conform to their schema.

use std::cell::Cell;
use std::sync::Arc;

use super::ast::{BinaryOperator, CelLiteral, Expr, ExprId, FoldKind};
use super::check::Meaning;
use super::function::Function;
use super::program::CelProgram;
use super::set::{IndexTest, ObjectSet, SetBounds, Subject};
use super::types::CelType;

/// A step of a path into an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A member of an object.
    Key(Arc<str>),
    /// Each element of a list.
    Each,
}

/// The type of the values of an indexed path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexedKind {
    /// Strings.
    Text,
    /// Integers, as decimal texts.
    Integer,
    /// `true` and `false`.
    Boolean,
    /// Others, or values that can have several types.
    Other,
}

/// A path that an index has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedPath {
    /// The path.
    pub steps: Vec<Step>,
    /// The type of the values that are not null.
    pub kind: IndexedKind,
    /// The text in the index for objects in which the value is absent, null or the empty text.
    pub absent: String,
    /// Whether [`Step::Each`] is an element of a list only. Otherwise it can also be a member of an object.
    pub has_lists: bool,
}

impl IndexedPath {
    /// Reads a path such as `.spec.color`, `$.spec.items[*].name` or `$.spec['a.b']`. `None` if the path is empty or
    /// has other parts, such as filters. The text of absent values is empty.
    pub fn parse(json_path: &str, kind: IndexedKind) -> Option<IndexedPath> {
        let mut rest = json_path.strip_prefix('$').unwrap_or(json_path);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("[*]") {
                steps.push(Step::Each);
                rest = after;
            } else if let Some(after) = rest.strip_prefix("['") {
                let (key, after) = after.split_once("']")?;
                if key.is_empty() || key.contains(['\'', '\\']) {
                    return None;
                }
                steps.push(Step::Key(key.into()));
                rest = after;
            } else {
                let after = rest.strip_prefix('.')?;
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (key, after) = after.split_at(end);
                if key.is_empty() || key.contains(['*', '\'', '"', '(', '?', '@']) {
                    return None;
                }
                steps.push(Step::Key(key.into()));
                rest = after;
            }
        }
        (!steps.is_empty()).then(|| IndexedPath { steps, kind, absent: String::new(), has_lists: false })
    }

    /// The path with another text for absent values.
    pub fn absent_as(mut self, absent: &str) -> IndexedPath {
        absent.clone_into(&mut self.absent);
        self
    }

    /// The path, of which the caller knows that each [`Step::Each`] is an element of a list.
    pub fn with_lists(mut self) -> IndexedPath {
        self.has_lists = true;
        self
    }
}

/// What an index has.
#[derive(Clone, Debug, Default)]
pub struct Indexed {
    /// Its paths, besides the name, the namespace and the labels, which each index has.
    pub paths: Vec<IndexedPath>,
    /// Whether the objects are in namespaces. Otherwise the namespace is not used.
    pub is_namespaced: bool,
    /// Whether an expression must not use the labels of the index, because it does not see all labels.
    pub lacks_labels: bool,
}

/// Bounds of the objects for which an expression is true, and of those for which it is false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The objects for which it is true.
    pub when_true: SetBounds,
    /// The objects for which it is false.
    pub when_false: SetBounds,
}

impl Plan {
    /// The plan of an expression about which nothing is known: all objects must be evaluated.
    fn unknown() -> Plan {
        Plan { when_true: SetBounds::unknown(), when_false: SetBounds::unknown() }
    }

    /// The objects for which the expression is an error: those for which it is neither true nor false.
    pub fn when_error(&self) -> SetBounds {
        SetBounds::any_of(&[self.when_true.clone(), self.when_false.clone()]).negated()
    }

    /// The plan of the negated expression.
    fn negated(self) -> Plan {
        Plan { when_true: self.when_false, when_false: self.when_true }
    }
}

/// The plan of an expression by what an index has.
pub(super) fn analyze(program: &CelProgram, indexed: &Indexed) -> Plan {
    Planner { program, indexed, parts: Cell::new(MOST_PARTS_TOGETHER) }.plan(program.ast.root)
}

/// The maximum number of parts of all sets that are made for the plan of an expression: see [`SetBounds::bounded`].
/// Each part takes less than a microsecond. Nodes beyond it are not planned, so more objects are evaluated.
const MOST_PARTS_TOGETHER: usize = 50_000;

/// The planning of one expression.
struct Planner<'a> {
    program: &'a CelProgram,
    indexed: &'a Indexed,
    /// The number of parts that the sets of further nodes may have together.
    parts: Cell<usize>,
}

/// A value of the object that an index has.
struct Place<'a> {
    /// What the index has: the name, the namespace, a label or an indexed path.
    subject: Subject,
    kind: IndexedKind,
    /// The text in the index if the value is absent or blank.
    absent: &'a str,
    /// Whether each object has the value, by its schema.
    is_certain: bool,
    /// Whether the value can be blank (null or the empty text), or the index has its text for absent values from a
    /// default.
    can_be_blank: bool,
}

/// The macro around an expression: the index of its variable ([`Meaning::Variable`]), and the path of the elements
/// that are the values of the variable. Only macros that are not within other macros are planned, so the index is 0.
struct Scope {
    variable: usize,
    elements: Vec<Step>,
}

impl<'a> Planner<'a> {
    /// The expression of a node.
    fn expr(&self, id: ExprId) -> &'a Expr {
        self.program.ast.expr(id)
    }

    /// The type of the value of a node, by the schema.
    fn kind(&self, id: ExprId) -> &'a CelType {
        &self.program.checked[id.index()].kind
    }

    /// The plan of a node outside of macros. Bounds that are too large are dropped, and nothing is known about a node
    /// after the parts of [`MOST_PARTS_TOGETHER`] are used up.
    fn plan(&self, id: ExprId) -> Plan {
        if self.parts.get() == 0 {
            return Plan::unknown();
        }
        let Plan { when_true, when_false } = self.whole_plan(id);
        let ((when_true, true_parts), (when_false, false_parts)) = (when_true.bounded(), when_false.bounded());
        self.parts.set(self.parts.get().saturating_sub(true_parts.saturating_add(false_parts)));
        Plan { when_true, when_false }
    }

    /// Like [`Planner::plan`], whatever the size of the bounds. The plans of the operands are bounded.
    fn whole_plan(&self, id: ExprId) -> Plan {
        match self.expr(id) {
            Expr::Literal(CelLiteral::Bool(bool)) => {
                let when = |is: bool| SetBounds::exactly(if is { ObjectSet::All } else { ObjectSet::Nothing });
                Plan { when_true: when(*bool), when_false: when(!*bool) }
            }
            Expr::Not(of) => self.plan(*of).negated(),
            // True where all operands are true, and false where one is false, even if another one is an error.
            Expr::And(operands) => {
                let plans: Vec<Plan> = operands.iter().map(|operand| self.plan(*operand)).collect();
                let (when_true, when_false): (Vec<_>, Vec<_>) =
                    plans.into_iter().map(|plan| (plan.when_true, plan.when_false)).unzip();
                Plan { when_true: SetBounds::all_of(&when_true), when_false: SetBounds::any_of(&when_false) }
            }
            Expr::Or(operands) => {
                let plans: Vec<Plan> = operands.iter().map(|operand| self.plan(*operand)).collect();
                let (when_true, when_false): (Vec<_>, Vec<_>) =
                    plans.into_iter().map(|plan| (plan.when_true, plan.when_false)).unzip();
                Plan { when_true: SetBounds::any_of(&when_true), when_false: SetBounds::all_of(&when_false) }
            }
            Expr::Conditional(condition, then, otherwise) => {
                // True where the condition and `then` are true, or the condition is false and `otherwise` is true;
                // false likewise.
                let (condition, then, otherwise) = (self.plan(*condition), self.plan(*then), self.plan(*otherwise));
                let choose = |then: SetBounds, otherwise: SetBounds| {
                    let chosen = SetBounds::all_of(&[condition.when_true.clone(), then]);
                    SetBounds::any_of(&[chosen, SetBounds::all_of(&[condition.when_false.clone(), otherwise])])
                };
                Plan {
                    when_true: choose(then.when_true, otherwise.when_true),
                    when_false: choose(then.when_false, otherwise.when_false),
                }
            }
            Expr::Binary(BinaryOperator::NotEqual, left, right) => {
                self.compare(BinaryOperator::Equal, *left, *right).negated()
            }
            Expr::Binary(operator, left, right) => self.compare(*operator, *left, *right),
            Expr::Has { of, field } => self.has(id, *of, field),
            Expr::Call { target: Some(target), arguments, .. } => {
                match (self.prefix(id, arguments), self.place(*target)) {
                    (Some(prefix), Some(place)) if place.kind == IndexedKind::Text => {
                        // The text of absent values can begin with the prefix: it may be the default of a field.
                        let holds_on_blank = place.absent.starts_with(prefix);
                        leaf_plan(&place, IndexTest::StartsWith(prefix.to_owned()), holds_on_blank)
                    }
                    _ => Plan::unknown(),
                }
            }
            Expr::Name(_) | Expr::Select { .. } | Expr::Index { .. } => self.boolean(id),
            Expr::Fold { kind, range, variables, filter: Some(filter), .. } if variables.len() == 1 => {
                self.fold(*kind, *range, *filter)
            }
            Expr::Literal(_)
            | Expr::Call { .. }
            | Expr::List(_)
            | Expr::Map(_)
            | Expr::Negate(_)
            | Expr::Fold { .. }
            | Expr::OptionalMap { .. } => Plan::unknown(),
        }
    }

    /// The plan of a path that is the whole condition, such as `self.spec.paused`. Known for indexed booleans only.
    fn boolean(&self, id: ExprId) -> Plan {
        match self.place(id) {
            Some(place) if place.kind == IndexedKind::Boolean && place.absent.is_empty() => {
                let texts = |text: &str| {
                    SetBounds::exactly(ObjectSet::leaf(place.subject.clone(), IndexTest::In([text.to_owned()].into())))
                };
                Plan { when_true: texts("true"), when_false: texts("false") }
            }
            _ => Plan::unknown(),
        }
    }

    /// The argument of `startsWith`; `None` if the node `id` calls another function, or if the argument is not a
    /// literal or is empty.
    fn prefix(&self, id: ExprId, arguments: &[ExprId]) -> Option<&'a str> {
        match (&self.program.checked[id.index()].meaning, arguments) {
            (Meaning::Call { function: Function::StartsWith, .. }, [argument]) => match self.expr(*argument) {
                Expr::Literal(CelLiteral::Text(text)) if !text.is_empty() => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    /// The plan of a comparison of an indexed value with literals, in any order of the operands. Nothing is known about
    /// other comparisons.
    fn compare(&self, operator: BinaryOperator, left: ExprId, right: ExprId) -> Plan {
        if operator == BinaryOperator::In
            && let Some(plan) = self.contains(left, right)
        {
            return plan;
        }
        let Some((place, operator, other)) = self.sides(operator, left, right, |id| self.place(id)) else {
            return Plan::unknown();
        };
        match self.test(operator, other, place.kind, &place) {
            // `x in []` is false even without `x`, so the bounds for absent values do not hold.
            Some((IndexTest::In(values), _)) if values.is_empty() => Plan::unknown(),
            Some((test, holds_on_blank)) => leaf_plan(&place, test, holds_on_blank),
            None => Plan::unknown(),
        }
    }

    /// Finds the operand of a comparison that has a place, by the function `place`. Returns the place, the operator as
    /// if this operand was the left one, and the node of the other operand. `None` if neither operand has a place, or
    /// if only the right one has and the operator cannot be turned round.
    fn sides<P>(
        &self,
        operator: BinaryOperator,
        left: ExprId,
        right: ExprId,
        place: impl Fn(ExprId) -> Option<P>,
    ) -> Option<(P, BinaryOperator, ExprId)> {
        use BinaryOperator as B;
        if let Some(found) = place(left) {
            return Some((found, operator, right));
        }
        let turned = match operator {
            B::Equal => B::Equal,
            B::Less => B::Greater,
            B::LessOrEqual => B::GreaterOrEqual,
            B::Greater => B::Less,
            B::GreaterOrEqual => B::LessOrEqual,
            B::NotEqual | B::In | B::Add | B::Subtract | B::Multiply | B::Divide | B::Remainder => return None,
        };
        place(right).map(|found| (found, turned, left))
    }

    /// The test in the index for `place operator other`, and whether the text of absent values passes it. `None` if an
    /// index cannot test it: `other` is not a literal or a list of literals, or has another type than the place.
    fn test(
        &self,
        operator: BinaryOperator,
        other: ExprId,
        kind: IndexedKind,
        place: &Place<'_>,
    ) -> Option<(IndexTest, bool)> {
        use BinaryOperator as B;
        let literals: Vec<&CelLiteral> = match (operator, self.expr(other)) {
            (B::In, Expr::List(elements)) => {
                let literal = |(id, is_optional): &(ExprId, bool)| match self.expr(*id) {
                    Expr::Literal(literal) if !is_optional => Some(literal),
                    _ => None,
                };
                elements.iter().map(literal).collect::<Option<_>>()?
            }
            (B::Equal | B::Less | B::LessOrEqual | B::Greater | B::GreaterOrEqual, Expr::Literal(literal)) => {
                vec![literal]
            }
            _ => return None,
        };
        if let (
            B::Less | B::LessOrEqual | B::Greater | B::GreaterOrEqual,
            IndexedKind::Integer,
            [CelLiteral::Int(bound)],
        ) = (operator, kind, &literals[..])
        {
            // The index could not tell an absent value from this integer. No known index has such a text.
            if place.absent.parse::<i64>().is_ok() {
                return None;
            }
            // No integer is below the least one: such a comparison is not tested.
            let test = match operator {
                B::Less => IndexTest::AtMost(bound.checked_sub(1)?),
                B::LessOrEqual => IndexTest::AtMost(*bound),
                B::Greater => IndexTest::AtLeast(bound.checked_add(1)?),
                _ => IndexTest::AtLeast(*bound),
            };
            return Some((test, false));
        }
        if !matches!(operator, B::Equal | B::In) {
            return None;
        }
        // The empty text, and the text of absent values, are one text in the index.
        let mut holds_on_blank = false;
        let mut values = Vec::with_capacity(literals.len());
        for literal in literals {
            let text = match (literal, kind) {
                (CelLiteral::Text(text), IndexedKind::Text) => text.to_string(),
                (CelLiteral::Int(int), IndexedKind::Integer) => int.to_string(),
                (CelLiteral::Bool(bool), IndexedKind::Boolean) => bool.to_string(),
                _ => return None,
            };
            if text.is_empty() || text == place.absent {
                holds_on_blank = true;
                values.push(place.absent.to_owned());
            } else {
                values.push(text);
            }
        }
        values.sort_unstable();
        values.dedup();
        Some((IndexTest::In(values.into()), holds_on_blank))
    }

    /// The plan of `left in right`, where `left` is a literal, and `right` is an indexed list or
    /// `self.metadata.labels`. `None` for other operands.
    fn contains(&self, left: ExprId, right: ExprId) -> Option<Plan> {
        let Expr::Literal(literal) = self.expr(left) else { return None };
        let mut steps = self.steps(right, None)?;
        if let (CelLiteral::Text(key), Some(())) = (literal, is_labels(&steps)) {
            return (!self.indexed.lacks_labels).then(|| label_exists(key));
        }
        steps.push(Step::Each);
        let (subject, path) = self.field(&steps)?;
        // `in` a map tests its keys, and the index has its values.
        if !(path.has_lists || matches!(self.kind(right), CelType::List(_))) {
            return None;
        }
        let place = Place { subject, kind: path.kind, absent: &path.absent, is_certain: false, can_be_blank: true };
        let text = match (literal, path.kind) {
            (CelLiteral::Text(text), IndexedKind::Text) if !text.is_empty() && **text != path.absent => {
                text.to_string()
            }
            (CelLiteral::Int(int), IndexedKind::Integer) => int.to_string(),
            _ => return Some(Plan::unknown()),
        };
        let found = SetBounds::exactly(ObjectSet::leaf(place.subject, IndexTest::In([text].into())));
        Some(Plan { when_false: found.clone().negated().at_most(), when_true: found })
    }

    /// The plan of `has(of.field)`. It is true for null and for the empty text, which the index does not distinguish
    /// from an absent value.
    fn has(&self, id: ExprId, of: ExprId, field: &Arc<str>) -> Plan {
        let Some(mut steps) = self.steps(of, None) else { return Plan::unknown() };
        steps.push(Step::Key(self.program.key_of(id, field)));
        if let [.., Step::Key(key)] = &steps[..]
            && is_labels(&steps[..steps.len() - 1]).is_some()
        {
            return if self.indexed.lacks_labels { Plan::unknown() } else { label_exists(key) };
        }
        let Some((subject, path)) = self.field(&steps) else { return Plan::unknown() };
        // The objects in which the value is absent or blank, by the index.
        let blank = ObjectSet::leaf(subject, IndexTest::In([path.absent.clone()].into()));
        let can_be_blank = !path.absent.is_empty() || self.member_can_be_blank(of, field);
        let present = blank.clone().negated();
        Plan {
            when_true: SetBounds {
                at_least: present.clone(),
                at_most: if can_be_blank { ObjectSet::All } else { present },
            },
            when_false: SetBounds {
                // If `of` is absent, `has` is an error instead of false.
                at_least: if can_be_blank || !self.is_certain(of) { ObjectSet::Nothing } else { blank.clone() },
                at_most: blank,
            },
        }
    }

    /// The plan of `exists` and `all` over the elements of a list. Nothing is known about other macros. The opposite
    /// result has only an upper bound: without the list, the macro is an error, and so it can be if a condition fails.
    fn fold(&self, kind: FoldKind, range: ExprId, filter: ExprId) -> Plan {
        let Some(mut elements) = self.steps(range, None) else { return Plan::unknown() };
        elements.push(Step::Each);
        // A macro over a map has its keys as elements, and the index has its values.
        let has_lists = matches!(self.kind(range), CelType::List(_))
            || self.indexed.paths.iter().any(|path| path.has_lists && path.steps.starts_with(&elements));
        if !has_lists {
            return Plan::unknown();
        }
        let scope = Scope { variable: 0, elements };
        match kind {
            FoldKind::Exists => {
                let found = self.some(filter, true, &scope);
                Plan { when_false: found.clone().negated().at_most(), when_true: found }
            }
            FoldKind::All => {
                let found = self.some(filter, false, &scope);
                Plan { when_true: found.clone().negated().at_most(), when_false: found }
            }
            FoldKind::ExistsOne
            | FoldKind::Map
            | FoldKind::Filter
            | FoldKind::TransformMap
            | FoldKind::TransformMapEntry
            | FoldKind::SortBy => Plan::unknown(),
        }
    }

    /// Bounds of the objects with some element for which the condition `id` is `wanted` (true or false).
    fn some(&self, id: ExprId, wanted: bool, scope: &Scope) -> SetBounds {
        use BinaryOperator as B;
        match self.expr(id) {
            Expr::Not(of) => self.some(*of, !wanted, scope),
            Expr::And(operands) | Expr::Or(operands) => {
                let found: Vec<SetBounds> = operands.iter().map(|operand| self.some(*operand, wanted, scope)).collect();
                // One operand decides a true `||` and a false `&&`. Otherwise all operands must be `wanted` for the
                // same element. The index only tells that each is for some element, which is an upper bound.
                let is_decided_by_one = matches!(self.expr(id), Expr::Or(_)) == wanted;
                if is_decided_by_one { SetBounds::any_of(&found) } else { SetBounds::all_of(&found).at_most() }
            }
            Expr::Binary(B::NotEqual, left, right) => self.some_compares(B::Equal, *left, *right, !wanted, scope),
            Expr::Binary(operator, left, right) => self.some_compares(*operator, *left, *right, wanted, scope),
            Expr::Call { target: Some(target), arguments, .. } if wanted => {
                match (self.prefix(id, arguments), self.element(*target, scope)) {
                    (Some(prefix), Some(place))
                        if place.kind == IndexedKind::Text && !place.absent.starts_with(prefix) =>
                    {
                        SetBounds::exactly(ObjectSet::leaf(place.subject, IndexTest::StartsWith(prefix.to_owned())))
                    }
                    _ => SetBounds::unknown(),
                }
            }
            _ => SetBounds::unknown(),
        }
    }

    /// Bounds of the objects with some element for which the comparison is `wanted`. See [`Planner::some`].
    fn some_compares(
        &self,
        operator: BinaryOperator,
        left: ExprId,
        right: ExprId,
        wanted: bool,
        scope: &Scope,
    ) -> SetBounds {
        use BinaryOperator as B;
        let sides = self.sides(operator, left, right, |id| self.element(id, scope));
        let Some((place, operator, other)) = sides else { return SetBounds::unknown() };
        // A comparison that must be false is the opposite one that must be true. The opposite of `==` and `in` is not
        // planned.
        let operator = match (operator, wanted) {
            (operator, true) => operator,
            (B::Less, false) => B::GreaterOrEqual,
            (B::LessOrEqual, false) => B::Greater,
            (B::Greater, false) => B::LessOrEqual,
            (B::GreaterOrEqual, false) => B::Less,
            (_, false) => return SetBounds::unknown(),
        };
        match self.test(operator, other, place.kind, &place) {
            Some((test, false)) => SetBounds::exactly(ObjectSet::leaf(place.subject, test)),
            _ => SetBounds::unknown(),
        }
    }

    /// The place of a value within each element of the macro's range; `None` if no index has it.
    fn element(&self, id: ExprId, scope: &Scope) -> Option<Place<'a>> {
        let steps = self.steps(id, Some(scope))?;
        if !steps.contains(&Step::Each) {
            return None;
        }
        let (subject, path) = self.field(&steps)?;
        Some(Place { subject, kind: path.kind, absent: &path.absent, is_certain: false, can_be_blank: true })
    }

    /// The place of a value of the object, outside of macros; `None` if no index has it.
    fn place(&self, id: ExprId) -> Option<Place<'a>> {
        let steps = self.steps(id, None)?;
        // Each object has a name, and each namespaced one has a namespace; neither is blank. Labels get the same flags,
        // but `leaf_plan` uses neither of them for a label: the index knows which labels are absent, and stores empty
        // ones.
        let exact =
            |subject| Place { subject, kind: IndexedKind::Text, absent: "", is_certain: true, can_be_blank: false };
        // Outside of macros, all steps are keys.
        let keys: Vec<&str> =
            steps.iter().filter_map(|step| if let Step::Key(key) = step { Some(&**key) } else { None }).collect();
        match &keys[..] {
            ["metadata", "name"] => return Some(exact(Subject::Name)),
            ["metadata", "namespace"] if self.indexed.is_namespaced => return Some(exact(Subject::Namespace)),
            ["metadata", "labels", _] if self.indexed.lacks_labels => return None,
            ["metadata", "labels", key] => return Some(exact(Subject::Label((*key).to_owned()))),
            _ => {}
        }
        let (subject, path) = self.field(&steps)?;
        // The schema states only for a member of a declared object whether it can be blank.
        let can_be_blank = match self.expr(id) {
            Expr::Select { of, field, .. } => self.member_can_be_blank(*of, field),
            _ => true,
        };
        // A text of absent values that is not empty is a default. Objects whose value is the default have this text
        // too, so it does not mean that the value is absent.
        let can_be_blank = can_be_blank || !path.absent.is_empty();
        Some(Place { subject, kind: path.kind, absent: &path.absent, is_certain: self.is_certain(id), can_be_blank })
    }

    /// The indexed path with these steps; `None` if the index does not have it.
    fn field(&self, steps: &[Step]) -> Option<(Subject, &'a IndexedPath)> {
        let found = self.indexed.paths.iter().enumerate().find(|(_, path)| path.steps == steps);
        found.map(|(index, path)| (Subject::Field(index), path))
    }

    /// The path from the object to the value of an expression. `scope`: the macro around the expression, whose variable
    /// has the elements of its range as values. `None` if the expression is not a chain of selections and literal keys
    /// from `self` or from the variable, or if a step is optional.
    fn steps(&self, id: ExprId, scope: Option<&Scope>) -> Option<Vec<Step>> {
        match self.expr(id) {
            Expr::Name(_) => match (&self.program.checked[id.index()].meaning, scope) {
                (Meaning::Object, _) => Some(Vec::new()),
                (Meaning::Variable(index), Some(scope)) if *index == scope.variable => Some(scope.elements.clone()),
                _ => None,
            },
            Expr::Select { of, field, is_optional: false } => {
                if matches!(self.program.checked[id.index()].meaning, Meaning::Type(_)) {
                    return None;
                }
                let mut steps = self.steps(*of, scope)?;
                steps.push(Step::Key(self.program.key_of(id, field)));
                Some(steps)
            }
            Expr::Index { of, key, is_optional: false } => match self.expr(*key) {
                Expr::Literal(CelLiteral::Text(key)) => {
                    let mut steps = self.steps(*of, scope)?;
                    steps.push(Step::Key(key.clone()));
                    Some(steps)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether each object that conforms to its schema has the value of an expression: each selection names a required
    /// member that cannot be null.
    fn is_certain(&self, id: ExprId) -> bool {
        match self.expr(id) {
            Expr::Name(_) => matches!(self.program.checked[id.index()].meaning, Meaning::Object),
            Expr::Select { of, field, is_optional: false } => match self.kind(*of) {
                CelType::Object(object) => {
                    let is_required = |property: &super::types::Property| property.is_required && !property.is_nullable;
                    object.member(field).is_some_and(|(_, property)| is_required(property)) && self.is_certain(*of)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether the member `of.field` can be null or the empty text, by its schema. True if its type is not known.
    fn member_can_be_blank(&self, of: ExprId, field: &str) -> bool {
        let CelType::Object(object) = self.kind(of) else { return true };
        object.member(field).is_none_or(|(_, property)| {
            property.is_nullable
                || match property.kind {
                    CelType::Text { shortest, .. } => shortest == 0,
                    CelType::Int | CelType::Bool => false,
                    _ => true,
                }
        })
    }
}

/// `Some` if the path is `metadata.labels`.
fn is_labels(steps: &[Step]) -> Option<()> {
    match steps {
        [Step::Key(metadata), Step::Key(labels)] if &**metadata == "metadata" && &**labels == "labels" => Some(()),
        _ => None,
    }
}

/// The plan of a test that a label exists. In an object without any labels, the test is an error instead of false, so
/// false has only an upper bound.
fn label_exists(key: &str) -> Plan {
    let exists = SetBounds::exactly(ObjectSet::leaf(Subject::Label(key.to_owned()), IndexTest::Exists));
    Plan { when_false: exists.clone().negated().at_most(), when_true: exists }
}

/// The plan of a test of one value. `holds_on_blank`: the text of absent values passes the test. The expression is an
/// error where the value is absent, and can be true or false where it is blank.
fn leaf_plan(place: &Place<'_>, test: IndexTest, holds_on_blank: bool) -> Plan {
    // The objects whose text in the index passes the test, and the others.
    let passed = ObjectSet::leaf(place.subject.clone(), test);
    let failed = passed.clone().negated();
    if let Subject::Label(key) = &place.subject {
        // The index knows which labels are absent, so the objects with an error are known.
        let exists = ObjectSet::leaf(Subject::Label(key.clone()), IndexTest::Exists);
        let when_false = SetBounds::exactly(ObjectSet::all_of([exists, failed]));
        return Plan { when_true: SetBounds::exactly(passed), when_false };
    }
    if place.is_certain && !place.can_be_blank {
        return Plan { when_true: SetBounds::exactly(passed), when_false: SetBounds::exactly(failed) };
    }
    // The objects whose value is neither absent nor blank.
    let present = ObjectSet::leaf(place.subject.clone(), IndexTest::In([place.absent.to_owned()].into())).negated();
    let without_blank = |set: ObjectSet| ObjectSet::all_of([set, present.clone()]);
    if holds_on_blank {
        // The objects with the text of absent values pass the test in the index. The expression can be true, false or
        // an error for them.
        let certainly = without_blank(passed.clone());
        Plan {
            when_false: SetBounds { at_least: without_blank(failed), at_most: certainly.clone().negated() },
            when_true: SetBounds { at_least: certainly, at_most: passed },
        }
    } else {
        // If the value cannot be blank, the text of absent values means that the value is absent, which is an error.
        let at_least = without_blank(failed.clone());
        let at_most = if place.can_be_blank { failed } else { at_least.clone() };
        Plan { when_true: SetBounds::exactly(passed), when_false: SetBounds { at_least, at_most } }
    }
}
