//! Evaluates a template on an object, as client-go's `jsonpath.go` does.
//!
//! All values of a step are found before the next step, for two reasons. An error at any of them is an error of the
//! whole template. A filter that only tests whether there are values uses the input of the step that failed.

use super::compare::{Scalar, compare};
use super::template::{Filter, JsonPath, Literal, PathNode, Slice, SliceEnd, Steps, Test, Word};
use crate::json::tree::{NodeId, NodeKind, Tree};

/// Searches in one object, with a bound on the values that they visit together.
///
/// A template can visit a value once for each step and each way that leads to it. With two descents this is quadratic
/// in the object, and upstream has no bound. The bounds grow with the object, so that many small objects do not add up.
pub struct Search<'t, 'b> {
    tree: &'t Tree<'b>,
    /// How many values may be visited.
    most: usize,
    /// How many more values may be visited.
    left: usize,
    /// The maximum number of values that one step may find.
    most_held: usize,
}

/// A value that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FoundValue<'p> {
    /// A value of the object.
    Node(NodeId),
    /// A literal of the template.
    Literal(&'p Literal),
    /// A byte of a text.
    Byte(u8),
}

/// The number of visits that are allowed for any object.
const LEAST_VISITS: usize = 1 << 16;

/// The number of further visits for each byte of the object.
const VISITS_PER_BYTE: usize = 32;

/// The maximum number of visits. Ten columns that each filter a list of 100,000 small objects need fewer.
const MOST_VISITS: usize = 1 << 23;

/// The bytes of a number, or of a text without escapes, that can be read in the time of a visit.
pub const BYTES_OF_A_VISIT: usize = 16;

/// The visits that are counted for a list without steps, such as `@` in a filter. A filter with it tests an element
/// without any other visit, and one list can be reached in very many ways.
const VISITS_WITHOUT_STEPS: usize = 2;

/// The number of values that one step may find in any object. If the object has more bytes, it is their number.
const LEAST_HELD: usize = 1 << 14;

/// The reason why a search ends without a result.
enum SearchError {
    /// The template does not fit the value. A filter that only tests whether there are values uses those that were
    /// found before the error.
    Unfit,
    /// Two values of a filter cannot be compared. The elements before them are its result.
    Incomparable,
    /// The search visits too many values, or upstream's result depends on other objects (`range`). The whole template
    /// has no result.
    Final,
}

impl<'t, 'b> Search<'t, 'b> {
    /// A search for the cells of one row.
    pub fn new(tree: &'t Tree<'b>) -> Search<'t, 'b> {
        let bytes = tree.bytes(tree.root()).len();
        let most = LEAST_VISITS.saturating_add(bytes.saturating_mul(VISITS_PER_BYTE)).min(MOST_VISITS);
        Search { tree, most, left: most, most_held: bytes.max(LEAST_HELD) }
    }

