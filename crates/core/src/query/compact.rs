//! A selection in about the memory of its text, which can test one object. Open watches store these.
//!
//! A [`Selection`] takes about ten times the length of its selector, with one allocation for each value. This is fine
//! for a request, but too much for each of many watches. Here one string has all texts, and one list of numbers has the
//! requirements. A compact selection cannot be planned, printed, changed or converted back.
//!
//! It is also the fast test of one object. Keys and values are sorted, so many requirements or large sets are not
//! walked once for each label or value.

use std::cmp::Ordering;
use std::sync::Arc;

use super::cel_filter::CelFilter;
use super::selection::{FieldTerm, Selection};
use super::work::Work;
use crate::extract::FieldRef;
use crate::model::FieldIndex;
use crate::selector::{LabelRequirement, Operand, Operator, OperatorName, Shard, SortedValues, TestedValues};
use crate::store::Object;

/// Up to this many keys or values are each searched in an object. For more, the labels or values of the object are
/// walked once instead.
const SEARCHED: u32 = 8;

/// The steps to test one object: a cache miss, and a walk over some of its labels.
const STEPS_OF_OBJECT: u64 = 32;

/// The steps to test one requirement.
const STEPS_OF_REQUIREMENT: u64 = 2;

/// The steps to look up one value in an object of very many values.
const STEPS_OF_LOOKUP: u64 = 25;

/// The steps to read one label or value of an object, on the way to the values of a field.
const STEPS_OF_TEXT: u64 = 2;

/// The steps to read one value as an integer, and to compare it.
const STEPS_OF_INTEGER: u64 = 25;

/// The requirements of a selection, without its expression.
pub trait Requirements {
    /// Whether the object meets all of them.
    fn are_met_by(&self, object: &Object) -> bool;
}

impl Requirements for Selection {
    fn are_met_by(&self, object: &Object) -> bool {
        self.meets_requirements(object)
    }
}

impl Requirements for CompactSelection {
    fn are_met_by(&self, object: &Object) -> bool {
        self.meets_requirements(object)
    }
}

/// A selection in little memory; see the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompactSelection {
    /// The namespace, and all keys and values, one after the other.
    text: Box<str>,
    /// The namespace, if there is one, and the requirements. Each begins with the index of its operator in
    /// [`OperatorName::ALL`]; for fields, the code of the field is in the upper half. For labels the key follows. Then
    /// comes the operand: the upper and lower half of a number, or the number of values and the values. A text is
    /// stored as the offset of its end in `text`.
    codes: Box<[u32]>,
    has_namespace: bool,
    /// How many requirements are on labels. They come first, in the order of their keys.
    labels: u32,
    /// The number of requirements on fields.
    fields: u32,
    /// The number of values and prefixes that the requirements on fields have.
    looked_up: u32,
    /// The number of requirements on fields that compare integers, and so read all values of the field.
    ranges: u32,
    shard: Option<Arc<Shard>>,
    cel: Option<Arc<CelFilter>>,
}

/// The code of a field is in the upper half of the code of a requirement.
const FIELD_SHIFT: u32 = 16;
/// The bits of an operator in the code of a requirement.
const CODE: u32 = (1 << FIELD_SHIFT) - 1;
// The codes of fields. That of a field of the extractor is the sum of its index and `FIRST_FIELD`.
const NAME: u32 = 0;
const NAMESPACE: u32 = 1;
const EMPTY: u32 = 2;
const FIRST_FIELD: u32 = 3;

/// The code of a field.
fn code_of_field(field: FieldRef) -> u32 {
    match field {
        FieldRef::Name => NAME,
        FieldRef::Namespace => NAMESPACE,
        FieldRef::Empty => EMPTY,
        FieldRef::Field(index) => FIRST_FIELD + u32::from(index.0),
    }
}

/// The code of an operator: its index in [`OperatorName::ALL`], which has the variants in order.
fn code_of_operator(name: OperatorName) -> u32 {
    name as u32
}

/// The operator of a requirement with this code.
fn operator_of_code(code: u32) -> OperatorName {
    OperatorName::ALL.get((code & CODE) as usize).copied().unwrap_or(OperatorName::In)
}

