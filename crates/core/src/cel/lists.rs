//! Functions of lists (apiserver `pkg/cel/library/lists.go`, cel-go `ext/lists.go` and `ext/sets.go`).

use std::cmp::Ordering;
use std::sync::Arc;

use super::ast::BinaryOperator;
use super::failure::{EvalError, Failure, no_overload, other};
use super::function::Function;
use super::meter::CostMeter;
use super::operate::{binary, is_same, order};
use super::value::Evaluated;
use super::value::{CelValue, ListValue};

/// The maximum number of levels that `flatten` enters. Lists below stay nested.
const MAX_LEVELS: i64 = 32;

/// Evaluates a function whose first argument is a list. `rest`: the other arguments.
pub(super) fn call<'a>(
    meter: &mut CostMeter,
    function: Function,
    list: &ListValue<'a>,
    rest: &[CelValue<'a>],
) -> Evaluated<'a> {
    use Function as F;
    match (function, rest) {
        (F::IndexOf, [sought]) => position(meter, list, sought, false),
        (F::LastIndexOf, [sought]) => position(meter, list, sought, true),
        (F::Includes, [sought]) => {
            let found = position(meter, list, sought, false)?;
            Ok(CelValue::Bool(!matches!(found, CelValue::Int(-1))))
        }
        (F::IsSorted, []) => is_sorted(meter, list),
        (F::Sum, []) => sum(meter, list),
        (F::Min, []) => extreme(meter, list, Ordering::Less, "min"),
        (F::Max, []) => extreme(meter, list, Ordering::Greater, "max"),
        (F::Slice, [CelValue::Int(from), CelValue::Int(to)]) => slice(meter, list, *from, *to),
        (F::Flatten, []) => flatten(meter, list, 1),
        (F::Flatten, [CelValue::Int(levels)]) if *levels < 0 => other("level must be non-negative"),
        (F::Flatten, [CelValue::Int(levels)]) => flatten(meter, list, *levels),
        (F::Sort, []) => sort(meter, list),
        (F::First, []) => optional_element(meter, list, 0),
        (F::Last, []) => {
            let count = list.count(meter)?;
            optional_element(meter, list, i64::try_from(count).unwrap_or(0) - 1)
        }
        (F::OptionalUnwrap, []) => {
            let mut elements = Vec::new();
            for element in list.elements() {
                meter.make_values(1)?;
                match element.read(meter)? {
                    CelValue::Optional(content) => elements.extend(content.map(|content| content.as_ref().clone())),
                    _ => return no_overload(),
                }
            }
            Ok(CelValue::list(elements))
        }
        (F::Reverse, []) => {
            let mut elements = collect(meter, list)?;
            elements.reverse();
            Ok(CelValue::list(elements))
        }
        (F::Distinct, []) => distinct(meter, list),
        (F::SetsContains, [CelValue::List(other)]) => Ok(CelValue::Bool(contains_all(meter, list, other)?)),
        (F::SetsEquivalent, [CelValue::List(other)]) => {
            Ok(CelValue::Bool(contains_all(meter, list, other)? && contains_all(meter, other, list)?))
        }
        (F::SetsIntersects, [CelValue::List(other)]) => {
            for element in list.elements() {
                let element = element.read(meter)?;
                if contains(meter, other, &element)? {
                    return Ok(CelValue::Bool(true));
                }
            }
            Ok(CelValue::Bool(false))
        }
        _ => no_overload(),
    }
}

/// The element at an index as an optional value, which is empty if the list has no such element.
fn optional_element<'a>(meter: &mut CostMeter, list: &ListValue<'a>, index: i64) -> Evaluated<'a> {
    meter.charge(1)?;
    let found = list.get(index, meter)?;
    let found = found.map(|found| found.read(meter)).transpose()?;
    Ok(CelValue::Optional(found.map(Arc::new)))
}

