//! Which subscriptions a change may concern: an index over what they select, so that a change costs those it touches.
//!
//! Each subscription stands under one *anchor*: the narrowest thing that every object of its selection has, such as a name,
//! the value of a field, one of a few values of a label. A change looks up what its object had before and what it has now; whoever
//! stands there is touched and asks [`super::transition`], which decides. A selection that only excludes has no anchor and is touched
//! by every change. Whom to wake, and what they have not been told yet, is the registry's.

use std::collections::HashMap;

use crate::extract::FieldRef;
use crate::model::FieldIndex;
use crate::query::Selection;
use crate::selector::{FieldExpressionOperator, LabelOperator};
use crate::store::{Change, Object};

/// A subscription, numbered by whoever keeps them.
pub type SubscriptionId = u32;

/// A label selection with more values than this is found by its key: it would stand in too many places.
const MOST_VALUES: usize = 64;

/// Subscriptions by one text.
type ByText = HashMap<Box<str>, Vec<SubscriptionId>>;

/// The index.
#[derive(Debug, Default)]
pub struct Routes {
    names: ByText,
    /// By field and value.
    fields: Vec<(FieldIndex, ByText)>,
    labels: HashMap<Box<str>, Label>,
    namespaces: ByText,
    /// Touched by every change.
    rest: Vec<SubscriptionId>,
}

/// Subscriptions that need a label.
#[derive(Debug, Default)]
struct Label {
    values: ByText,
    /// Whatever its value.
    present: Vec<SubscriptionId>,
}

