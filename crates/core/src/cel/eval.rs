//! Evaluates a checked tree for one object, within a limit of cost and memory.
//!
//! `&&`, `||`, `all` and `exists` ignore the error of an operand if another one decides: `false && error` is false, and
//! `error && false` is false too. All other operators and functions fail if one of the operands that they evaluate
//! fails.

use std::sync::Arc;

use super::ast::{Ast, CelLiteral, Expr, ExprId, FoldKind};
use super::call::call;
use super::check::{CheckedNode, Meaning};
use super::failure::{EvalError, Failure, no_overload, other};
use super::function::Function;
use super::lists;
use super::meter::CostMeter;
use super::operate::{binary, is_same, member};
use super::types::CelType;
use super::value::Evaluated;
use super::value::{BuiltEntry, CelValue, Map, MapEntry, MapKey, Text, UnreadValue};

/// The cost of a list literal and of a map literal (cel-go `common/cost.go`).
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;

/// The cost of each round of a macro besides its condition and its result: cel-go's loop condition and step.
pub(super) const ROUND_COST: u64 = 3;

/// An evaluation of one expression for one object.
pub(super) struct Evaluator<'a> {
    ast: &'a Ast,
    /// The results of the check, by node.
    checked: &'a [CheckedNode],
    /// The value of `self`.
    object: CelValue<'a>,
    /// The values of the variables of the macros in progress, from the outermost. [`Meaning::Variable`] is an index
    /// here.
    variables: Vec<CelValue<'a>>,
    pub(super) meter: CostMeter,
    /// The smallest call, operator or macro in which a limit was exceeded; `None` if none was.
    pub(super) over: Option<ExprId>,
}