/// Reads the elements into a vector, and counts them as new values.
fn collect<'a>(meter: &mut CostMeter, list: &ListValue<'a>) -> Result<Vec<CelValue<'a>>, Failure> {
    meter.charge(1)?;
    let count = list.count(meter)?;
    meter.make_values(count)?;
    list.elements().map(|element| element.read(meter)).collect()
}

/// The index of the first element that equals a value, or of the last one if `is_last`; -1 if there is none.
fn position<'a>(meter: &mut CostMeter, list: &ListValue<'a>, sought: &CelValue<'a>, is_last: bool) -> Evaluated<'a> {
    let mut found = -1;
    for (index, element) in (0..).zip(list.elements()) {
        let element = element.read(meter)?;
        if is_same(meter, &element, sought)? {
            found = index;
            if !is_last {
                break;
            }
        }
    }
    Ok(CelValue::Int(found))
}

/// Whether a list has an element that equals a value.
fn contains<'a>(meter: &mut CostMeter, list: &ListValue<'a>, sought: &CelValue<'a>) -> Result<bool, Failure> {
    for element in list.elements() {
        let element = element.read(meter)?;
        if is_same(meter, &element, sought)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `list` has each element of `other`.
fn contains_all<'a>(meter: &mut CostMeter, list: &ListValue<'a>, other: &ListValue<'a>) -> Result<bool, Failure> {
    for element in other.elements() {
        let element = element.read(meter)?;
        if !contains(meter, list, &element)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Evaluates `isSorted`: whether no element is less than the one before it.
fn is_sorted<'a>(meter: &mut CostMeter, list: &ListValue<'a>) -> Evaluated<'a> {
    let mut before: Option<CelValue<'a>> = None;
    for element in list.elements() {
        let element = element.read(meter)?;
        meter.charge(1)?;
        if let Some(before) = &before
            && order(meter, before, &element)? == Some(Ordering::Greater)
        {
            return Ok(CelValue::Bool(false));
        }
        before = Some(element);
    }
    Ok(CelValue::Bool(true))
}

/// Evaluates `sum` for numbers of one type, or durations. The sum of an empty list is the integer 0; the evaluator
/// converts it to the type that the check has found.
fn sum<'a>(meter: &mut CostMeter, list: &ListValue<'a>) -> Evaluated<'a> {
    let mut sum: Option<CelValue<'a>> = None;
    for element in list.elements() {
        let element = element.read(meter)?;
        if !matches!(element, CelValue::Int(_) | CelValue::Uint(_) | CelValue::Double(_) | CelValue::Duration(_)) {
            return no_overload();
        }
        sum = Some(match sum {
            None => element,
            Some(before) => binary(meter, BinaryOperator::Add, &before, &element)?,
        });
    }
    Ok(sum.unwrap_or(CelValue::Int(0)))
}

/// Evaluates `min` (`wanted` is `Less`) or `max` (`wanted` is `Greater`): the element that has this order to the
/// others. `name`: the name of the function, for the error about an empty list.
fn extreme<'a>(meter: &mut CostMeter, list: &ListValue<'a>, wanted: Ordering, name: &str) -> Evaluated<'a> {
    let mut found: Option<CelValue<'a>> = None;
    for element in list.elements() {
        let element = element.read(meter)?;
        meter.charge(1)?;
        found = match found {
            Some(before) if order(meter, &element, &before)? != Some(wanted) => Some(before),
            _ => Some(element),
        };
    }
    found.ok_or_else(|| EvalError::Other(format!("{name} called on empty list")).into())
}

/// Evaluates `slice`: the elements from the index `from` up to the index `to`, without the element at `to`.
fn slice<'a>(meter: &mut CostMeter, list: &ListValue<'a>, from: i64, to: i64) -> Evaluated<'a> {
    let elements = collect(meter, list)?;
    match (usize::try_from(from), usize::try_from(to)) {
        (Ok(start), Ok(end)) if start <= end && end <= elements.len() => {
            Ok(CelValue::list(elements[start..end].to_vec()))
        }
        _ => other(format!("cannot slice({from}, {to}), list has {} elements", elements.len())),
    }
}

