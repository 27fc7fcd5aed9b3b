//! The cost and the memory of an evaluation, counted while it runs.
//!
//! The unit is that of Kubernetes: about one for each step, one for each ten bytes of a text that is read or made, and
//! the product of both lengths for patterns. The numbers are close to those of kube-apiserver, not equal to them. They
//! also count work that upstream's data structures do not have: passing members of an object and elements of a list.
//!
//! The time of an evaluation is measured too, because a cost is only an estimate of time. This module has no clock: the
//! caller passes one in a [`TimeLimit`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::failure::Failure;

/// The number of bytes of texts that cost one.
const BYTES: u64 = 10;

/// The number of members or elements that can be passed at the cost of one.
const PASSED: usize = 4;

/// The number of bytes that cost one when they are only scanned, as a text of the object is when it is read.
pub(super) const SCANNED: usize = 32;

/// The number of nodes of the expression that cost one, besides the costs of their kinds. Many kinds cost nothing
/// upstream, such as literals and `&&`.
const NODES: u8 = 4;

/// The length above which the text of a scalar with escapes is kept until the end of the evaluation, in bytes.
const KEPT: usize = 256;

/// The length up to which reading a number is cheap, in bytes: 64 bits have no more digits.
const SHORT_NUMBER: usize = 19;

/// The number of digits that the library reads one by one when a floating-point number is rounded.
const MOST_DIGITS: usize = 800;

/// The memory that the new values of one evaluation may take together, in bytes. Memory that was freed counts too.
pub(super) const MAX_MEMORY: usize = 8 << 20;

/// The number of charges, and the cost, after which the clock is read again. Both are small compared with a limit, and
/// reading the clock takes about as long as one charge.
const CHARGES_PER_READING: u32 = 256;
const COST_PER_READING: u64 = 1_024;

/// The limits of one evaluation.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationLimit {
    /// The cost, in the unit of Kubernetes.
    pub cost: u64,
    /// The time; `None`: the time is not limited.
    pub time: Option<TimeLimit>,
}

impl From<u64> for EvaluationLimit {
    /// The limit of a cost, without one of time.
    fn from(cost: u64) -> EvaluationLimit {
        EvaluationLimit { cost, time: None }
    }
}

/// A limit of time, with the clock that measures it.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit {
    /// The time since some fixed moment.
    pub clock: fn() -> Duration,
    /// The longest time of one evaluation.
    pub most: Duration,
}

/// A limit of time that runs.
#[derive(Debug)]
struct Deadline {
    clock: fn() -> Duration,
    /// The reading of the clock at which the evaluation must end.
    end: Duration,
    /// The charges until the next reading.
    charges: u32,
    /// The cost at which the clock is read next.
    cost: u64,
    has_passed: bool,
}

/// The counts of an evaluation.
#[derive(Debug)]
pub(super) struct CostMeter {
    limit: u64,
    spent: u64,
    memory: usize,
    /// The nodes that were evaluated since the last charge for nodes.
    nodes: u8,
    /// Texts of scalars with escapes, by the address of their raw bytes.
    texts: HashMap<usize, Arc<str>>,
    deadline: Option<Deadline>,
}

impl CostMeter {
    /// A meter that fails above these limits. The time begins now.
    pub(super) fn new(limit: EvaluationLimit) -> CostMeter {
        let deadline = limit.time.map(|TimeLimit { clock, most }| Deadline {
            clock,
            end: clock().saturating_add(most),
            charges: CHARGES_PER_READING,
            cost: COST_PER_READING,
            has_passed: false,
        });
        CostMeter { limit: limit.cost, spent: 0, memory: MAX_MEMORY, nodes: 0, texts: HashMap::new(), deadline }
    }

    /// Whether the limit that was exceeded is that of the time.
    pub(super) fn is_late(&self) -> bool {
        self.deadline.as_ref().is_some_and(|deadline| deadline.has_passed)
    }

