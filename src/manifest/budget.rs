//! A bound of the memory that the values of one text take, charged while they are built.
//!
//! A small text can make large values: an object with one member takes about 640 bytes, so `{"":0},` grows a hundredfold. Each
//! container, element, member and text is charged before it is stored, rounded up. Charges are never returned, so the peak of a parse
//! is below its charges. Aliases are also counted as kube-apiserver counts them (`sigs.k8s.io/yaml`, `goyaml.v2/decode.go`).

use serde_json::Value;

/// A list element: a value, and the capacity of a vector that doubles while both copies exist.
const ELEMENT: usize = 3 * size_of::<Value>() + 2 * size_of::<usize>();
/// A vector of values has capacity for four from its first element on.
const FIRST_ELEMENT: usize = 4 * size_of::<Value>() + 2 * size_of::<usize>();
/// One node of a B-tree map: eleven keys and values.
const MAP_NODE: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 32;
/// Members that fit the first node.
const IN_FIRST_NODE: usize = 11;
/// A member beyond the first node: nodes are at least half full.
const MEMBER: usize = MAP_NODE / 5;
/// A text on the heap, beside its bytes.
const TEXT: usize = 16;
/// An event that is logged for aliases, without its text.
const EVENT: usize = 96;
/// A document or an error, beside its values and its text.
const DOCUMENT: usize = 256;

/// Files and commands: aliases and small objects may add this much to a small file.
const OF_ANY_FILE: usize = 64 << 20;
/// Files and commands: bytes of memory for each byte of text.
const OF_EACH_BYTE: usize = 64;

/// Files and commands: no file takes more than this. Real manifests take 3 to 6 bytes for each byte of text, and the longest file that a
/// folder may have is 256 MiB.
const OF_LARGEST_FILE: usize = 2 << 30;

/// With fewer aliased nodes or fewer nodes than this, aliases are not counted.
const FEW_ALIASED: usize = 100;
const FEW_DECODED: usize = 1000;
/// Up to the first number of nodes nearly all may come from aliases, from the second on a tenth.
const RATIO_LOW: usize = 400_000;
const RATIO_HIGH: usize = 4_000_000;

/// The memory that one text may still take.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: usize,
    used: usize,
    is_exceeded: bool,
    decoded: usize,
    aliased: usize,
}

impl MemoryBudget {
    /// A budget of this many bytes.
    pub fn new(limit: usize) -> MemoryBudget {
        MemoryBudget { limit, used: 0, is_exceeded: false, decoded: 0, aliased: 0 }
    }

    /// A budget for a file of this size, which the user chose to read.
    pub fn of_file(size: usize) -> MemoryBudget {
        MemoryBudget::new(OF_ANY_FILE.saturating_add(size.saturating_mul(OF_EACH_BYTE)).min(OF_LARGEST_FILE))
    }

    /// Bytes charged so far.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Whether a charge was rejected.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// Nodes decoded so far, as kube-apiserver counts them.
    pub(super) fn decoded(&self) -> usize {
        self.decoded
    }

    /// Resets the charges after an attempt whose values are dropped.
    pub(super) fn return_to(&mut self, used: usize) {
        self.used = used;
    }

    /// Charges an element of a list that has `before` elements already.
    pub(super) fn element(&mut self, before: usize) -> Result<(), String> {
        match before {
            0 => self.charge(FIRST_ELEMENT),
            1..4 => Ok(()),
            _ => self.charge(ELEMENT),
        }
    }

    /// Charges a member of an object that has `before` members already.
    pub(super) fn member(&mut self, before: usize, name: &str) -> Result<(), String> {
        match before {
            0 => self.charge(MAP_NODE)?,
            1..IN_FIRST_NODE => {}
            _ => self.charge(MEMBER)?,
        }
        self.text(name)
    }

    /// Charges the memory of a text.
    pub(super) fn text(&mut self, text: &str) -> Result<(), String> {
        if text.is_empty() { Ok(()) } else { self.charge(TEXT + text.len() + text.len() / 4) }
    }

    /// Charges an event that is recorded for aliases.
    pub(super) fn event(&mut self, text: &str) -> Result<(), String> {
        self.charge(EVENT)?;
        self.text(text)
    }

    /// Charges a document, or an error.
    pub(super) fn document(&mut self) -> Result<(), String> {
        self.charge(DOCUMENT)
    }

    /// Counts a node of the text itself, not of an alias.
    pub(super) fn node(&mut self) {
        self.decoded += 1;
    }

    /// Charges an alias, which repeats this many nodes.
    ///
    /// # Errors
    /// Too large a part of the document comes from aliases; the sentence is kube-apiserver's.
    pub(super) fn alias(&mut self, nodes: usize) -> Result<(), String> {
        self.decoded = self.decoded.saturating_add(nodes);
        self.aliased = self.aliased.saturating_add(nodes);
        let is_counted = self.aliased > FEW_ALIASED && self.decoded > FEW_DECODED;
        if is_counted && self.aliased as f64 / self.decoded as f64 > allowed_ratio(self.decoded) {
            return Err("document contains excessive aliasing".to_owned());
        }
        Ok(())
    }

    /// Counts memory, and fails when there is too much.
    fn charge(&mut self, bytes: usize) -> Result<(), String> {
        let used = self.used.saturating_add(bytes);
        if used > self.limit {
            self.is_exceeded = true;
            return Err(format!("its values take more than {} bytes of memory", self.limit));
        }
        self.used = used;
        Ok(())
    }
}

/// The largest share of decoded nodes that may come from aliases, as in go-yaml.
fn allowed_ratio(decoded: usize) -> f64 {
    match decoded {
        ..=RATIO_LOW => 0.99,
        RATIO_HIGH.. => 0.10,
        _ => 0.99 - 0.89 * (decoded - RATIO_LOW) as f64 / (RATIO_HIGH - RATIO_LOW) as f64,
    }
}
