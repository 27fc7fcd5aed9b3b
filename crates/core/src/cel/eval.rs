//! Evaluates a checked tree for one object, within a limit of cost and memory.
//!
//! Errors are values of the language: `false && error` is false, and `error && false` is too. The same holds for `||`,
//! `all` and `exists`. All other operators and functions fail if one of their operands does.

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
    checked: &'a [CheckedNode],
    object: CelValue<'a>,
    /// The values of the macros' variables, from the outermost.
    variables: Vec<CelValue<'a>>,
    pub(super) meter: CostMeter,
    /// The part of the expression in which the limit was exceeded.
    pub(super) over: Option<ExprId>,
}

impl<'a> Evaluator<'a> {
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
    /// The expression fails for this object, or costs too much; then `over` is set.
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

    /// Evaluates a part of the expression that does not depend on the object.
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
                let outside = self.variables.len();
                let result = self.fold(*kind, *range, variables.len(), *filter, *result);
                self.variables.truncate(outside);
                self.note(id, result)
            }
            Expr::OptionalMap { target, body, is_flat, .. } => self.optional_map(*target, *body, *is_flat),
        }
    }

    /// Remembers the first part around an exceeded limit that an author recognizes: a call, an operator or a macro.
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

    fn name(&mut self, id: ExprId) -> Evaluated<'a> {
        self.meter.charge(1)?;
        match &self.checked[id.index()].meaning {
            Meaning::Object => Ok(self.object.clone()),
            Meaning::Variable(index) => self.variables.get(*index).cloned().map_or_else(no_overload, Ok),
            Meaning::Type(name) => Ok(CelValue::Type(name)),
            Meaning::None | Meaning::Key(_) | Meaning::Literals | Meaning::Call { .. } => no_overload(),
        }
    }

    /// The key of a selection in the object.
    fn key_of(&self, id: ExprId, field: &'a str) -> &'a str {
        match &self.checked[id.index()].meaning {
            Meaning::Key(key) => key,
            _ => field,
        }
    }

    /// `of.field`; of an optional value it is optional.
    fn select(&mut self, id: ExprId, of: ExprId, field: &'a Arc<str>, is_optional: bool) -> Evaluated<'a> {
        self.meter.charge(1)?;
        if let Meaning::Type(name) = self.checked[id.index()].meaning {
            return Ok(CelValue::Type(name));
        }
        let key = CelValue::Text(Text::Borrowed(self.key_of(id, field)));
        let target = self.value(of)?;
        self.member_of(target, &key, is_optional)
    }

    fn index(&mut self, of: ExprId, key: ExprId, is_optional: bool) -> Evaluated<'a> {
        self.meter.charge(1)?;
        let target = self.value(of)?;
        let key = self.value(key)?;
        self.member_of(target, &key, is_optional)
    }

    /// The member of a map, or the element of a list.
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
            // As in cel-go, a value without members has none of this name.
            _ if is_optional && (key.as_key().is_some() || matches!(key, CelValue::Double(_))) => None,
            _ => return no_overload(),
        };
        Ok(match found {
            Some(found) if !is_optional => found,
            // An optional within an optional is not possible here.
            Some(found @ CelValue::Optional(_)) => found,
            found => CelValue::Optional(found.map(Arc::new)),
        })
    }

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
            // As in cel-go, a value without members has none of this name.
            _ => Ok(CelValue::Bool(false)),
        }
    }

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

    /// `&&` and `||`: the first operand with the deciding value decides, also after operands that fail.
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

    /// `left in [literals]` without making the list.
    fn in_literals(&mut self, left: ExprId, elements: &'a [(ExprId, bool)]) -> Evaluated<'a> {
        let ast = self.ast;
        self.meter.charge(LIST_COST)?;
        if elements.is_empty() {
            // As in cel-go, which does not evaluate the left side then.
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

    /// The content of an optional element; `None` if it has none.
    fn entry(&mut self, id: ExprId, is_optional: bool) -> Result<Option<CelValue<'a>>, Failure> {
        match self.value(id)? {
            value if !is_optional => Ok(Some(value)),
            CelValue::Optional(content) => Ok(content.map(|content| content.as_ref().clone())),
            _ => no_overload(),
        }
    }

    fn list(&mut self, elements: &[(ExprId, bool)]) -> Evaluated<'a> {
        self.meter.charge(LIST_COST)?;
        self.meter.make_values(elements.len())?;
        let mut values = Vec::with_capacity(elements.len());
        for (element, is_optional) in elements {
            values.extend(self.entry(*element, *is_optional)?);
        }
        Ok(CelValue::list(values))
    }

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

    fn call(&mut self, id: ExprId, target: Option<ExprId>, arguments: &[ExprId]) -> Evaluated<'a> {
        let Meaning::Call { function, has_target, pattern } = &self.checked[id.index()].meaning else {
            return no_overload();
        };
        let mut values: Vec<CelValue<'a>> = Vec::with_capacity(arguments.len() + 1);
        for argument in target.iter().filter(|_| *has_target).chain(arguments) {
            // `or` and `orValue` need their argument only if there is no value.
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
        // The sum of no elements is the zero of their type.
        match (function, &result, &self.checked[id.index()].kind) {
            (Function::Sum, CelValue::Int(0), CelType::Double) => Ok(CelValue::Double(0.0)),
            (Function::Sum, CelValue::Int(0), CelType::Duration) => Ok(CelValue::Duration(0)),
            (Function::Sum, CelValue::Int(0), CelType::Uint) => Ok(CelValue::Uint(0)),
            _ => Ok(result),
        }
    }

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

    /// A macro over the elements of a list or the keys of a map.
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
            self.variables.truncate(outside);
            let (first, second) = round.read(&mut self.meter)?;
            self.variables.push(first.clone());
            self.variables.extend(second);
            let is_chosen = match filter {
                Some(filter) => self.boolean(filter),
                None => Ok(true),
            };
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

/// What a macro has gathered so far.
struct Gathered<'a> {
    kind: FoldKind,
    /// The first error of `all` or `exists`, which counts if no element decides.
    failure: Option<Failure>,
    count: usize,
    elements: Vec<CelValue<'a>>,
    /// For each element, the key by which it is sorted.
    keys: Vec<CelValue<'a>>,
    entries: Vec<BuiltEntry<'a>>,
}