    /// The cost so far.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    /// Counts a cost before its work is done.
    ///
    /// # Errors
    /// The limit is reached, or the time is over.
    pub(super) fn charge(&mut self, cost: u64) -> Result<(), Failure> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit {
            return Err(Failure::Over);
        }
        let Some(deadline) = &mut self.deadline else { return Ok(()) };
        deadline.charges -= 1;
        if deadline.charges > 0 && self.spent < deadline.cost {
            return Ok(());
        }
        deadline.charges = CHARGES_PER_READING;
        deadline.cost = self.spent.saturating_add(COST_PER_READING);
        deadline.has_passed |= (deadline.clock)() > deadline.end;
        if deadline.has_passed { Err(Failure::Over) } else { Ok(()) }
    }

    /// Counts the evaluation of a node of the expression.
    pub(super) fn node(&mut self) -> Result<(), Failure> {
        self.nodes += 1;
        if self.nodes < NODES {
            return Ok(());
        }
        self.nodes = 0;
        self.charge(1)
    }

    /// Counts a scan of `length` bytes, such as the check that they are UTF-8.
    pub(super) fn scan(&mut self, length: usize) -> Result<(), Failure> {
        self.charge((length / SCANNED) as u64)
    }

    /// Counts a comparison, or another loop over `length` bytes. Short ones are part of the step that does it.
    pub(super) fn compare(&mut self, length: usize) -> Result<(), Failure> {
        self.charge(length as u64 / BYTES)
    }

    /// Counts the reading of a number of `length` bytes.
    pub(super) fn parse_number(&mut self, length: usize) -> Result<(), Failure> {
        if length <= SHORT_NUMBER {
            return Ok(());
        }
        // A number with so many digits that it must be rounded is multiplied digit by digit.
        self.charge(length.min(MOST_DIGITS) as u64)?;
        self.compare(length)
    }

    /// Counts the reading of a timestamp of `length` bytes.
    pub(super) fn parse_timestamp(&mut self, length: usize) -> Result<(), Failure> {
        self.charge(3 + length as u64 / BYTES)
    }

    /// Counts the reading of a duration of `length` bytes: each number with its unit takes divisions of 128 bits.
    pub(super) fn parse_duration(&mut self, length: usize) -> Result<(), Failure> {
        self.charge(length.max(1) as u64)
    }

    /// The text of a scalar with escapes, if it was read before. `raw`: its bytes within the object.
    pub(super) fn known_text(&self, raw: &[u8]) -> Option<Arc<str>> {
        if raw.len() < KEPT || self.texts.is_empty() {
            return None;
        }
        self.texts.get(&raw.as_ptr().addr()).cloned()
    }

    /// Keeps the text of a scalar with escapes, which was counted as new. An expression can read one very often.
    pub(super) fn keep_text(&mut self, raw: &[u8], text: &Arc<str>) {
        if raw.len() >= KEPT {
            self.texts.insert(raw.as_ptr().addr(), text.clone());
        }
    }

    /// Counts the reading of a text of `length` bytes.
    pub(super) fn read(&mut self, length: usize) -> Result<(), Failure> {
        self.charge((length as u64).div_ceil(BYTES))
    }

    /// Counts `count` members or elements that were passed.
    pub(super) fn pass(&mut self, count: usize) -> Result<(), Failure> {
        self.charge(count.div_ceil(PASSED) as u64)
    }

    /// Counts a new text of `length` bytes, or a copy of one.
    pub(super) fn make_text(&mut self, length: usize) -> Result<(), Failure> {
        self.memory = self.memory.checked_sub(length).ok_or(Failure::Over)?;
        self.read(length)
    }

    /// Counts `count` new elements of a list or entries of a map.
    pub(super) fn make_values(&mut self, count: usize) -> Result<(), Failure> {
        // An entry of a map has a key and two values in a node of a tree.
        const SIZE: usize = 3 * size_of::<super::value::CelValue<'static>>();
        self.memory = self.memory.checked_sub(count.saturating_mul(SIZE)).ok_or(Failure::Over)?;
        // Each is copied once and dropped once.
        self.charge(count as u64)
    }
}