impl<'a> Evaluator<'a> {
    /// An evaluation of the tree `ast`, which was checked, for the object. `meter` has the limits.
    pub(super) fn new(
        ast: &'a Ast,
        checked: &'a [CheckedNode],
        object: CelValue<'a>,
        meter: CostMeter,
    ) -> Evaluator<'a> {
        Evaluator { ast, checked, object, variables: Vec::new(), meter, over: None }
    }

    /// Evaluates the whole expression, which must be a boolean.
    ///
    /// # Errors
    /// The expression fails for this object, or exceeds a limit; then `over` is set.
    pub(super) fn run(&mut self) -> Result<bool, Failure> {
        let root = self.ast.root;
        let value = self.value(root);
        if let Err(Failure::Over) = value {
            self.over.get_or_insert(root);
        }
        match value? {
            CelValue::Bool(bool) => Ok(bool),
            _ => no_overload(),
        }
    }

    /// Evaluates a part of the expression that does not read the object or a variable.
    pub(super) fn constant(&mut self, id: ExprId) -> Evaluated<'a> {
        self.value(id)
    }

    /// Evaluates a node. The tree has at most [`super::parse::MAX_LEVELS`] levels, which bounds the recursion.
    fn value(&mut self, id: ExprId) -> Evaluated<'a> {
        let ast = self.ast;
        self.meter.node()?;
        match ast.expr(id) {
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Name(_) => self.name(id),
            Expr::Select { of, field, is_optional } => self.select(id, *of, field, *is_optional),
            Expr::Has { of, field } => self.has(id, *of, field),
            Expr::Index { of, key, is_optional } => self.index(*of, *key, *is_optional),
            Expr::Call { target, arguments, .. } => {
                let result = self.call(id, *target, arguments);
                self.note(id, result)
            }
            Expr::List(elements) => self.list(elements),
            Expr::Map(entries) => self.map(entries),
            Expr::Not(of) => {
                self.meter.charge(1)?;
                Ok(CelValue::Bool(!self.boolean(*of)?))
            }
            Expr::Negate(of) => self.negate(*of),
            Expr::And(operands) => self.logical(operands, false),
            Expr::Or(operands) => self.logical(operands, true),
            Expr::Binary(operator, left, right) => {
                // The list of literals is not built, because it would be made again for each evaluation of the node.
                if let (super::ast::BinaryOperator::In, Expr::List(elements), Meaning::Literals) =
                    (operator, ast.expr(*right), &self.checked[right.index()].meaning)
                {
                    let result = self.in_literals(*left, elements);
                    return self.note(id, result);
                }
                let left = self.value(*left)?;
                let right = self.value(*right)?;
                let result = binary(&mut self.meter, *operator, &left, &right);
                self.note(id, result)
            }
            Expr::Conditional(condition, then, otherwise) => {
                let chosen = if self.boolean(*condition)? { *then } else { *otherwise };
                self.value(chosen)
            }
            Expr::Fold { kind, range, variables, filter, result } => {
                // A macro that ends early leaves its variables, so they are removed here.
                let outside = self.variables.len();
                let result = self.fold(*kind, *range, variables.len(), *filter, *result);
                self.variables.truncate(outside);
                self.note(id, result)
            }
            Expr::OptionalMap { target, body, is_flat, .. } => self.optional_map(*target, *body, *is_flat),
        }
    }

    /// Records the node as the part in which a limit was exceeded, if `result` says so and no part within the node has
    /// been recorded. Called for calls, operators and macros, which the author of an expression recognizes.
    fn note<T>(&mut self, id: ExprId, result: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(Failure::Over) = result {
            self.over.get_or_insert(id);
        }
        result
    }

    /// Evaluates a node whose value must be a boolean.
    fn boolean(&mut self, id: ExprId) -> Result<bool, Failure> {
        match self.value(id)? {
            CelValue::Bool(bool) => Ok(bool),
            _ => no_overload(),
        }
    }

    /// The value of a name: the object, a variable of a macro, or a type.
    fn name(&mut self, id: ExprId) -> Evaluated<'a> {
        self.meter.charge(1)?;
        match &self.checked[id.index()].meaning {
            Meaning::Object => Ok(self.object.clone()),
            Meaning::Variable(index) => self.variables.get(*index).cloned().map_or_else(no_overload, Ok),
            Meaning::Type(name) => Ok(CelValue::Type(name)),
            Meaning::None | Meaning::Key(_) | Meaning::Literals | Meaning::Call { .. } => no_overload(),
        }
    }

    /// The JSON key of the member that `of.field` names. It differs from `field` if the expression escapes the name.
    fn key_of(&self, id: ExprId, field: &'a str) -> &'a str {
        match &self.checked[id.index()].meaning {
            Meaning::Key(key) => key,
            _ => field,
        }
    }

    /// Evaluates `of.field`, or `of.?field` if it is optional. The result is an optional value if it is optional, or if
    /// `of` is an optional value.
    fn select(&mut self, id: ExprId, of: ExprId, field: &'a Arc<str>, is_optional: bool) -> Evaluated<'a> {
        self.meter.charge(1)?;
        if let Meaning::Type(name) = self.checked[id.index()].meaning {
            return Ok(CelValue::Type(name));
        }
        let key = CelValue::Text(Text::Borrowed(self.key_of(id, field)));
        let target = self.value(of)?;
        self.member_of(target, &key, is_optional)
    }

    /// Evaluates `of[key]`, or `of[?key]` if it is optional. The result is an optional value as in
    /// [`Evaluator::select`].
    fn index(&mut self, of: ExprId, key: ExprId, is_optional: bool) -> Evaluated<'a> {
        self.meter.charge(1)?;
        let target = self.value(of)?;
        let key = self.value(key)?;
        self.member_of(target, &key, is_optional)
    }

    /// The member of a map, or the element of a list. If the target is an optional value or the selection
    /// `is_optional`, the result is an optional value, which is empty if the member is absent.
    ///
    /// # Errors
    /// The member is absent and the result is not optional, or the target has no members.
    fn member_of(&mut self, target: CelValue<'a>, key: &CelValue<'a>, is_optional: bool) -> Evaluated<'a> {
        let (target, was_optional) = match target {
            CelValue::Optional(None) => return Ok(CelValue::Optional(None)),
            CelValue::Optional(Some(inner)) => (inner.as_ref().clone(), true),
            target => (target, false),
        };
        let is_optional = is_optional || was_optional;
        let found = match &target {
            CelValue::Map(map) => {
                let found = member(&mut self.meter, map, key)?;
                if found.is_none() && !is_optional {
                    return Err(EvalError::NoSuchKey(key_text(key)).into());
                }
                found
            }
            CelValue::List(list) => {
                let index = match key.as_key() {
                    Some(MapKey::Int(index)) => i64::try_from(index).unwrap_or(-1),
                    _ => return no_overload(),
                };
                let found = list.get(index, &mut self.meter)?;
                let found = found.map(|found| found.read(&mut self.meter)).transpose()?;
                if found.is_none() && !is_optional {
                    return Err(EvalError::OutOfBounds(index).into());
                }
                found
            }
            // As in cel-go, an optional member of a value that is no list or map is absent.
            _ if is_optional && (key.as_key().is_some() || matches!(key, CelValue::Double(_))) => None,
            _ => return no_overload(),
        };
        Ok(match found {
            Some(found) if !is_optional => found,
            // A member that is an optional value itself is not wrapped again.
            Some(found @ CelValue::Optional(_)) => found,
            found => CelValue::Optional(found.map(Arc::new)),
        })
    }

    /// Evaluates `has(of.field)`: whether the map, or the content of the optional value, has the member.
    fn has(&mut self, id: ExprId, of: ExprId, field: &'a Arc<str>) -> Evaluated<'a> {
        let key = CelValue::Text(Text::Borrowed(self.key_of(id, field)));
        let target = match self.value(of)? {
            CelValue::Optional(None) => return Ok(CelValue::Bool(false)),
            CelValue::Optional(Some(inner)) => inner.as_ref().clone(),
            target => target,
        };
        match target {
            CelValue::Map(map) => {
                let Some(key) = key.as_key() else { return no_overload() };
                // The value itself is not read.
                Ok(CelValue::Bool(map.get(&key, &mut self.meter)?.is_some()))
            }
            CelValue::List(_) => no_overload(),
            // As in cel-go, a value that is no list or map has no member.
            _ => Ok(CelValue::Bool(false)),
        }
    }

    /// Evaluates `-of` for an integer, a double or a duration.
    fn negate(&mut self, of: ExprId) -> Evaluated<'a> {
        self.meter.charge(1)?;
        match self.value(of)? {
            CelValue::Int(int) => {
                int.checked_neg().map(CelValue::Int).ok_or_else(|| EvalError::Overflow("integer").into())
            }
            CelValue::Double(double) => Ok(CelValue::Double(-double)),
            CelValue::Duration(duration) => {
                duration.checked_neg().map(CelValue::Duration).ok_or_else(|| EvalError::Overflow("duration").into())
            }
            _ => no_overload(),
        }
    }

    /// Evaluates `&&` (`deciding` is false) or `||` (`deciding` is true). The result is `deciding` if some operand has
    /// this value, even after an operand that fails. Otherwise the first error counts.
    fn logical(&mut self, operands: &[ExprId], deciding: bool) -> Evaluated<'a> {
        let mut failure = None;
        for operand in operands {
            match self.boolean(*operand) {
                Ok(bool) if bool == deciding => return Ok(CelValue::Bool(deciding)),
                Ok(_) => {}
                Err(Failure::Over) => return Err(Failure::Over),
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        failure.map_or(Ok(CelValue::Bool(!deciding)), Err)
    }

    /// Evaluates `left in elements`, where the elements are literals, without building the list.
    fn in_literals(&mut self, left: ExprId, elements: &'a [(ExprId, bool)]) -> Evaluated<'a> {
        let ast = self.ast;
        self.meter.charge(LIST_COST)?;
        if elements.is_empty() {
            // As in cel-go, the left operand is not evaluated, so its errors do not count.
            return Ok(CelValue::Bool(false));
        }
        let left = self.value(left)?;
        for (element, _) in elements {
            let Expr::Literal(literal) = ast.expr(*element) else { return no_overload() };
            if is_same(&mut self.meter, &left, &literal_value(literal))? {
                return Ok(CelValue::Bool(true));
            }
        }
        Ok(CelValue::Bool(false))
    }

    /// Evaluates an element of a list literal or a value of a map literal. An optional one must be an optional value,
    /// and the result is its content; `None` if it is empty.
    fn entry(&mut self, id: ExprId, is_optional: bool) -> Result<Option<CelValue<'a>>, Failure> {
        match self.value(id)? {
            value if !is_optional => Ok(Some(value)),
            CelValue::Optional(content) => Ok(content.map(|content| content.as_ref().clone())),
            _ => no_overload(),
        }
    }

    /// Evaluates a list literal. Optional elements that are empty are left out.
    fn list(&mut self, elements: &[(ExprId, bool)]) -> Evaluated<'a> {
        self.meter.charge(LIST_COST)?;
        self.meter.make_values(elements.len())?;
        let mut values = Vec::with_capacity(elements.len());
        for (element, is_optional) in elements {
            values.extend(self.entry(*element, *is_optional)?);
        }
        Ok(CelValue::list(values))
    }

    /// Evaluates a map literal. Optional entries that are empty are left out.
    fn map(&mut self, entries: &[(ExprId, ExprId, bool)]) -> Evaluated<'a> {
        self.meter.charge(MAP_COST)?;
        self.meter.make_values(entries.len())?;
        let mut built = Vec::with_capacity(entries.len());
        for (key, value, is_optional) in entries {
            let key = self.value(*key)?;
            let Some(value) = self.entry(*value, *is_optional)? else { continue };
            insert(&mut built, key, value)?;
        }
        Ok(CelValue::Map(Map::build(built, &mut self.meter)?))
    }

    /// Evaluates the arguments of a call, and then the function that the check has found.
    fn call(&mut self, id: ExprId, target: Option<ExprId>, arguments: &[ExprId]) -> Evaluated<'a> {
        let Meaning::Call { function, has_target, pattern } = &self.checked[id.index()].meaning else {
            return no_overload();
        };
        let mut values: Vec<CelValue<'a>> = Vec::with_capacity(arguments.len() + 1);
        for argument in target.iter().filter(|_| *has_target).chain(arguments) {
            // `or` and `orValue` evaluate their argument only if the target is empty.
            if let (Function::OptionalOr | Function::OptionalOrValue, [CelValue::Optional(Some(value))]) =
                (*function, &values[..])
            {
                self.meter.charge(1)?;
                return Ok(match function {
                    Function::OptionalOr => CelValue::Optional(Some(value.clone())),
                    _ => value.as_ref().clone(),
                });
            }
            let value = self.value(*argument)?;
            values.push(value);
        }
        let result = call(&mut self.meter, *function, &values, pattern.as_ref())?;
        // The sum of an empty list is the integer 0. It becomes the zero of the type that the check has found.
        match (function, &result, &self.checked[id.index()].kind) {
            (Function::Sum, CelValue::Int(0), CelType::Double) => Ok(CelValue::Double(0.0)),
            (Function::Sum, CelValue::Int(0), CelType::Duration) => Ok(CelValue::Duration(0)),
            (Function::Sum, CelValue::Int(0), CelType::Uint) => Ok(CelValue::Uint(0)),
            _ => Ok(result),
        }
    }

    /// Evaluates `target.optMap(variable, body)`: an empty optional value if the target is empty; otherwise the body as
    /// an optional value. With `optFlatMap` (`is_flat`), the body must be an optional value itself.
    fn optional_map(&mut self, target: ExprId, body: ExprId, is_flat: bool) -> Evaluated<'a> {
        self.meter.charge(ROUND_COST)?;
        let inner = match self.value(target)? {
            CelValue::Optional(None) => return Ok(CelValue::Optional(None)),
            CelValue::Optional(Some(inner)) => inner.as_ref().clone(),
            _ => return no_overload(),
        };
        self.variables.push(inner);
        let result = self.value(body);
        self.variables.pop();
        match result? {
            result @ CelValue::Optional(_) if is_flat => Ok(result),
            _ if is_flat => no_overload(),
            result => Ok(CelValue::Optional(Some(Arc::new(result)))),
        }
    }

    /// Evaluates a macro over the elements of a list or the entries of a map: see [`Expr::Fold`]. `variables` is the
    /// number of variables. The caller removes the variables that are left at the end.
    fn fold(
        &mut self,
        kind: FoldKind,
        range: ExprId,
        variables: usize,
        filter: Option<ExprId>,
        result: Option<ExprId>,
    ) -> Evaluated<'a> {
        let range = self.value(range)?;
        if kind == FoldKind::SortBy && !matches!(range, CelValue::List(_)) {
            return no_overload();
        }
        let rounds = rounds(range, variables)?;
        let outside = self.variables.len();
        let mut gathered =
            Gathered { kind, failure: None, count: 0, elements: Vec::new(), keys: Vec::new(), entries: Vec::new() };
        for round in rounds {
            self.meter.charge(ROUND_COST)?;
            // The variables of the round before are replaced.
            self.variables.truncate(outside);
            let (first, second) = round.read(&mut self.meter)?;
            self.variables.push(first.clone());
            self.variables.extend(second);
            let is_chosen = match filter {
                Some(filter) => self.boolean(filter),
                None => Ok(true),
            };
            // `all` and `exists` end when an element decides, and note the first error. The other macros fail at once.
            match (kind, is_chosen) {
                (_, Err(Failure::Over)) => return Err(Failure::Over),
                (FoldKind::All, Ok(false)) => return Ok(CelValue::Bool(false)),
                (FoldKind::Exists, Ok(true)) => return Ok(CelValue::Bool(true)),
                (FoldKind::All | FoldKind::Exists, Ok(_)) => {}
                (FoldKind::All | FoldKind::Exists, Err(error)) => {
                    gathered.failure.get_or_insert(error);
                }
                (_, Err(error)) => return Err(error),
                (_, Ok(false)) => {}
                (FoldKind::ExistsOne, Ok(true)) => gathered.count += 1,
                (FoldKind::Filter, Ok(true)) => {
                    self.meter.make_values(1)?;
                    gathered.elements.push(first);
                }
                (FoldKind::Map | FoldKind::TransformMap | FoldKind::TransformMapEntry | FoldKind::SortBy, Ok(true)) => {
                    self.meter.charge(1)?;
                    self.meter.make_values(1)?;
                    let value = match result {
                        Some(result) => self.value(result)?,
                        None => first.clone(),
                    };
                    match kind {
                        FoldKind::TransformMap => insert(&mut gathered.entries, first, value)?,
                        // The result is a map, whose entries are added to the new map.
                        FoldKind::TransformMapEntry => {
                            let CelValue::Map(map) = value else { return no_overload() };
                            let count = map.count(&mut self.meter)?;
                            self.meter.make_values(count)?;
                            for entry in map.entries() {
                                let (key, value) = entry.read(&mut self.meter)?;
                                insert(&mut gathered.entries, key, value)?;
                            }
                        }
                        FoldKind::SortBy => {
                            gathered.keys.push(value);
                            gathered.elements.push(first);
                        }
                        _ => gathered.elements.push(value),
                    }
                }
            }
        }
        if kind == FoldKind::SortBy {
            let order = lists::order_of(&mut self.meter, &gathered.keys)?;
            let sorted = order.into_iter().filter_map(|index| gathered.elements.get(index).cloned());
            return Ok(CelValue::list(sorted.collect()));
        }
        gathered.finish(&mut self.meter)
    }
}

