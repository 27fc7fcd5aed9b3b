//! A selection in about the memory of its text, which can test one object. Open watches store these.
//!
//! A [`Selection`] takes about ten times the length of its selector, with one allocation for each value. This is fine
//! for a request, but too much for each of many watches. Here one string has all texts, and one list of numbers has the
//! requirements. A compact selection cannot be planned, printed, changed or converted back.
//!
//! It is also the fast test of one object. Keys and values are sorted, so many requirements or large sets are not
//! walked once for each label or value.

use std::cmp::Ordering;

use super::selection::{FieldTerm, Selection};
use crate::extract::FieldRef;
use crate::model::FieldIndex;
use crate::selector::{LabelRequirement, Operand, Operator, OperatorName, SortedValues};
use crate::store::Object;

/// Up to this number of texts, each is searched in an object. For more requirements, the labels of the object are
/// walked once instead.
const SEARCHED: u32 = 8;

/// Tests objects.
pub trait Selects {
    /// Whether the object is selected.
    fn selects(&self, object: &Object) -> bool;
}

impl Selects for Selection {
    fn selects(&self, object: &Object) -> bool {
        self.matches(object)
    }
}

/// A selection in little memory; see the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompactSelection {
    /// All keys and values, one after the other.
    text: Box<str>,
    /// The requirements. Each begins with the index of its operator in [`OperatorName::ALL`] and, for fields, the
    /// field. For labels the key follows. Then comes the operand: two halves of a number, or the count of a list and
    /// its values. A text is stored as the offset of its end.
    codes: Box<[u32]>,
    has_namespace: bool,
    /// How many requirements are on labels. They come first, in the order of their keys.
    labels: u32,
    /// The number of requirements on fields.
    fields: u32,
}

/// The field of a requirement is in the upper half of its code.
const FIELD_SHIFT: u32 = 16;
const CODE: u32 = (1 << FIELD_SHIFT) - 1;
const NAME: u32 = 0;
const NAMESPACE: u32 = 1;
const EMPTY: u32 = 2;
const FIRST_FIELD: u32 = 3;

/// The code of a field.
fn number_of(field: FieldRef) -> u32 {
    match field {
        FieldRef::Name => NAME,
        FieldRef::Namespace => NAMESPACE,
        FieldRef::Empty => EMPTY,
        FieldRef::Field(index) => FIRST_FIELD + u32::from(index.0),
    }
}

/// The code of an operator.
fn code(name: OperatorName) -> u32 {
    name as u32
}

/// The operator of a code: variants are numbered in the order of [`OperatorName::ALL`].
fn name(code: u32) -> OperatorName {
    OperatorName::ALL.get((code & CODE) as usize).copied().unwrap_or(OperatorName::In)
}

#[derive(Default)]
struct Writer {
    text: String,
    codes: Vec<u32>,
}

impl Writer {
    /// Appends a text.
    fn text(&mut self, text: &str) {
        self.text.push_str(text);
        // A request has far less than 4 GiB.
        self.codes.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    /// Appends a sorted set of values.
    fn set(&mut self, values: &[String]) {
        self.codes.push(u32::try_from(values.len()).unwrap_or(u32::MAX));
        let mut values: Vec<&str> = values.iter().map(String::as_str).collect();
        values.sort_unstable();
        values.into_iter().for_each(|value| self.text(value));
    }

    /// Appends a number as two codes.
    fn number(&mut self, number: i64) {
        let bits = number.cast_unsigned();
        self.codes.extend([(bits >> 32) as u32, bits as u32]);
    }

    /// Appends the operand of an operator.
    fn operand(&mut self, operator: &Operator) {
        match operator.operand() {
            Operand::None => {}
            Operand::Values(values) => self.set(values),
            Operand::Number(number) => self.number(number),
        }
    }

    /// Appends a term.
    fn field(&mut self, term: &FieldTerm) {
        self.codes.push(code(term.operator.name()) | (number_of(term.field) << FIELD_SHIFT));
        self.operand(&term.operator);
    }
}

impl CompactSelection {
    /// Compiles a selection.
    pub fn new(selection: &Selection) -> CompactSelection {
        let mut writer = Writer::default();
        if let Some(namespace) = &selection.namespace {
            writer.text(namespace);
        }
        let mut requirements: Vec<&LabelRequirement> = selection.labels.requirements.iter().collect();
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        for requirement in requirements {
            writer.codes.push(code(requirement.operator.name()));
            writer.text(&requirement.key);
            writer.operand(&requirement.operator);
        }
        selection.fields.iter().for_each(|term| writer.field(term));
        CompactSelection {
            text: writer.text.into(),
            codes: writer.codes.into(),
            has_namespace: selection.namespace.is_some(),
            labels: u32::try_from(selection.labels.requirements.len()).unwrap_or(u32::MAX),
            fields: u32::try_from(selection.fields.len()).unwrap_or(u32::MAX),
        }
    }

    /// The number of requirements. Each of them may be compared with an object.
    pub fn requirements(&self) -> usize {
        self.labels as usize + self.fields as usize
    }