    /// How many more values may be visited.
    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.left
    }

    /// How many values were visited.
    pub fn visits(&self) -> usize {
        self.most - self.left
    }

    /// The first result of the first action of a template. `None` if there is none, if any action is an error, or if
    /// all searches together have visited too many values.
    pub fn first<'p>(&mut self, path: &'p JsonPath) -> Option<FoundValue<'p>> {
        let mut first = None;
        for (index, action) in path.actions().iter().enumerate() {
            let mut found = vec![FoundValue::Node(self.tree.root())];
            self.follow(action, &mut found).ok()?;
            if index == 0 {
                first = found.first().copied();
            }
        }
        first
    }

    /// Counts visited values, and fails if there were too many.
    fn visit(&mut self, count: usize) -> Result<(), SearchError> {
        self.left = self.left.checked_sub(count).ok_or(SearchError::Final)?;
        Ok(())
    }

    /// Adds a value to `found`, and fails if there are too many.
    fn add<'p>(&mut self, found: &mut Vec<FoundValue<'p>>, one: FoundValue<'p>) -> Result<(), SearchError> {
        self.visit(1)?;
        if found.len() >= self.most_held {
            return Err(SearchError::Final);
        }
        found.push(one);
        Ok(())
    }

    /// Reserves capacity for `count` more values, but not for more than are allowed. A list that grows step by step
    /// would be in memory twice.
    fn reserve(&self, found: &mut Vec<FoundValue<'_>>, count: usize) {
        found.reserve(count.min(self.left).min(self.most_held.saturating_sub(found.len())));
    }

    /// Replaces the values in `found` by the results of the steps for them. On an error, `found` has the values that
    /// client-go returns with the error.
    fn follow<'p>(&mut self, list: &'p Steps, found: &mut Vec<FoundValue<'p>>) -> Result<(), SearchError> {
        if list.is_empty() {
            self.visit(VISITS_WITHOUT_STEPS)?;
        }
        for node in list {
            self.visit(1 + found.len())?;
            match node {
                PathNode::Field(name) => {
                    // In place: most templates are names.
                    let mut kept = 0;
                    for index in 0..found.len() {
                        if let Some(member) = self.member(found[index], name)? {
                            found[kept] = member;
                            kept += 1;
                        }
                    }
                    found.truncate(kept);
                }
                // As in client-go, a text is one result, and any other literal is one for each value before it.
                PathNode::Literal(literal @ Literal::Text(_)) => {
                    found.clear();
                    found.push(FoundValue::Literal(literal));
                }
                PathNode::Literal(literal) => found.fill(FoundValue::Literal(literal)),
                PathNode::Wildcard => *found = self.all(found)?,
                PathNode::Recursive => *found = self.descendants(found)?,
                PathNode::Slice(slice) => *found = self.slices(slice, found)?,
                PathNode::Filter(filter) => self.filter(filter, found)?,
                PathNode::Union(lists) => {
                    let mut all = Vec::new();
                    for list in lists {
                        let mut part = found.clone();
                        self.visit(part.len())?;
                        self.follow(list, &mut part)?;
                        for one in part {
                            self.add(&mut all, one)?;
                        }
                    }
                    *found = all;
                }
                PathNode::Range => return Err(SearchError::Final),
                // client-go returns no values with this error, and all values so far with that of an unknown word.
                PathNode::Word(Word::End) => {
                    found.clear();
                    return Err(SearchError::Unfit);
                }
                PathNode::Word(Word::Unknown) => return Err(SearchError::Unfit),
            }
        }
        Ok(())
    }

    /// The member of this name; `None` if there is none, or if the value is not an object.
    fn member<'p>(&mut self, value: FoundValue<'p>, name: &str) -> Result<Option<FoundValue<'p>>, SearchError> {
        let FoundValue::Node(id) = value else { return Ok(None) };
        if self.tree.kind(id) != NodeKind::Map {
            return Ok(None);
        }
        let mut member = self.tree.first(id);
        while let Some(id) = member {
            let (is_same, read) = self.tree.compare_key(id, name);
            // The comparison of a long name counts as several visits.
            self.visit(1 + read / BYTES_OF_A_VISIT)?;
            if is_same {
                return Ok(Some(FoundValue::Node(id)));
            }
            member = self.tree.next(id);
        }
        Ok(None)
    }

    /// All members of objects, elements of lists, and bytes of texts.
    fn all<'p>(&mut self, values: &[FoundValue<'p>]) -> Result<Vec<FoundValue<'p>>, SearchError> {
        let mut found = Vec::new();
        for &value in values {
            match value {
                FoundValue::Node(id) if self.tree.kind(id) != NodeKind::Scalar => {
                    let mut child = self.tree.first(id);
                    self.reserve(&mut found, self.tree.children(id).count());
                    while let Some(id) = child {
                        self.add(&mut found, FoundValue::Node(id))?;
                        child = self.tree.next(id);
                    }
                }
                value @ (FoundValue::Node(_) | FoundValue::Literal(_) | FoundValue::Byte(_)) => {
                    if let Some(Scalar::Text(text)) = scalar(self.tree, value) {
                        self.reserve(&mut found, text.len());
                        for byte in text.iter() {
                            self.add(&mut found, FoundValue::Byte(*byte))?;
                        }
                    }
                }
            }
        }
        Ok(found)
    }

    /// The values and all their descendants that are containers or strings and not empty: containers before their
    /// content. Numbers, booleans and null are left out, as in client-go.
    fn descendants<'p>(&mut self, values: &[FoundValue<'p>]) -> Result<Vec<FoundValue<'p>>, SearchError> {
        let mut found = Vec::new();
        // The next sibling on each level; objects are too deep for recursion.
        let mut open: Vec<Option<NodeId>> = Vec::new();
        for &value in values {
            let mut visited = value;
            loop {
                match visited {
                    FoundValue::Node(id) if self.tree.kind(id) != NodeKind::Scalar => {
                        if let Some(first) = self.tree.first(id) {
                            self.add(&mut found, visited)?;
                            open.push(Some(first));
                        }
                    }
                    FoundValue::Node(id) if matches!(self.tree.bytes(id), [b'"', _, .., b'"']) => {
                        self.add(&mut found, visited)?;
                    }
                    FoundValue::Literal(Literal::Text(text)) if !text.is_empty() => self.add(&mut found, visited)?,
                    FoundValue::Node(_) | FoundValue::Literal(_) | FoundValue::Byte(_) => {}
                }
                while open.last() == Some(&None) {
                    open.pop();
                }
                let Some(Some(next)) = open.last_mut().map(|next| {
                    let visited = *next;
                    *next = visited.and_then(|id| self.tree.next(id));
                    visited
                }) else {
                    break;
                };
                self.visit(1)?;
                visited = FoundValue::Node(next);
            }
        }
        Ok(found)
    }

    /// The elements that a slice selects from each list. Null has none; any other value is an error.
    fn slices<'p>(&mut self, slice: &Slice, values: &[FoundValue<'p>]) -> Result<Vec<FoundValue<'p>>, SearchError> {
        let mut found = Vec::new();
        for &value in values {
            let FoundValue::Node(id) = value else { return Err(SearchError::Unfit) };
            match self.tree.kind(id) {
                NodeKind::List => {}
                NodeKind::Scalar if self.tree.bytes(id) == b"null" => continue,
                NodeKind::Scalar | NodeKind::Map => return Err(SearchError::Unfit),
            }
            let length = self.tree.children(id).count();
            self.visit(length)?;
            let Some((first, end)) = bounds(slice, length)? else {
                // As in client-go, an empty slice ends the step: lists after this one are not read.
                return Ok(found);
            };
            let step = match slice.step {
                None => 1,
                // A step that is longer than any list selects the first element only.
                Some(step) if step > 0 => usize::try_from(step).unwrap_or(usize::MAX),
                Some(_) => return Err(SearchError::Unfit),
            };
            self.reserve(&mut found, (end - first).div_ceil(step));
            for element in self.tree.children(id).take(end).skip(first).step_by(step) {
                self.add(&mut found, FoundValue::Node(element))?;
            }
        }
        Ok(found)
    }

    /// Replaces the lists in `values` by those of their elements that pass the filter.
    fn filter<'p>(&mut self, filter: &'p Filter, values: &mut Vec<FoundValue<'p>>) -> Result<(), SearchError> {
        let mut found = Vec::new();
        for &value in &*values {
            let FoundValue::Node(id) = value else { return Err(SearchError::Unfit) };
            if self.tree.kind(id) != NodeKind::List {
                return Err(SearchError::Unfit);
            }
            let mut element = self.tree.first(id);
            while let Some(id) = element {
                match self.passes(filter, id) {
                    Ok(true) => self.add(&mut found, FoundValue::Node(id))?,
                    Ok(false) => {}
                    // client-go returns the elements that passed so far with this error.
                    Err(SearchError::Incomparable) => {
                        *values = found;
                        return Err(SearchError::Unfit);
                    }
                    Err(error) => return Err(error),
                }
                element = self.tree.next(id);
            }
        }
        *values = found;
        Ok(())
    }

    /// The value as a scalar that can be compared; `None` if it is an object, a list or null. The bytes that are read
    /// count as visits, because a template can compare the same long text very often.
    fn comparable<'v>(&mut self, value: FoundValue<'v>) -> Result<Option<Scalar<'v>>, SearchError>
    where
        't: 'v,
        'b: 'v,
    {
        if let FoundValue::Node(id) = value
            && self.tree.kind(id) == NodeKind::Scalar
        {
            let bytes = self.tree.bytes(id);
            let is_escaped = bytes.first() == Some(&b'"') && bytes.contains(&b'\\');
            self.visit(bytes.len() / if is_escaped { 1 } else { BYTES_OF_A_VISIT })?;
        }
        if let FoundValue::Literal(Literal::Text(text)) = value {
            self.visit(text.len() / BYTES_OF_A_VISIT)?;
        }
        Ok(scalar(self.tree, value))
    }

    /// Whether an element passes the filter. False if a side of a comparison has no result. An error if a side has
    /// several results, or if the two cannot be compared.
    fn passes(&mut self, filter: &Filter, element: NodeId) -> Result<bool, SearchError> {
        let mut left = vec![FoundValue::Node(element)];
        let followed = self.follow(&filter.left, &mut left);
        let (operator, right) = match &filter.test {
            Test::Exists => {
                return match followed {
                    Err(SearchError::Final) => Err(SearchError::Final),
                    _ => Ok(!left.is_empty()),
                };
            }
            Test::Compares(operator, right) => (Some(*operator), right),
            Test::Unknown(right) => (None, right),
        };
        followed?;
        let left = match left[..] {
            [] => return Ok(false),
            [left] => left,
            _ => return Err(SearchError::Unfit),
        };
        let mut found = vec![FoundValue::Node(element)];
        self.follow(right, &mut found)?;
        let right = match found[..] {
            [] => return Ok(false),
            [right] => right,
            _ => return Err(SearchError::Unfit),
        };
        let sides = self.comparable(left)?.zip(self.comparable(right)?);
        operator
            .zip(sides)
            .and_then(|(operator, (left, right))| compare(operator, &left, &right))
            .ok_or(SearchError::Incomparable)
    }
}

