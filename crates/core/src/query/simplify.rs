//! Requirements that are combined: as few as possible that select the same objects.
//!
//! A client can send a thousand requirements on one field, and each one takes memory and time in a plan. Requirements on
//! the same subject (a label or a field) become at most one of each operator. If the subject has at most one value, and
//! no value meets them all, they become `In` without values, which selects nothing. Only a field with several values can
//! keep several sets or prefixes, because different values can meet them.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::selector::Operator;

/// How many values a subject has, and what it means that it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// A label, which can be absent.
    OneLabel,
    /// A field with exactly one value, which can be empty.
    OneOfField,
    /// A field that can have several values.
    Several,
}

/// The requirements on one subject that are kept so far.
#[derive(Debug, Default)]
struct Kept {
    /// The intersection of the sets of `In` for a subject with one value; `None`: there is no such requirement.
    listed: Option<Vec<String>>,
    /// The union of the values of `NotIn`.
    excluded: Vec<String>,
    /// All prefixes.
    prefixes: Vec<String>,
    /// The narrowest bound of each operator.
    bounds: Vec<Operator>,
    /// All other requirements, each once.
    others: Vec<Operator>,
    /// The operators in `others`.
    seen: HashSet<Operator>,
}

/// The requirements, combined for each subject. Subjects are in the order in which they occur first. `values` states
/// how many values a subject has.
pub(super) fn simplified<Subject: Clone + Eq + Hash>(
    terms: impl Iterator<Item = (Subject, Operator)>,
    values: impl Fn(&Subject) -> Values,
) -> Vec<(Subject, Operator)> {
    let mut places: HashMap<Subject, usize> = HashMap::new();
    let mut subjects: Vec<(Subject, Kept)> = Vec::new();
    for (subject, operator) in terms {
        let place = *places.entry(subject.clone()).or_insert(subjects.len());
        if place == subjects.len() {
            subjects.push((subject.clone(), Kept::default()));
        }
        if let Some((_, kept)) = subjects.get_mut(place) {
            kept.add(operator, values(&subject));
        }
    }
    let mut simplified = Vec::new();
    for (subject, kept) in subjects {
        let operators = kept.into_operators(values(&subject));
        simplified.extend(operators.into_iter().map(|operator| (subject.clone(), operator)));
    }
    simplified
}

impl Kept {
    /// Adds a requirement on the subject, which has this many values.
    fn add(&mut self, operator: Operator, values: Values) {
        match operator {
            Operator::In(more) if values != Values::Several => {
                self.listed = Some(match self.listed.take() {
                    None => more,
                    Some(mut listed) => {
                        // A set of a request can have tens of thousands of values.
                        let more: HashSet<String> = more.into_iter().collect();
                        listed.retain(|value| more.contains(value));
                        listed
                    }
                });
            }
            Operator::NotIn(more) => self.excluded.extend(more),
            Operator::StartsWith(prefix) => self.prefixes.push(prefix),
            Operator::GreaterThan(_)
            | Operator::LessThan(_)
            | Operator::GreaterOrEqual(_)
            | Operator::LessOrEqual(_) => {
                for bound in &mut self.bounds {
                    if let Some(narrower) = bound.narrower(&operator) {
                        *bound = narrower;
                        return;
                    }
                }
                self.bounds.push(operator);
            }
            Operator::In(_) | Operator::Exists | Operator::DoesNotExist => {
                if self.seen.insert(operator.clone()) {
                    self.others.push(operator);
                }
            }
        }
    }

    /// The requirements that are left.
    fn into_operators(self, values: Values) -> Vec<Operator> {
        let Kept { listed, mut excluded, mut prefixes, bounds, others, seen: _ } = self;
        let mut operators = others;
        operators.extend(bounds);
        // A prefix is implied by a longer one that begins with it, which follows it in sorted order.
        prefixes.sort_unstable();
        prefixes.dedup();
        let mut longest: Vec<String> = Vec::new();
        for prefix in prefixes {
            match longest.last_mut() {
                Some(shorter) if prefix.starts_with(&**shorter) => *shorter = prefix,
                _ => longest.push(prefix),
            }
        }
        // One value does not begin with two texts of which neither begins with the other.
        let is_empty = longest.len() > 1 && values != Values::Several;
        operators.extend(longest.into_iter().map(Operator::StartsWith));
        excluded.sort_unstable();
        excluded.dedup();
        if !excluded.is_empty() {
            operators.push(Operator::NotIn(excluded));
        }
        let accepts = |value: &str| {
            operators.iter().all(|operator| match values {
                Values::OneLabel => operator.matches_label(Some(value)),
                Values::OneOfField | Values::Several => operator.matches_field(|found| found(value)),
            })
        };
        match listed {
            _ if is_empty => vec![Operator::In(Vec::new())],
            Some(mut listed) => {
                listed.retain(|value| accepts(value));
                vec![Operator::In(listed)]
            }
            None => operators,
        }
    }
}