impl<'a> Gathered<'a> {
    /// The result after all elements.
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

/// A round of a macro, whose values have not been read.
enum Round<'a> {
    /// An element or a key.
    One(UnreadValue<'a>),
    /// An element with its index.
    Element(i64, UnreadValue<'a>),
    /// A key with its value.
    Entry(MapEntry<'a>),
}

impl<'a> Round<'a> {
    /// The values of the one or two variables.
    fn read(self, meter: &mut CostMeter) -> Result<(CelValue<'a>, Option<CelValue<'a>>), Failure> {
        match self {
            Round::One(element) => Ok((element.read(meter)?, None)),
            Round::Element(index, element) => Ok((CelValue::Int(index), Some(element.read(meter)?))),
            Round::Entry(entry) => entry.read(meter).map(|(key, value)| (key, Some(value))),
        }
    }
}

/// The rounds of a macro over a value.
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

/// Adds an entry of a new map.
fn insert<'a>(entries: &mut Vec<BuiltEntry<'a>>, key: CelValue<'a>, value: CelValue<'a>) -> Result<(), Failure> {
    let found = match key {
        CelValue::Double(_) => None,
        ref key => key.as_key(),
    };
    let Some(found) = found else { return other(format!("unsupported key type: {}", key.type_name())) };
    entries.push(BuiltEntry { sorted: found, key, value });
    Ok(())
}

/// A key as error messages show it.
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