/// Where a subscription stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor<'a> {
    Names(&'a [String]),
    Fields(FieldIndex, &'a [String]),
    Labels(&'a str, &'a [String]),
    LabelPresent(&'a str),
    Namespaces(&'a [String]),
    /// It selects nothing, ever.
    Nowhere,
    Rest,
}

impl<'a> Anchor<'a> {
    /// The narrowest: a name, then a field, then a label, whose values tend to be fewer, then the namespace.
    fn of(selection: &'a Selection) -> Anchor<'a> {
        let mut best = match &selection.namespace {
            Some(namespace) => Anchor::Namespaces(std::slice::from_ref(namespace)),
            None => Anchor::Rest,
        };
        for term in &selection.fields {
            if term.field == FieldRef::Empty {
                if !term.holds_for_nothing_there() {
                    return Anchor::Nowhere;
                }
                continue;
            }
            let values = match &term.operator {
                FieldExpressionOperator::In(values) if values.len() <= MOST_VALUES => &values[..],
                FieldExpressionOperator::In(_)
                | FieldExpressionOperator::NotIn(_)
                | FieldExpressionOperator::Exists
                | FieldExpressionOperator::DoesNotExist => continue,
            };
            best = best.narrower(match term.field {
                FieldRef::Name => Anchor::Names(values),
                FieldRef::Field(index) => Anchor::Fields(index, values),
                FieldRef::Namespace => Anchor::Namespaces(values),
                FieldRef::Empty => continue,
            });
        }
        for requirement in &selection.labels.requirements {
            let found = match &requirement.operator {
                LabelOperator::In(values) if values.len() <= MOST_VALUES => Anchor::Labels(&requirement.key, values),
                LabelOperator::In(_)
                | LabelOperator::Exists
                | LabelOperator::GreaterThan(_)
                | LabelOperator::LessThan(_) => Anchor::LabelPresent(&requirement.key),
                LabelOperator::NotIn(_) | LabelOperator::DoesNotExist => continue,
            };
            best = best.narrower(found);
        }
        best
    }

    fn narrower(self, other: Anchor<'a>) -> Anchor<'a> {
        if other.breadth() < self.breadth() { other } else { self }
    }

    fn breadth(self) -> usize {
        match self {
            Anchor::Nowhere => 0,
            Anchor::Names(names) => names.len(),
            // What most objects lack reads as empty: no good place to stand.
            Anchor::Fields(_, values) if values.iter().any(String::is_empty) => MOST_VALUES + 3,
            Anchor::Fields(_, values) => 1 + values.len(),
            Anchor::Labels(_, values) => 2 + values.len(),
            Anchor::LabelPresent(_) => MOST_VALUES + 4,
            Anchor::Namespaces(namespaces) => MOST_VALUES + 4 + namespaces.len(),
            Anchor::Rest => usize::MAX,
        }
    }
}

impl Routes {
    /// Adds a subscription; the same number again only after [`Routes::remove`].
    pub fn insert(&mut self, id: SubscriptionId, selection: &Selection) {
        self.at_anchor(selection, |held| held.push(id));
    }

    /// Takes a subscription away that was added with this selection.
    pub fn remove(&mut self, id: SubscriptionId, selection: &Selection) {
        self.at_anchor(selection, |held| {
            if let Some(place) = held.iter().position(|held| *held == id) {
                held.swap_remove(place);
            }
        });
        self.sweep(selection);
    }

    fn at_anchor(&mut self, selection: &Selection, mut change: impl FnMut(&mut Vec<SubscriptionId>)) {
        let mut by_text = |map: &mut ByText, text: &str| {
            if let Some(held) = map.get_mut(text) {
                change(held);
            } else {
                change(map.entry(text.into()).or_default());
            }
        };
        match Anchor::of(selection) {
            Anchor::Nowhere => {}
            Anchor::Names(names) => names.iter().for_each(|name| by_text(&mut self.names, name)),
            Anchor::Fields(index, values) => {
                let held = self.field(index);
                values.iter().for_each(|value| by_text(held, value));
            }
            Anchor::Labels(key, values) => {
                let label = self.labels.entry(key.into()).or_default();
                values.iter().for_each(|value| by_text(&mut label.values, value));
            }
            Anchor::LabelPresent(key) => change(&mut self.labels.entry(key.into()).or_default().present),
            Anchor::Namespaces(names) => names.iter().for_each(|name| by_text(&mut self.namespaces, name)),
            Anchor::Rest => change(&mut self.rest),
        }
    }

    fn field(&mut self, index: FieldIndex) -> &mut ByText {
        let place = match self.fields.binary_search_by_key(&index, |(held, _)| *held) {
            Ok(place) => place,
            Err(place) => {
                self.fields.insert(place, (index, ByText::default()));
                place
            }
        };
        &mut self.fields[place].1
    }

    /// Forgets places where nobody stands any more: values come and go without end.
    fn sweep(&mut self, selection: &Selection) {
        fn sweep_text(map: &mut ByText, text: &str) {
            if map.get(text).is_some_and(Vec::is_empty) {
                map.remove(text);
            }
        }
        match Anchor::of(selection) {
            Anchor::Nowhere | Anchor::Rest => {}
            Anchor::Names(names) => names.iter().for_each(|name| sweep_text(&mut self.names, name)),
            Anchor::Fields(index, values) => {
                let held = self.field(index);
                values.iter().for_each(|value| sweep_text(held, value));
                self.fields.retain(|(_, values)| !values.is_empty());
            }
            anchor @ (Anchor::Labels(key, _) | Anchor::LabelPresent(key)) => {
                if let Some(label) = self.labels.get_mut(key) {
                    if let Anchor::Labels(_, values) = anchor {
                        values.iter().for_each(|value| sweep_text(&mut label.values, value));
                    }
                    if label.values.is_empty() && label.present.is_empty() {
                        self.labels.remove(key);
                    }
                }
            }
            Anchor::Namespaces(names) => names.iter().for_each(|name| sweep_text(&mut self.namespaces, name)),
        }
    }

    /// Adds to `touched` whoever may be concerned; some may come twice.
    pub fn touched(&self, change: &Change, touched: &mut Vec<SubscriptionId>) {
        touched.extend_from_slice(&self.rest);
        let (before, after) = (change.before.as_ref(), change.after.as_ref());
        // The name and the namespace of an object never change.
        if let Some(object) = after.or(before) {
            extend(touched, &self.names, object.name());
            extend(touched, &self.namespaces, object.namespace());
        }
        if let Some(object) = after {
            self.touched_by_values(object, None, touched);
        }
        if let Some(object) = before {
            self.touched_by_values(object, after, touched);
        }
    }

    /// By what an object has and `known` has not: what stayed the same has been looked up. Labels and values are sorted, so both
    /// objects are walked once.
    fn touched_by_values(&self, object: &Object, known: Option<&Object>, touched: &mut Vec<SubscriptionId>) {
        for (index, values) in &self.fields {
            let mut known = known.into_iter().flat_map(|known| known.values(*index)).peekable();
            for value in object.values(*index) {
                while known.next_if(|held| *held < value).is_some() {}
                if known.peek() != Some(&value) {
                    extend(touched, values, value);
                }
            }
        }
        if self.labels.is_empty() {
            return;
        }
        let mut known = known.into_iter().flat_map(Object::labels).peekable();
        for (key, value) in object.labels() {
            while known.next_if(|(held, _)| *held < key).is_some() {}
            if let Some(label) = self.labels.get(key) {
                let held = known.peek().filter(|(held, _)| *held == key).map(|(_, held)| *held);
                if held != Some(value) {
                    extend(touched, &label.values, value);
                }
                if held.is_none() {
                    touched.extend_from_slice(&label.present);
                }
            }
        }
    }

    /// How many are touched by every change.
    pub fn unanchored(&self) -> usize {
        self.rest.len()
    }
}

fn extend(touched: &mut Vec<SubscriptionId>, map: &ByText, text: &str) {
    // Most maps are empty, and hashing costs more than asking.
    if !map.is_empty()
        && let Some(held) = map.get(text)
    {
        touched.extend_from_slice(held);
    }
}
