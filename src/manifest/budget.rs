//! A limit on the memory of the values that are parsed from one text.
//!
//! A small text can have large values: an object with one member takes about 640 bytes, so `{"":0},` grows a
//! hundredfold. The approximate memory of each container, element, member and string is charged before it is stored,
//! rounded up. Charges are never returned during a parse, so its peak is below its charges. Aliases are also counted as
//! kube-apiserver counts them (`sigs.k8s.io/yaml`, `goyaml.v2/decode.go`).

use serde_json::Value;

/// Bytes of a list element: a value, and its part of a vector that doubles while both copies exist.
const ELEMENT: usize = 3 * size_of::<Value>() + 2 * size_of::<usize>();
/// Bytes of the first four list elements: from its first element on, a vector has capacity for four.
const FIRST_ELEMENT: usize = 4 * size_of::<Value>() + 2 * size_of::<usize>();
/// Bytes of one node of a B-tree map: eleven keys and values.
const MAP_NODE: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 32;
/// The number of members that fit into the first node.
const IN_FIRST_NODE: usize = 11;
/// Bytes of a member beyond the first node: nodes are at least half full.
const MEMBER: usize = MAP_NODE / 5;
/// Bytes of a string on the heap, in addition to its content.
const TEXT: usize = 16;
/// Bytes of an event that is recorded for aliases, without its string.
const EVENT: usize = 96;
/// Bytes of a document or an error, without its values and its string.
const DOCUMENT: usize = 256;

/// Bytes that the values of any file may take, so that small files can have aliases and small objects.
const OF_ANY_FILE: usize = 64 << 20;
/// Bytes that the values of a file may take in addition, for each byte of the file.
const OF_EACH_BYTE: usize = 64;

/// The maximum bytes that the values of a file may take. Real manifests take 3 to 6 bytes for each byte of text, and
/// the longest file that a folder may have is 256 MiB.
const OF_LARGEST_FILE: usize = 2 << 30;

/// Aliases are not limited while they have repeated at most this many nodes ...
const FEW_ALIASED: usize = 100;
/// ... or while the text has at most this many nodes, with the repeated ones.
const FEW_DECODED: usize = 1000;
/// The allowed share of nodes from aliases is 0.99 up to the first number of nodes, and 0.1 from the second on.
const RATIO_LOW: usize = 400_000;
const RATIO_HIGH: usize = 4_000_000;

/// The memory that the values of one text may take, and have taken so far.
#[derive(Debug)]
pub struct MemoryBudget {
    /// Bytes.
    limit: usize,
    /// Bytes.
    used: usize,
    is_exceeded: bool,
    /// Nodes so far, with those that aliases repeat.
    decoded: usize,
    /// Nodes that aliases have repeated.
    aliased: usize,
}

impl MemoryBudget {
    /// A budget of this many bytes.
    pub fn new(limit: usize) -> MemoryBudget {
        MemoryBudget { limit, used: 0, is_exceeded: false, decoded: 0, aliased: 0 }
    }

    /// A budget for a file of this many bytes, which the user chose to read.
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

    /// The number of nodes so far, with those that aliases repeat, as kube-apiserver counts them.
    pub(super) fn decoded(&self) -> usize {
        self.decoded
    }

    /// Resets the charges to an earlier value of `used`, after a parse whose values are dropped.
    pub(super) fn reset_to(&mut self, used: usize) {
        self.used = used;
    }

    /// Charges an element of a list that has `before` elements already. Fails if the budget is exceeded.
    pub(super) fn charge_element(&mut self, before: usize) -> Result<(), String> {
        match before {
            0 => self.charge(FIRST_ELEMENT),
            // The first allocation has room for these.
            1..4 => Ok(()),
            _ => self.charge(ELEMENT),
        }
    }

    /// Charges a member of an object that has `before` members already, without its value. Fails if the budget is
    /// exceeded.
    pub(super) fn charge_member(&mut self, before: usize, name: &str) -> Result<(), String> {
        match before {
            0 => self.charge(MAP_NODE)?,
            // The first node has room for these.
            1..IN_FIRST_NODE => {}
            _ => self.charge(MEMBER)?,
        }
        self.charge_text(name)
    }

    /// Charges a string. Fails if the budget is exceeded.
    pub(super) fn charge_text(&mut self, text: &str) -> Result<(), String> {
        // A quarter more, because allocators round up.
        if text.is_empty() { Ok(()) } else { self.charge(TEXT + text.len() + text.len() / 4) }
    }

    /// Charges an event with its string, which is recorded for aliases. Fails if the budget is exceeded.
    pub(super) fn charge_event(&mut self, text: &str) -> Result<(), String> {
        self.charge(EVENT)?;
        self.charge_text(text)
    }

    /// Charges a document or an error, without its values. Fails if the budget is exceeded.
    pub(super) fn charge_document(&mut self) -> Result<(), String> {
        self.charge(DOCUMENT)
    }

    /// Counts a node that is in the text itself, not repeated by an alias.
    pub(super) fn count_node(&mut self) {
        self.decoded += 1;
    }

    /// Counts the nodes that an alias repeats.
    ///
    /// # Errors
    /// Too large a share of the nodes comes from aliases. The message is kube-apiserver's.
    pub(super) fn count_alias(&mut self, nodes: usize) -> Result<(), String> {
        self.decoded = self.decoded.saturating_add(nodes);
        self.aliased = self.aliased.saturating_add(nodes);
        let is_counted = self.aliased > FEW_ALIASED && self.decoded > FEW_DECODED;
        if is_counted && self.aliased as f64 / self.decoded as f64 > allowed_ratio(self.decoded) {
            return Err("document contains excessive aliasing".to_owned());
        }
        Ok(())
    }

    /// Charges memory. Fails if the budget is exceeded.
    fn charge(&mut self, bytes: usize) -> Result<(), String> {
        let used = self.used.saturating_add(bytes);
        if used > self.limit {
            self.is_exceeded = true;
            return Err(format!("the values take more than {} bytes of memory", self.limit));
        }
        self.used = used;
        Ok(())
    }
}

/// The maximum share of nodes that may come from aliases, as in go-yaml. `decoded` is the number of all nodes.
fn allowed_ratio(decoded: usize) -> f64 {
    match decoded {
        ..=RATIO_LOW => 0.99,
        RATIO_HIGH.. => 0.10,
        _ => 0.99 - 0.89 * (decoded - RATIO_LOW) as f64 / (RATIO_HIGH - RATIO_LOW) as f64,
    }
}