    /// Memory beside the value itself, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.codes)
    }
}

/// A place in a compact selection.
struct Reader<'s> {
    text: &'s str,
    codes: std::slice::Iter<'s, u32>,
    /// Where the next text begins.
    begin: usize,
}

impl<'s> Reader<'s> {
    /// The next code.
    fn code(&mut self) -> Option<u32> {
        self.codes.next().copied()
    }

    /// The next text.
    fn text(&mut self) -> &'s str {
        let end = self.code().unwrap_or_default() as usize;
        let text = self.text.get(self.begin..end).unwrap_or_default();
        self.begin = end;
        text
    }

    /// The next set of values.
    fn set(&mut self) -> Set<'s> {
        let count = self.code().unwrap_or_default() as usize;
        let (ends, rest) = self.codes.as_slice().split_at_checked(count).unwrap_or_default();
        let set = Set { text: self.text, begin: self.begin, ends };
        self.codes = rest.iter();
        self.begin = ends.last().map_or(self.begin, |end| *end as usize);
        set
    }

    /// The next number, from two codes.
    fn number(&mut self) -> i64 {
        let (high, low) = (self.code().unwrap_or_default(), self.code().unwrap_or_default());
        ((u64::from(high) << 32) | u64::from(low)).cast_signed()
    }

    /// The operand of this operator, which comes next.
    fn operand(&mut self, name: OperatorName) -> Operand<Set<'s>> {
        match name.operand() {
            Operand::None => Operand::None,
            Operand::Values(()) => Operand::Values(self.set()),
            Operand::Number(_) => Operand::Number(self.number()),
        }
    }

    /// Whether the label of the next requirement satisfies it.
    fn label<'o>(&mut self, value: impl FnOnce(&str) -> Option<&'o str>) -> bool {
        let name = name(self.code().unwrap_or_default());
        let value = value(self.text());
        let operand = self.operand(name);
        value.is_some_and(|value| name.accepts(&operand, value)) != name.is_negative()
    }

    /// Whether an object satisfies the next term, which begins with this code.
    fn field(&mut self, code: u32, object: &Object) -> bool {
        let name = name(code);
        let operand = self.operand(name);
        let accepts = |value: &str| name.accepts_of_field(&operand, value);
        let (is_found, is_unknown) = match code >> FIELD_SHIFT {
            NAME => (accepts(object.name()), false),
            NAMESPACE => (accepts(object.namespace()), false),
            EMPTY => (accepts(""), false),
            field => {
                let index = FieldIndex(u16::try_from(field - FIRST_FIELD).unwrap_or(u16::MAX));
                let is_found = match &operand {
                    Operand::Values(set) if name.lists_values() && object.has_many_texts() => set.meets(object, index),
                    Operand::None | Operand::Values(_) | Operand::Number(_) => object.values(index).any(accepts),
                };
                (is_found, object.has_unknown(index))
            }
        };
        is_found != name.is_negative() && !(name.is_negative() && is_unknown)
    }
}

/// A sorted set of values.
struct Set<'s> {
    text: &'s str,
    /// Where the first value begins.
    begin: usize,
    ends: &'s [u32],
}

impl Set<'_> {
    /// The value at this index.
    fn value(&self, index: usize) -> &str {
        let begin =
            index.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(self.begin, |end| *end as usize);
        let end = self.ends.get(index).copied().unwrap_or_default() as usize;
        self.text.get(begin..end).unwrap_or_default()
    }

    /// Whether the set has one of the many values of a field. The values of the smaller side are searched in the larger
    /// one.
    fn meets(&self, object: &Object, field: FieldIndex) -> bool {
        if self.ends.len() <= SEARCHED as usize || object.values(field).nth(self.ends.len()).is_some() {
            (0..self.ends.len()).any(|index| object.has_value(field, self.value(index)))
        } else {
            object.values(field).any(|value| self.has(value))
        }
    }
}

impl SortedValues for Set<'_> {
    fn has(&self, wanted: &str) -> bool {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.value(middle).cmp(wanted) {
                Ordering::Equal => return true,
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        false
    }
}

impl Selects for CompactSelection {
    fn selects(&self, object: &Object) -> bool {
        let mut reader = Reader { text: &self.text, codes: self.codes.iter(), begin: 0 };
        if self.has_namespace && reader.text() != object.namespace() {
            return false;
        }
        // Of objects with very many labels, each is found by its place.
        let is_walked = self.labels > SEARCHED && !object.has_many_texts();
        let mut labels = is_walked.then(|| object.labels().peekable());
        for _ in 0..self.labels {
            let is_met = match &mut labels {
                Some(labels) => reader.label(|key| {
                    while labels.next_if(|(other, _)| *other < key).is_some() {}
                    labels.peek().filter(|(other, _)| *other == key).map(|(_, value)| *value)
                }),
                None => reader.label(|key| object.label(key)),
            };
            if !is_met {
                return false;
            }
        }
        while let Some(code) = reader.code() {
            if !reader.field(code, object) {
                return false;
            }
        }
        true
    }
}
