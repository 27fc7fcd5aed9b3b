//! Names and types: which function each call is, which variable each name is, and whether the types fit.
//!
//! The rules are those of cel-go's checker with the options of Kubernetes: numbers of different types can be ordered,
//! but not tested for equality; the elements of a list literal have one type. Where a type is not known, the check is
//! left to the evaluation. The first error is reported; kube-apiserver reports all.

use std::fmt::Write as _;
use std::sync::Arc;

use super::ast::{Ast, BinaryOperator, CelLiteral, Expr, ExprId, FoldKind};
use super::error::CelError;
use super::function::{Function, NoOverload, is_global, resolve};
use super::lex::excerpt;
use super::pattern::{self, ParsedPattern, Pattern};
use super::text_format::{self, ClauseKind, FormatPart};
use super::time;
use super::types::{CelType, ObjectType};

/// The result of the check for one node.
#[derive(Clone, Debug)]
pub(super) struct CheckedNode {
    /// The type of the value of the node.
    pub(super) kind: CelType,
    pub(super) meaning: Meaning,
}

/// What a name, a selection or a call refers to.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    /// The node needs no meaning besides its expression.
    None,
    /// The name `self`: the object.
    Object,
    /// A name that is a variable of a macro. The number is its index among the variables of the macros around the name,
    /// from the outermost.
    Variable(usize),
    /// A name, or a chain of selections such as `net.IP`, that is a type as a value.
    Type(&'static str),
    /// The JSON key of the member that a selection names, if the expression escapes the name: see
    /// [`ObjectType::member`].
    Key(Arc<str>),
    /// A list literal whose elements are literals too, and not optional.
    Literals,
    /// A call of this function. Its target is the first argument if `has_target`; otherwise the target is only a part
    /// of the name, as in `sets.contains(a, b)`. `pattern`: the compiled pattern, if the function matches one and it is
    /// a literal.
    Call { function: Function, has_target: bool, pattern: Option<Pattern> },
}

/// The name of the variable that holds the object.
pub(super) const SELF: &str = "self";

/// Checks a tree, in which `self` has the type `object`. The result has an element for each node, by its number.
///
/// # Errors
/// An unknown name, types that do not fit, an invalid pattern, time or format, or a result that is not a boolean.
pub(super) fn check(ast: &Ast, object: &CelType) -> Result<Vec<CheckedNode>, CelError> {
    let unchecked = CheckedNode { kind: CelType::Dyn, meaning: Meaning::None };
    let mut checker = Checker {
        ast,
        object,
        variables: Vec::new(),
        formats: 0,
        checked: vec![unchecked; ast.len()],
        patterns: pattern::MAX_STATES_TOGETHER,
    };
    let kind = checker.kind(ast.root)?;
    if !matches!(kind, CelType::Bool | CelType::Dyn) {
        return Err(checker.error(ast.root, format!("must evaluate to bool, but evaluates to {kind}")));
    }
    Ok(checker.checked)
}

/// A check in progress. It walks the tree from the root down.
struct Checker<'a> {
    ast: &'a Ast,
    /// The type of `self`.
    object: &'a CelType,
    /// The variables of the macros around the current node, with their types, from the outermost.
    variables: Vec<(Arc<str>, CelType)>,
    /// The number of calls of `format` around the current node. Lists in their arguments may have elements of different
    /// types.
    formats: usize,
    /// The results so far; the initial value for nodes that have not been checked.
    checked: Vec<CheckedNode>,
    /// The work of compiling literal patterns that is left for this expression, in states: see [`ParsedPattern::work`].
    patterns: u64,
}

/// The maximum number of arguments whose types an error names. No function has as many.
const MOST_ARGUMENTS: usize = 10;

/// The names of types that an expression can use as values, as in `type(a) == int`. [`Checker::select`] has the others.
const TYPES: [&str; 11] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type"];

