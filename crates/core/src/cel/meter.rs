//! The cost and the memory of an evaluation, counted while it runs.
//!
//! The unit is that of Kubernetes: about one for each step, one for each ten bytes of a text that is read or made, and
//! the product of both lengths for patterns. The numbers are close to those of kube-apiserver, not equal to them. They
//! also count work that upstream's data structures do not have: members of an object, and elements of a list, that are
//! passed on the way to another one.
//!
//! The time of an evaluation is measured too, because a cost is only an estimate of time. This module has no clock: the
//! caller passes one in a [`TimeLimit`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::failure::Failure;

/// The number of bytes of a text that cost one when they are read, written or compared.
const BYTES: u64 = 10;

/// The number of members or elements that cost one when a search passes them.
const PASSED: usize = 4;

/// The number of bytes that cost one when they are only scanned, as a text of the object is when it is read.
pub(super) const SCANNED: usize = 32;

/// The number of nodes of the expression whose evaluation costs one, in addition to the costs of their operations. Many
/// nodes cost nothing upstream, such as literals and `&&`.
const NODES: u8 = 4;

/// The text of a string of the object with escapes is kept until the end of the evaluation if it has this many bytes.
const KEPT: usize = 256;

/// The length up to which reading a number is cheap, in bytes. A signed integer of 64 bits has at most as many digits.
const SHORT_NUMBER: usize = 19;

/// The maximum number of digits that the standard library reads one by one to round a floating-point number.
const MOST_DIGITS: usize = 800;

/// The memory that the new values of one evaluation may take together, in bytes. Memory that was freed counts too.
pub(super) const MAX_MEMORY: usize = 8 << 20;

/// The clock is read again after this many charges, or after this cost. Both are small compared with a limit. Reading
/// the clock takes about as long as one charge.
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
    /// A limit of cost alone.
    fn from(cost: u64) -> EvaluationLimit {
        EvaluationLimit { cost, time: None }
    }
}

/// A limit of time, with the clock that measures it.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit {
    /// Returns the time since a fixed moment, such as the start of the process.
    pub clock: fn() -> Duration,
    /// The longest time of one evaluation.
    pub most: Duration,
}

/// The limit of time of an evaluation in progress.
#[derive(Debug)]
struct Deadline {
    clock: fn() -> Duration,
    /// The reading of the clock at which the evaluation must end.
    end: Duration,
    /// The number of charges until the next reading of the clock.
    charges: u32,
    /// The cost of the evaluation at which the clock is read next, even if fewer charges were made.
    cost: u64,
    /// Whether a reading of the clock was after `end`.
    has_passed: bool,
}

/// The counts of one evaluation. A method that counts work is called before the work is done, and fails with
/// [`Failure::Over`] if a limit is exceeded.
#[derive(Debug)]
pub(super) struct CostMeter {
    /// The limit of cost.
    limit: u64,
    /// The cost so far.
    spent: u64,
    /// The memory that further values may take, in bytes.
    memory: usize,
    /// The nodes that were evaluated since the last charge for nodes.
    nodes: u8,
    /// The texts of long strings of the object with escapes, by the address of their raw bytes.
    texts: HashMap<usize, Arc<str>>,
    /// `None`: the time is not limited.
    deadline: Option<Deadline>,
}

impl CostMeter {
    /// A meter that fails above these limits, and above [`MAX_MEMORY`]. The time begins now.
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

    /// Whether the limit of time was exceeded.
    pub(super) fn is_late(&self) -> bool {
        self.deadline.as_ref().is_some_and(|deadline| deadline.has_passed)
    }

    /// The cost so far.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    /// Counts a cost.
    ///
    /// # Errors
    /// The cost is above its limit, or the time is over.
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

    /// Counts a comparison, or another loop over `length` bytes. Less than ten bytes cost nothing: the caller counts
    /// its step.
    pub(super) fn compare(&mut self, length: usize) -> Result<(), Failure> {
        self.charge(length as u64 / BYTES)
    }

    /// Counts the reading of a number of `length` bytes. A short one costs nothing.
    pub(super) fn parse_number(&mut self, length: usize) -> Result<(), Failure> {
        if length <= SHORT_NUMBER {
            return Ok(());
        }
        // The standard library multiplies a number digit by digit if it has so many digits that it must be rounded.
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

    /// The text of a string of the object that [`CostMeter::keep_text`] has kept; `None` if it has not. `raw`: the
    /// bytes of the string within the object; their address identifies them.
    pub(super) fn known_text(&self, raw: &[u8]) -> Option<Arc<str>> {
        if raw.len() < KEPT || self.texts.is_empty() {
            return None;
        }
        self.texts.get(&raw.as_ptr().addr()).cloned()
    }

    /// Keeps the text of a string of the object with escapes, if it is long, because an expression can read it very
    /// often. The caller has counted its memory.
    pub(super) fn keep_text(&mut self, raw: &[u8], text: &Arc<str>) {
        if raw.len() >= KEPT {
            self.texts.insert(raw.as_ptr().addr(), text.clone());
        }
    }

    /// Counts the reading of a text of `length` bytes.
    pub(super) fn read(&mut self, length: usize) -> Result<(), Failure> {
        self.charge((length as u64).div_ceil(BYTES))
    }

    /// Counts `count` members or elements that a search has passed.
    pub(super) fn pass(&mut self, count: usize) -> Result<(), Failure> {
        self.charge(count.div_ceil(PASSED) as u64)
    }

    /// Counts the memory and the cost of a new text of `length` bytes, or of a copy.
    pub(super) fn make_text(&mut self, length: usize) -> Result<(), Failure> {
        self.memory = self.memory.checked_sub(length).ok_or(Failure::Over)?;
        self.read(length)
    }

    /// Counts the memory and the cost of `count` new elements of a list or entries of a map, without their texts.
    pub(super) fn make_values(&mut self, count: usize) -> Result<(), Failure> {
        // An entry of a map has a key and two values in a node of a tree.
        const SIZE: usize = 3 * size_of::<super::value::CelValue<'static>>();
        self.memory = self.memory.checked_sub(count.saturating_mul(SIZE)).ok_or(Failure::Over)?;
        // Each is copied once and dropped once.
        self.charge(count as u64)
    }
}