/// Writes the texts and codes of a [`CompactSelection`].
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

    /// Appends the number of values, and the values in sorted order.
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

    /// Appends a requirement on a field.
    fn field(&mut self, term: &FieldTerm) {
        self.codes.push(code_of_operator(term.operator.name()) | (code_of_field(term.field) << FIELD_SHIFT));
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
            writer.codes.push(code_of_operator(requirement.operator.name()));
            writer.text(&requirement.key);
            writer.operand(&requirement.operator);
        }
        selection.fields.iter().for_each(|term| writer.field(term));
        let (mut looked_up, mut ranges) = (0, 0);
        for term in &selection.fields {
            match term.operator.values() {
                TestedValues::Listed(values) => looked_up += values.len(),
                TestedValues::WithPrefix(_) | TestedValues::Any => looked_up += 1,
                TestedValues::Integers(_) => ranges += 1,
            }
        }
        CompactSelection {
            text: writer.text.into(),
            codes: writer.codes.into(),
            has_namespace: selection.namespace.is_some(),
            labels: u32::try_from(selection.labels.requirements.len()).unwrap_or(u32::MAX),
            fields: u32::try_from(selection.fields.len()).unwrap_or(u32::MAX),
            looked_up: u32::try_from(looked_up).unwrap_or(u32::MAX),
            ranges,
            shard: selection.shard.clone(),
            cel: selection.cel.clone(),
        }
    }

    /// Whether the selection selects the object. Counts the work, and waits for the turns that an expression needs. The
    /// expression counts the object too, and selects no further object after a limit is exceeded: see
    /// [`CelFilter::result`].
    pub async fn test(&self, object: &Object, work: &mut Work) -> bool {
        work.spend(self.steps_of_test(object)).await;
        if !self.meets_requirements(object) {
            return false;
        }
        match &self.cel {
            Some(cel) => cel.test_in_turns(object, work).await,
            None => true,
        }
    }

    /// The expression, if the selection has one.
    pub fn cel(&self) -> Option<&Arc<CelFilter>> {
        self.cel.as_ref()
    }

    /// The work of testing an object for the requirements, without the expression, in steps of some ten nanoseconds. Each
    /// requirement on a field reads the labels and values of the object that come before those of the field. In an
    /// object of very many values, each value and prefix of a requirement is looked up instead. A range of integers reads
    /// all values.
    pub fn steps_of_test(&self, object: &Object) -> u64 {
        let steps = STEPS_OF_OBJECT + self.requirements() as u64 * STEPS_OF_REQUIREMENT;
        if object.has_many_texts() {
            let texts = if self.ranges > 0 { object.text_count() as u64 } else { 0 };
            return steps
                + u64::from(self.looked_up) * STEPS_OF_LOOKUP
                + u64::from(self.ranges) * texts * STEPS_OF_INTEGER;
        }
        // Counting the values takes about as long as one requirement.
        let texts = if self.fields > SEARCHED { object.text_count() } else { object.label_count() };
        steps + u64::from(self.fields) * texts as u64 * STEPS_OF_TEXT
    }

    /// The number of requirements on labels and fields. The cost of a test grows with it.
    pub fn requirements(&self) -> usize {
        self.labels as usize + self.fields as usize
    }

    /// Memory on the heap, in bytes.
    pub fn held_bytes(&self) -> usize {
        let shard = self.shard.as_ref().map_or(0, |shard| shard.held_bytes());
        let cel = self.cel.as_ref().map_or(0, |cel| cel.held_bytes());
        self.text.len() + size_of_val(&*self.codes) + shard + cel
    }
}

/// A position in a compact selection, from which requirements are read in order. A missing code reads as 0, and a
/// missing text as empty; neither occurs in what [`Writer`] writes.
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

    /// Reads the next requirement, which is on a label. Returns whether the object satisfies it. `value` returns the
    /// object's value of a label, by the key.
    fn label<'o>(&mut self, value: impl FnOnce(&str) -> Option<&'o str>) -> bool {
        let name = operator_of_code(self.code().unwrap_or_default());
        let value = value(self.text());
        let operand = self.operand(name);
        value.is_some_and(|value| name.accepts(&operand, value)) != name.is_negative()
    }

    /// Reads the rest of a requirement on a field, which begins with this code. Returns whether the object satisfies
    /// it.
    fn field(&mut self, code: u32, object: &Object) -> bool {
        let name = operator_of_code(code);
        let operand = self.operand(name);
        let accepts = |value: &str| name.accepts_of_field(&operand, value);
        let (is_found, index) = match code >> FIELD_SHIFT {
            NAME => (accepts(object.name()), None),
            NAMESPACE => (accepts(object.namespace()), None),
            EMPTY => (accepts(""), None),
            field => {
                let index = FieldIndex(u16::try_from(field - FIRST_FIELD).unwrap_or(u16::MAX));
                let is_found = match &operand {
                    Operand::Values(set) if name.lists_values() && object.has_many_texts() => set.meets(object, index),
                    // The only other operator with a value is the one for a prefix.
                    Operand::Values(prefix) if object.has_many_texts() => {
                        object.has_value_with_prefix(index, prefix.value(0))
                    }
                    Operand::None | Operand::Values(_) | Operand::Number(_) => object.values(index).any(accepts),
                };
                (is_found, Some(index))
            }
        };
        // An object whose values are unknown satisfies no requirement on the field.
        is_found != name.is_negative() && !(name.is_negative() && index.is_some_and(|index| object.has_unknown(index)))
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

    /// Whether the object has a value of this set in a field with many values. The values of the smaller side are
    /// searched in the larger one.
    fn meets(&self, object: &Object, field: FieldIndex) -> bool {
        if self.ends.len() <= SEARCHED as usize || object.values(field).nth(self.ends.len()).is_some() {
            (0..self.ends.len()).any(|index| object.has_value(field, self.value(index)))
        } else {
            object.values(field).any(|value| self.has(value))
        }
    }
}

impl SortedValues for Set<'_> {
    fn begins(&self, value: &str) -> bool {
        !self.ends.is_empty() && value.starts_with(self.value(0))
    }

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

impl CompactSelection {
    /// Whether the object has what the selection requires, apart from its expression.
    pub fn meets_requirements(&self, object: &Object) -> bool {
        let mut reader = Reader { text: &self.text, codes: self.codes.iter(), begin: 0 };
        if self.has_namespace && reader.text() != object.namespace() {
            return false;
        }
        if self.shard.as_ref().is_some_and(|shard| !shard.selects(object.uid_hash(), object.namespace())) {
            return false;
        }
        // An object with very many labels has a table, in which each key is searched.
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