impl Checker<'_> {
    /// The error at the position of a node.
    fn error(&self, id: ExprId, message: impl Into<String>) -> CelError {
        CelError::at(&self.ast.text, self.ast.node(id).position, message)
    }

    /// The error for a call or an operator without an overload for these types. `types` has the target first if the
    /// function `is_method`.
    fn no_overload(&self, id: ExprId, name: &str, is_method: bool, types: &[&CelType]) -> CelError {
        let mut signature = String::new();
        let (target, arguments) = if is_method { types.split_at(1.min(types.len())) } else { types.split_at(0) };
        for target in target {
            // Writing to a String does not fail.
            let _ = write!(signature, "{target}.");
        }
        let mut shown: Vec<String> = arguments.iter().take(MOST_ARGUMENTS).map(ToString::to_string).collect();
        if arguments.len() > MOST_ARGUMENTS {
            shown.push("...".to_owned());
        }
        let _ = write!(signature, "({})", shown.join(", "));
        self.error(id, format!("found no matching overload for '{name}' applied to '{signature}'"))
    }

    /// The error for a member that the type of an object does not declare. It suggests a similar name if there is one.
    fn undefined(&self, id: ExprId, object: &ObjectType, field: &str) -> CelError {
        let field = excerpt(field);
        self.error(
            id,
            match object.nearest(&field) {
                Some(nearest) => format!("undefined field '{field}', did you mean '{nearest}'?"),
                None => format!("undefined field '{field}'"),
            },
        )
    }

    /// Records the meaning of a node.
    fn mean(&mut self, id: ExprId, meaning: Meaning) {
        self.checked[id.index()].meaning = meaning;
    }

    /// Checks a node and the nodes below it. Records the type of the node and returns it. The recursion is bounded: the
    /// tree has at most [`super::parse::MAX_LEVELS`] levels.
    fn kind(&mut self, id: ExprId) -> Result<CelType, CelError> {
        let kind = self.kind_of(id)?;
        self.checked[id.index()].kind = kind.clone();
        Ok(kind)
    }

    /// Like [`Checker::kind`], but does not record the type of the node itself.
    fn kind_of(&mut self, id: ExprId) -> Result<CelType, CelError> {
        let ast = self.ast;
        match ast.expr(id) {
            Expr::Literal(literal) => Ok(literal_type(literal)),
            Expr::Name(name) => self.name(id, name),
            Expr::Select { of, field, is_optional } => self.select(id, *of, field, *is_optional),
            Expr::Has { of, field } => {
                self.select(id, *of, field, false)?;
                Ok(CelType::Bool)
            }
            Expr::Index { of, key, is_optional } => self.index(id, *of, *key, *is_optional),
            Expr::Call { function, target, arguments } => self.call(id, function, *target, arguments),
            Expr::List(elements) => self.list(id, elements),
            Expr::Map(entries) => self.map(entries),
            Expr::Not(of) => {
                self.operand_of(id, "!_", *of)?;
                Ok(CelType::Bool)
            }
            Expr::Negate(of) => match self.kind(*of)? {
                kind @ (CelType::Int | CelType::Double | CelType::Dyn) => Ok(kind),
                kind => Err(self.no_overload(id, "-_", false, &[&kind])),
            },
            Expr::And(operands) | Expr::Or(operands) => self.logical(operands),
            Expr::Binary(operator, left, right) => self.binary(id, *operator, *left, *right),
            Expr::Conditional(condition, then, otherwise) => {
                let condition = self.kind(*condition)?;
                let then = self.kind(*then)?;
                let otherwise = self.kind(*otherwise)?;
                match then.join(&otherwise) {
                    Some(joined) if condition.accepts(&CelType::Bool) => Ok(joined),
                    _ => Err(self.no_overload(id, "_?_:_", false, &[&condition, &then, &otherwise])),
                }
            }
            Expr::Fold { kind, range, variables, filter, result } => {
                self.fold(*kind, *range, variables, *filter, *result)
            }
            Expr::OptionalMap { target, variable, body, is_flat } => {
                let inner = match self.kind(*target)? {
                    CelType::Optional(optional) => optional.of.clone(),
                    CelType::Dyn => CelType::Dyn,
                    found => {
                        let name = if *is_flat { "optFlatMap" } else { "optMap" };
                        return Err(self.no_overload(id, name, true, &[&found]));
                    }
                };
                self.variables.push((variable.clone(), inner));
                let body = self.kind(*body)?;
                self.variables.pop();
                match body {
                    body if !*is_flat => Ok(CelType::optional(body)),
                    body @ (CelType::Optional(_) | CelType::Dyn) => Ok(body),
                    body => Err(self.no_overload(id, "optFlatMap", true, &[&body])),
                }
            }
        }
    }

    /// Checks an operand, which must be a boolean or dynamic. `id` is the node of the operator, for the error.
    fn operand_of(&mut self, id: ExprId, operator: &str, operand: ExprId) -> Result<(), CelError> {
        let kind = self.kind(operand)?;
        if kind.accepts(&CelType::Bool) { Ok(()) } else { Err(self.no_overload(id, operator, false, &[&kind])) }
    }

    /// Checks the operands of `&&` or `||`, which must be booleans or dynamic. The result is a boolean.
    fn logical(&mut self, operands: &[ExprId]) -> Result<CelType, CelError> {
        for operand in operands {
            let kind = self.kind(*operand)?;
            if !kind.accepts(&CelType::Bool) {
                return Err(self.error(*operand, format!("expected type 'bool' but found '{kind}'")));
            }
        }
        Ok(CelType::Bool)
    }

    /// Finds what a name refers to: the innermost variable of a macro with this name, `self`, or a type. A name with a
    /// point in front (`.name`) does not refer to a variable of a macro.
    fn name(&mut self, id: ExprId, name: &str) -> Result<CelType, CelError> {
        let plain = name.strip_prefix('.');
        if plain.is_none()
            && let Some(variable) = self.variables.iter().rposition(|(found, _)| **found == *name)
        {
            self.mean(id, Meaning::Variable(variable));
            return Ok(self.variables[variable].1.clone());
        }
        let name = plain.unwrap_or(name);
        if name == SELF {
            self.mean(id, Meaning::Object);
            return Ok(self.object.clone());
        }
        match TYPES.iter().find(|found| **found == name) {
            Some(found) => {
                self.mean(id, Meaning::Type(found));
                Ok(CelType::Type)
            }
            None => Err(self.error(id, format!("undeclared reference to '{name}' (in container '')"))),
        }
    }

    /// The text of a name with points, such as `google.protobuf.Timestamp`: a name and the selections from it. `None`
    /// for other expressions, and if the first name is `self` or a variable of a macro.
    fn qualified(&self, id: ExprId) -> Option<String> {
        match self.ast.expr(id) {
            Expr::Name(name) if **name != *SELF && !self.variables.iter().any(|(found, _)| found == name) => {
                Some(name.trim_start_matches('.').to_owned())
            }
            Expr::Select { of, field, is_optional: false } => Some(format!("{}.{field}", self.qualified(*of)?)),
            _ => None,
        }
    }

    /// Checks `of.field`, or `of.?field` if it is optional, and returns the type of the member. `id` is also the node
    /// of `has(of.field)`.
    fn select(&mut self, id: ExprId, of: ExprId, field: &Arc<str>, is_optional: bool) -> Result<CelType, CelError> {
        // The types that are values, and whose names have points.
        const NAMED: [&str; 4] = ["google.protobuf.Timestamp", "google.protobuf.Duration", "net.IP", "net.CIDR"];
        if let Some(name) = self.qualified(of)
            && let Some(found) = NAMED.iter().find(|found| **found == format!("{name}.{field}"))
        {
            self.mean(id, Meaning::Type(found));
            return Ok(CelType::Type);
        }
        let whole = self.kind(of)?;
        // A member of an optional value is an optional value.
        let (target, was_optional) = match &whole {
            CelType::Optional(optional) => (&optional.of, true),
            kind => (kind, false),
        };
        let kind = match target {
            CelType::Dyn => CelType::Dyn,
            CelType::Map(map) => map.value.clone(),
            CelType::Object(object) => match object.member(field) {
                Some((key, property)) => {
                    if key != &**field {
                        self.mean(id, Meaning::Key(key.into()));
                    }
                    property.kind.clone()
                }
                None if object.is_open() => CelType::Dyn,
                None => return Err(self.undefined(id, object, field)),
            },
            found => return Err(self.error(id, format!("type '{found}' does not support field selection"))),
        };
        Ok(if is_optional || was_optional { optional_of(kind) } else { kind })
    }

    /// Checks `of[key]`, or `of[?key]` if it is optional, and returns the type of the element or member.
    fn index(&mut self, id: ExprId, of: ExprId, key: ExprId, is_optional: bool) -> Result<CelType, CelError> {
        let whole = self.kind(of)?;
        let literal = match self.ast.expr(key) {
            Expr::Literal(CelLiteral::Text(text)) => Some(text),
            _ => None,
        };
        let key = self.kind(key)?;
        let (target, was_optional) = match &whole {
            CelType::Optional(optional) => (&optional.of, true),
            kind => (kind, false),
        };
        let kind = match target {
            // As in cel-go, an index of null is valid here, and the evaluation fails.
            CelType::Dyn | CelType::Null => CelType::Dyn,
            // The index of a list must be an integer or dynamic. A dynamic one can be any number in the evaluation.
            CelType::List(list) if key.accepts(&CelType::Int) => list.element.clone(),
            CelType::Map(map) if map.key.accepts(&key) => map.value.clone(),
            // Objects are maps in the evaluation.
            CelType::Object(object) if key.accepts(&CelType::TEXT) => match literal {
                None => CelType::Dyn,
                Some(field) => object.type_at(field).ok_or_else(|| self.undefined(id, object, field))?,
            },
            _ => {
                let name = if is_optional { "_[?_]" } else { "_[_]" };
                return Err(self.no_overload(id, name, false, &[&whole, &key]));
            }
        };
        Ok(if is_optional || was_optional { optional_of(kind) } else { kind })
    }

    /// Checks a list literal. Its elements have one type, except in the arguments of `format`.
    fn list(&mut self, id: ExprId, elements: &[(ExprId, bool)]) -> Result<CelType, CelError> {
        let ast = self.ast;
        if elements.iter().all(|(element, is_optional)| !is_optional && matches!(ast.expr(*element), Expr::Literal(_)))
        {
            self.mean(id, Meaning::Literals);
        }
        let mut joined: Option<CelType> = None;
        for (element, is_optional) in elements {
            let kind = self.entry(*element, *is_optional)?;
            joined = Some(self.unify(*element, joined, kind)?);
        }
        Ok(CelType::list_of(joined.unwrap_or(CelType::Dyn)))
    }

    /// Checks a map literal. Its keys have one type, and its values have one type, except in the arguments of `format`.
    fn map(&mut self, entries: &[(ExprId, ExprId, bool)]) -> Result<CelType, CelError> {
        let (mut keys, mut values): (Option<CelType>, Option<CelType>) = (None, None);
        for (key, value, is_optional) in entries {
            let kind = self.kind(*key)?;
            keys = Some(self.unify(*key, keys, kind)?);
            let kind = self.entry(*value, *is_optional)?;
            values = Some(self.unify(*value, values, kind)?);
        }
        let (key, value) = (keys.unwrap_or(CelType::Dyn), values.unwrap_or(CelType::Dyn));
        Ok(CelType::map(key, value, Some(entries.len() as u64)))
    }

    /// Checks an element of a list literal or a value of a map literal, and returns its type in the list or map. An
    /// optional one, as in `[?a]`, must be an optional value, and has the type of the content.
    fn entry(&mut self, id: ExprId, is_optional: bool) -> Result<CelType, CelError> {
        match self.kind(id)? {
            kind if !is_optional => Ok(kind),
            CelType::Optional(optional) => Ok(optional.of.clone()),
            CelType::Dyn => Ok(CelType::Dyn),
            kind => Err(self.error(id, format!("expected type 'optional_type({kind})' but found '{kind}'"))),
        }
    }

    /// The common type of an element of type `kind` and of the elements before, whose type is `before` (`None`: it is
    /// the first). List and map literals with elements of different types are an error in Kubernetes. So is null, or an
    /// element of a type that is not known, beside an element of another type. `id` is the element, for the error.
    fn unify(&self, id: ExprId, before: Option<CelType>, kind: CelType) -> Result<CelType, CelError> {
        match before {
            None => Ok(kind),
            Some(before) => match before.join(&kind) {
                // The argument of `format` can have elements of different types.
                Some(joined) if self.formats > 0 || !is_mixed(&before, &kind) => Ok(joined),
                _ if self.formats > 0 => Ok(CelType::Dyn),
                _ => Err(self.error(id, format!("expected type '{before}' but found '{kind}'"))),
            },
        }
    }

    /// Checks an operator and its operands, and returns the type of the result. With a dynamic operand, the result has
    /// the type that all overloads for the other operand have in common, or is dynamic.
    fn binary(
        &mut self,
        id: ExprId,
        operator: BinaryOperator,
        left: ExprId,
        right: ExprId,
    ) -> Result<CelType, CelError> {
        use BinaryOperator as B;
        use CelType as T;
        let left = self.kind(left)?;
        let right = self.kind(right)?;
        // For the checker of cel-go, null can be a timestamp or a duration. So `null + duration` is valid here, and
        // fails in the evaluation.
        let as_time = |kind: &T| if *kind == T::Null { T::Dyn } else { kind.clone() };
        let of_times = match operator {
            B::Add | B::Subtract if is_null_time(&left, &right) => Some((as_time(&left), as_time(&right))),
            _ => None,
        };
        let (left, right) = of_times.unwrap_or((left, right));
        let found = match operator {
            B::Equal | B::NotEqual => left.accepts(&right).then_some(T::Bool),
            B::Less | B::LessOrEqual | B::Greater | B::GreaterOrEqual => {
                let has_order = |kind: &T| {
                    kind.is_number()
                        || matches!(
                            kind,
                            T::Dyn | T::Null | T::Bool | T::Text { .. } | T::Bytes | T::Timestamp | T::Duration
                        )
                };
                let fits = left.accepts(&right) || (left.is_number() && right.is_number());
                (has_order(&left) && has_order(&right) && fits).then_some(T::Bool)
            }
            B::In => match &right {
                T::Dyn => Some(T::Bool),
                T::List(list) => list.element.accepts(&left).then_some(T::Bool),
                T::Map(map) => map.key.accepts(&left).then_some(T::Bool),
                T::Object(_) => left.accepts(&T::TEXT).then_some(T::Bool),
                _ => None,
            },
            B::Add => match (&left, &right) {
                (T::Timestamp, T::Duration | T::Dyn) | (T::Duration | T::Dyn, T::Timestamp) => Some(T::Timestamp),
                (T::Dyn, T::Duration | T::Dyn) | (T::Duration, T::Dyn) => Some(T::Dyn),
                (T::Duration, T::Duration) => Some(T::Duration),
                (T::Text { longest: left, .. }, T::Text { longest: right, .. }) => Some(T::Text {
                    longest: left.zip(*right).map(|(left, right)| left.saturating_add(right)),
                    shortest: 0,
                }),
                (T::List(_), T::List(_)) => left.join(&right),
                _ => same(&left, &right)
                    .filter(|kind| kind.is_number() || matches!(kind, T::Text { .. } | T::Bytes | T::List(_))),
            },
            B::Subtract => match (&left, &right) {
                (T::Timestamp, T::Timestamp) | (T::Duration, T::Duration) => Some(T::Duration),
                (T::Timestamp, T::Duration) => Some(T::Timestamp),
                (T::Timestamp, T::Dyn) | (T::Dyn, T::Duration | T::Dyn) => Some(T::Dyn),
                (T::Dyn, T::Timestamp) | (T::Duration, T::Dyn) => Some(T::Duration),
                _ => same(&left, &right).filter(T::is_number),
            },
            B::Multiply | B::Divide => same(&left, &right).filter(|kind| kind.is_number() || matches!(kind, T::Dyn)),
            B::Remainder => same(&left, &right).filter(|kind| matches!(kind, T::Int | T::Uint | T::Dyn)),
        };
        found.ok_or_else(|| self.no_overload(id, operator.function(), false, &[&left, &right]))
    }

    /// Checks a macro over `range` with one or two variables (`names`), and returns the type of its result. See
    /// [`Expr::Fold`] for the other parameters.
    fn fold(
        &mut self,
        kind: FoldKind,
        range: ExprId,
        names: &[Arc<str>],
        filter: Option<ExprId>,
        result: Option<ExprId>,
    ) -> Result<CelType, CelError> {
        let whole = self.kind(range)?;
        // The types of the first variable, and of the second one if there is one.
        let (first, second) = match &whole {
            CelType::Dyn => (CelType::Dyn, CelType::Dyn),
            CelType::List(list) if names.len() == 2 => (CelType::Int, list.element.clone()),
            CelType::List(list) => (list.element.clone(), CelType::Dyn),
            CelType::Map(map) => (map.key.clone(), map.value.clone()),
            CelType::Object(_) => (CelType::TEXT, CelType::Dyn),
            found => {
                let reason = "cannot be range of a comprehension (must be list, map, or dynamic)";
                return Err(self.error(range, format!("expression of type '{found}' {reason}")));
            }
        };
        let outside = self.variables.len();
        self.variables.extend(names.iter().cloned().zip([first.clone(), second]));
        if let Some(filter) = filter {
            let kind = self.kind(filter)?;
            if !kind.accepts(&CelType::Bool) {
                return Err(self.error(filter, format!("expected type 'bool' but found '{kind}'")));
            }
        }
        let result = match result {
            Some(result) => self.kind(result)?,
            None => CelType::Bool,
        };
        self.variables.truncate(outside);
        let mismatch = |found: &CelType| {
            let message = format!("expression of type '{found}' cannot be the result of this macro");
            Err(self.error(range, message))
        };
        Ok(match kind {
            FoldKind::SortBy if !matches!(whole, CelType::Dyn | CelType::List(_)) => return mismatch(&whole),
            FoldKind::SortBy if !result.is_ordered() => return mismatch(&result),
            FoldKind::SortBy => bounded_list(first, &whole),
            FoldKind::TransformMapEntry => match result {
                entries @ CelType::Map(_) => entries,
                CelType::Dyn | CelType::Object(_) => CelType::map(CelType::Dyn, CelType::Dyn, None),
                result => return mismatch(&result),
            },
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => CelType::Bool,
            FoldKind::Map => bounded_list(result, &whole),
            FoldKind::Filter => bounded_list(first, &whole),
            FoldKind::TransformMap => CelType::map(first, result, most_of(&whole)),
        })
    }

    /// Checks a call, records its function, and returns the type of the result. `name` may have a point in front.
    fn call(
        &mut self,
        id: ExprId,
        name: &Arc<str>,
        target: Option<ExprId>,
        arguments: &[ExprId],
    ) -> Result<CelType, CelError> {
        // `sets.contains(a, b)` is a global function, unless `sets` is a variable.
        let qualified = target.and_then(|target| self.qualified(target)).map(|target| format!("{target}.{name}"));
        let qualified = qualified.filter(|qualified| is_global(qualified));
        let target = if qualified.is_some() { None } else { target };
        let name: &str = qualified.as_deref().unwrap_or_else(|| name.trim_start_matches('.'));
        let mut kinds = Vec::with_capacity(arguments.len() + 1);
        // Within the arguments of `format`, `unify` accepts elements of different types.
        let is_format = usize::from(name == "format");
        self.formats += is_format;
        for argument in target.iter().chain(arguments) {
            kinds.push(self.kind(*argument)?);
        }
        self.formats -= is_format;
        let types: Vec<&CelType> = kinds.iter().collect();
        let (function, kind) = resolve(name, target.is_some(), &types).map_err(|error| match error {
            NoOverload::Unknown => self.error(id, format!("undeclared reference to '{name}' (in container '')")),
            NoOverload::Mismatch => self.no_overload(id, name, target.is_some(), &types),
        })?;
        if let (Function::FormatText, Some(format), [elements]) = (function, target, arguments) {
            self.check_format(id, format, *elements)?;
        }
        let pattern = self.literals(function, target, arguments)?;
        self.mean(id, Meaning::Call { function, has_target: target.is_some(), pattern });
        Ok(kind)
    }

    /// Checks the arguments of `format.format(elements)`, if both the format and the list are literals. Otherwise the
    /// evaluation checks them. `id` is the call, for the error.
    fn check_format(&self, id: ExprId, format: ExprId, elements: ExprId) -> Result<(), CelError> {
        let (Expr::Literal(CelLiteral::Text(text)), Expr::List(elements)) =
            (self.ast.expr(format), self.ast.expr(elements))
        else {
            return Ok(());
        };
        let parts = text_format::parts(text).map_err(|message| self.error(id, message))?;
        let mut rest = elements.iter();
        for part in parts {
            let FormatPart::Clause(clause) = part else { continue };
            let Some((element, _)) = rest.next() else { return Err(self.error(id, "index out of range")) };
            let kind = &self.checked[element.index()].kind;
            if !fits_clause(clause.kind, kind) {
                return Err(self.error(*element, format!("the clause cannot be used on {kind}")));
            }
            if clause.kind == ClauseKind::Text {
                self.check_written(*element)?;
            }
        }
        match rest.next() {
            None => Ok(()),
            Some(_) => Err(self.error(id, "too many arguments supplied to string.format")),
        }
    }

    /// Checks that `%s` can write a value. If the value is a list or map literal, checks its elements, keys and values
    /// too. The recursion is bounded: the tree has at most [`super::parse::MAX_LEVELS`] levels.
    fn check_written(&self, id: ExprId) -> Result<(), CelError> {
        let kind = &self.checked[id.index()].kind;
        if !fits_clause(ClauseKind::Text, kind) {
            return Err(self.error(id, format!("the clause cannot be used on {kind}")));
        }
        match self.ast.expr(id) {
            Expr::List(elements) => elements.iter().try_for_each(|(element, _)| self.check_written(*element)),
            Expr::Map(entries) => entries
                .iter()
                .try_for_each(|(key, value, _)| self.check_written(*key).and_then(|()| self.check_written(*value))),
            _ => Ok(()),
        }
    }

    /// Checks literal arguments that have a syntax of their own: patterns, timestamps and durations. Returns the
    /// compiled pattern; `None` if the function has no pattern, or if its pattern is not a literal.
    fn literals(
        &mut self,
        function: Function,
        target: Option<ExprId>,
        arguments: &[ExprId],
    ) -> Result<Option<Pattern>, CelError> {
        let ast = self.ast;
        // The argument of this number, if it is a string literal. The target is the first argument.
        let text = |index: usize| {
            let id = target.iter().chain(arguments).nth(index)?;
            match ast.expr(*id) {
                Expr::Literal(CelLiteral::Text(text)) => Some((*id, text)),
                _ => None,
            }
        };
        match function {
            Function::Matches | Function::Find | Function::FindAll => {
                let Some((id, text)) = text(1) else { return Ok(None) };
                let compiled = self.compile_pattern(text);
                compiled.map(Some).map_err(|error| self.error(id, format!("invalid matches argument: {error}")))
            }
            Function::ToTimestamp => match text(0) {
                Some((id, text)) if time::parse_timestamp(text).is_none() => {
                    Err(self.error(id, "invalid timestamp argument"))
                }
                _ => Ok(None),
            },
            Function::ToDuration => match text(0) {
                Some((id, text)) if time::parse_duration(text).is_none() => {
                    Err(self.error(id, "invalid duration argument"))
                }
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

impl Checker<'_> {
    /// Compiles a literal pattern.
    ///
    /// # Errors
    /// The pattern is invalid or too large, or too large together with the patterns before it in the expression.
    fn compile_pattern(&mut self, text: &str) -> Result<Pattern, String> {
        let parsed = ParsedPattern::parse(text)?;
        let Some(left) = self.patterns.checked_sub(parsed.work()) else {
            let pattern = super::lex::excerpt(text);
            return Err(format!("the patterns of the expression are too large together, with {pattern:?}"));
        };
        self.patterns = left;
        parsed.compile()
    }
}

/// The optional type of a type; an optional type stays as it is.
fn optional_of(kind: CelType) -> CelType {
    if matches!(kind, CelType::Optional(_)) { kind } else { CelType::optional(kind) }
}

/// Whether a clause of a format can write values of a type. Dynamic values are checked when they are written.
fn fits_clause(clause: ClauseKind, kind: &CelType) -> bool {
    use CelType as T;
    use ClauseKind as K;
    match (clause, kind) {
        (_, T::Dyn) | (K::Decimal | K::Octal | K::Binary | K::Hexadecimal | K::UpperHexadecimal, T::Int | T::Uint) => {
            true
        }
        (K::Binary, T::Bool) => true,
        (K::Hexadecimal | K::UpperHexadecimal, T::Text { .. } | T::Bytes) => true,
        (K::Fixed | K::Scientific, T::Double | T::Text { .. }) => true,
        (K::Text, kind) => {
            !matches!(kind, T::Optional(_) | T::Quantity | T::Ip | T::Cidr | T::Url | T::Semver | T::Format)
        }
        _ => false,
    }
}

/// Whether one type is null and the other one is not, or one is dynamic and the other one is not.
fn is_mixed(left: &CelType, right: &CelType) -> bool {
    [CelType::Null, CelType::Dyn].iter().any(|kind| (left == kind) != (right == kind))
}

/// Whether one operand is null and the other one is null, dynamic, a timestamp or a duration.
fn is_null_time(left: &CelType, right: &CelType) -> bool {
    let is_time =
        |kind: &CelType| matches!(kind, CelType::Null | CelType::Dyn | CelType::Timestamp | CelType::Duration);
    (*left == CelType::Null && is_time(right)) || (*right == CelType::Null && is_time(left))
}

/// The common type of two operands of an arithmetic operator. If one is dynamic, it is the type of the other one.
/// `None` if the types differ, or if one is null.
fn same(left: &CelType, right: &CelType) -> Option<CelType> {
    match (left, right) {
        (CelType::Null, _) | (_, CelType::Null) => None,
        (CelType::Dyn, other) | (other, CelType::Dyn) => Some(other.clone()),
        _ => left.join(right),
    }
}

/// The maximum number of elements of a list, or of entries of a map; `None` if it has no bound, and for other types.
fn most_of(kind: &CelType) -> Option<u64> {
    match kind {
        CelType::List(list) => list.most,
        CelType::Map(map) => map.most,
        _ => None,
    }
}

/// A list with at most as many elements as a value of the type `like` has elements or entries.
fn bounded_list(element: CelType, like: &CelType) -> CelType {
    CelType::list(element, most_of(like))
}

/// The type of a literal.
fn literal_type(literal: &CelLiteral) -> CelType {
    match literal {
        CelLiteral::Null => CelType::Null,
        CelLiteral::Bool(_) => CelType::Bool,
        CelLiteral::Int(_) => CelType::Int,
        CelLiteral::Uint(_) => CelType::Uint,
        CelLiteral::Double(_) => CelType::Double,
        CelLiteral::Text(text) => CelType::Text { longest: Some(text.chars().count() as u64), shortest: 0 },
        CelLiteral::Bytes(_) => CelType::Bytes,
    }
}