/// The results of the rounds of a macro so far. Each kind of macro uses some of the fields.
struct Gathered<'a> {
    kind: FoldKind,
    /// The first error of `all` or `exists`, which counts if no element decides.
    failure: Option<Failure>,
    /// The number of elements for which the condition of `exists_one` holds.
    count: usize,
    /// The elements of the new list, of `map`, `filter` and `sortBy`.
    elements: Vec<CelValue<'a>>,
    /// For each of `elements`, the key by which `sortBy` sorts it.
    keys: Vec<CelValue<'a>>,
    /// The entries of the new map, of the transformations.
    entries: Vec<BuiltEntry<'a>>,
}

impl<'a> Gathered<'a> {
    /// The result of the macro after all rounds. Not for `sortBy`, whose elements [`Evaluator::fold`] sorts.
    fn finish(self, meter: &mut CostMeter) -> Evaluated<'a> {
        match (self.kind, self.failure) {
            (_, Some(failure)) => Err(failure),
            (FoldKind::All, None) => Ok(CelValue::Bool(true)),
            (FoldKind::Exists, None) => Ok(CelValue::Bool(false)),
            (FoldKind::ExistsOne, None) => Ok(CelValue::Bool(self.count == 1)),
            (FoldKind::Map | FoldKind::Filter | FoldKind::SortBy, None) => Ok(CelValue::list(self.elements)),
            (FoldKind::TransformMap, None) => Ok(CelValue::Map(Map::build(self.entries, meter)?)),
            (FoldKind::TransformMapEntry, None) => {
                let count = self.entries.len();
                let built = Map::build(self.entries, meter)?;
                // A key that occurs twice is one entry of the map.
                if built.count(meter)? < count {
                    return other("insert failed: a key exists already");
                }
                Ok(CelValue::Map(built))
            }
        }
    }
}