/// The value as a scalar that can be compared; `None` if it is an object, a list or null.
fn scalar<'v>(tree: &Tree<'v>, value: FoundValue<'v>) -> Option<Scalar<'v>> {
    match value {
        FoundValue::Node(id) => Scalar::of_json(tree.bytes(id)),
        FoundValue::Literal(literal) => Some(Scalar::of_literal(literal)),
        FoundValue::Byte(byte) => Some(Scalar::Byte(byte)),
    }
}

/// The index of the first element of a slice, and the index after its last, in a list with `length` elements. `None` if
/// the slice is empty; an error if it is not within the list.
fn bounds(slice: &Slice, length: usize) -> Result<Option<(usize, usize)>, SearchError> {
    let length = i64::try_from(length).map_err(|_| SearchError::Final)?;
    let mut first = slice.first.unwrap_or(0);
    let mut end = match slice.end {
        SliceEnd::Open => length,
        SliceEnd::At(place) => place,
        // Go's integers overflow silently.
        SliceEnd::Next => first.wrapping_add(1),
    };
    if first < 0 {
        first += length;
    }
    // The index -1 has the end 0, which means the end of the list.
    if end < 0 || (end == 0 && slice.end == SliceEnd::Next) {
        end += length;
    }
    if first == end {
        return Ok(None);
    }
    let is_within = (0..length).contains(&first) && (0..=length).contains(&end) && first < end;
    let bounds = is_within.then(|| usize::try_from(first).ok().zip(usize::try_from(end).ok())).flatten();
    bounds.map(Some).ok_or(SearchError::Unfit)
}