/// Evaluates `flatten`: replaces each nested list by its elements, `levels` times, but at most [`MAX_LEVELS`] times.
fn flatten<'a>(meter: &mut CostMeter, list: &ListValue<'a>, levels: i64) -> Evaluated<'a> {
    let mut elements = collect(meter, list)?;
    for _ in 0..levels.min(MAX_LEVELS) {
        let mut flat = Vec::new();
        let mut has_changed = false;
        for element in elements {
            match element {
                CelValue::List(nested) => {
                    has_changed = true;
                    flat.extend(collect(meter, &nested)?);
                }
                element => flat.push(element),
            }
        }
        meter.make_values(flat.len())?;
        elements = flat;
        if !has_changed {
            break;
        }
    }
    Ok(CelValue::list(elements))
}

/// Evaluates `sort`: the list in ascending order of its elements, which must have one type.
fn sort<'a>(meter: &mut CostMeter, list: &ListValue<'a>) -> Evaluated<'a> {
    let elements = collect(meter, list)?;
    let order = order_of(meter, &elements)?;
    Ok(CelValue::list(order.into_iter().filter_map(|index| elements.get(index).cloned()).collect()))
}

/// The indexes of `keys`, in ascending order of the keys. Equal keys keep their order.
///
/// # Errors
/// The keys have different types or types without an order, or a limit is exceeded.
pub(super) fn order_of(meter: &mut CostMeter, keys: &[CelValue<'_>]) -> Result<Vec<usize>, Failure> {
    // The cost of all comparisons is counted before the sort. A comparison that fails during the sort would have no
    // result, and a sort needs a consistent order.
    let mut work: u64 = 0;
    for key in keys {
        if Some(key.type_name()) != keys.first().map(CelValue::type_name) {
            return other("list elements must have the same type");
        }
        work += match key {
            CelValue::Text(text) => 1 + text.len() as u64 / 10,
            CelValue::Bytes(bytes) => 1 + bytes.len() as u64 / 10,
            CelValue::Bool(_)
            | CelValue::Int(_)
            | CelValue::Uint(_)
            | CelValue::Double(_)
            | CelValue::Timestamp(_)
            | CelValue::Duration(_) => 1,
            _ => return no_overload(),
        };
    }
    meter.charge(work.saturating_mul(u64::from(keys.len().max(1).ilog2()) + 1))?;
    meter.make_values(keys.len())?;
    let mut unlimited = CostMeter::new(u64::MAX.into());
    let mut indexes: Vec<usize> = (0..keys.len()).collect();
    indexes.sort_by(|left, right| match (keys.get(*left), keys.get(*right)) {
        // `order` has no result for NaN.
        (Some(CelValue::Double(left)), Some(CelValue::Double(right))) => left.total_cmp(right),
        (Some(left), Some(right)) => order(&mut unlimited, left, right).ok().flatten().unwrap_or(Ordering::Equal),
        _ => Ordering::Equal,
    });
    Ok(indexes)
}

/// Evaluates `distinct`: the elements without repetitions, in the order of their first occurrence. Each element is
/// compared with all before it, because not all types of elements can be sorted.
fn distinct<'a>(meter: &mut CostMeter, list: &ListValue<'a>) -> Evaluated<'a> {
    let mut found: Vec<CelValue<'a>> = Vec::new();
    for element in list.elements() {
        let element = element.read(meter)?;
        let mut is_new = true;
        for before in &found {
            if is_same(meter, before, &element)? {
                is_new = false;
                break;
            }
        }
        if is_new {
            meter.make_values(1)?;
            found.push(element);
        }
    }
    Ok(CelValue::list(found))
}

/// Evaluates `lists.range`: the integers from 0 up to `end`, without `end`. Empty if `end` is negative.
pub(super) fn range<'a>(meter: &mut CostMeter, end: i64) -> Evaluated<'a> {
    let count = usize::try_from(end).unwrap_or(0);
    meter.charge(count as u64)?;
    meter.make_values(count)?;
    Ok(CelValue::list((0..end.max(0)).map(CelValue::Int).collect()))
}