/// A round of a macro: the values of its variables, which have not been read.
enum Round<'a> {
    /// For one variable: an element of a list or a key of a map.
    One(UnreadValue<'a>),
    /// For two variables: an element of a list, after its index.
    Element(i64, UnreadValue<'a>),
    /// For two variables: a key and its value.
    Entry(MapEntry<'a>),
}

impl<'a> Round<'a> {
    /// Reads the values of the first variable, and of the second one if there are two.
    fn read(self, meter: &mut CostMeter) -> Result<(CelValue<'a>, Option<CelValue<'a>>), Failure> {
        match self {
            Round::One(element) => Ok((element.read(meter)?, None)),
            Round::Element(index, element) => Ok((CelValue::Int(index), Some(element.read(meter)?))),
            Round::Entry(entry) => entry.read(meter).map(|(key, value)| (key, Some(value))),
        }
    }
}

/// The rounds of a macro over a value, which must be a list or a map, with this number of variables.
fn rounds<'a>(range: CelValue<'a>, variables: usize) -> Result<Box<dyn Iterator<Item = Round<'a>> + 'a>, Failure> {
    Ok(match (range, variables) {
        (CelValue::List(list), 1) => Box::new(list.elements().map(Round::One)),
        (CelValue::Map(map), 1) => Box::new(map.keys().map(Round::One)),
        (CelValue::List(list), _) => {
            Box::new((0..).zip(list.elements()).map(|(index, element)| Round::Element(index, element)))
        }
        (CelValue::Map(map), _) => Box::new(map.entries().map(Round::Entry)),
        _ => return no_overload(),
    })
}

/// Adds an entry of a new map. [`Map::build`] sorts the entries later.
///
/// # Errors
/// The key is not a boolean, an integer or a text.
fn insert<'a>(entries: &mut Vec<BuiltEntry<'a>>, key: CelValue<'a>, value: CelValue<'a>) -> Result<(), Failure> {
    // A double can find the key of an integer, but cannot be the key of a new map.
    let sorted = match key {
        CelValue::Double(_) => None,
        ref key => key.as_key(),
    };
    let Some(sorted) = sorted else { return other(format!("unsupported key type: {}", key.type_name())) };
    entries.push(BuiltEntry { sorted, key, value });
    Ok(())
}

/// A key for an error message: its text, or the name of its type if it cannot be a key.
fn key_text(key: &CelValue<'_>) -> String {
    match key {
        CelValue::Text(text) => super::lex::excerpt(text),
        CelValue::Int(int) => int.to_string(),
        CelValue::Uint(uint) => uint.to_string(),
        CelValue::Double(double) => double.to_string(),
        CelValue::Bool(bool) => bool.to_string(),
        key => key.type_name().to_owned(),
    }
}

/// The value of a literal.
fn literal_value(literal: &CelLiteral) -> CelValue<'_> {
    match literal {
        CelLiteral::Null => CelValue::Null,
        CelLiteral::Bool(bool) => CelValue::Bool(*bool),
        CelLiteral::Int(int) => CelValue::Int(*int),
        CelLiteral::Uint(uint) => CelValue::Uint(*uint),
        CelLiteral::Double(double) => CelValue::Double(*double),
        CelLiteral::Text(text) => CelValue::Text(Text::Borrowed(text)),
        CelLiteral::Bytes(bytes) => CelValue::Bytes(bytes.clone()),
    }
}
