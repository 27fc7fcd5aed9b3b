//! The cost and the memory of an evaluation, counted while it runs.
//!
//! The unit is that of Kubernetes: about one for each step, one for each ten bytes of a text that is read or made, and
//! the product of both lengths for patterns. The numbers are close to those of kube-apiserver, not equal to them. They
//! also count work that upstream's data structures do not have: passing members of an object and elements of a list.

use super::failure::Failure;

/// The number of bytes of texts that cost one.
const BYTES: u64 = 10;

/// The number of members or elements that can be passed at the cost of one.
const PASSED: usize = 8;

/// The memory that the new values of one evaluation may take together, in bytes. Memory that was freed counts too.
pub(super) const MAX_MEMORY: usize = 8 << 20;

/// The counts of an evaluation.
#[derive(Debug)]
pub(super) struct CostMeter {
    limit: u64,
    spent: u64,
    memory: usize,
}

impl CostMeter {
    /// A meter that fails above this cost.
    pub(super) fn new(limit: u64) -> CostMeter {
        CostMeter { limit, spent: 0, memory: MAX_MEMORY }
    }

    /// The cost so far.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    /// Counts a cost before its work is done.
    ///
    /// # Errors
    /// The limit is reached.
    pub(super) fn charge(&mut self, cost: u64) -> Result<(), Failure> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(Failure::Over) } else { Ok(()) }
    }

    /// Counts the reading of a text of `length` bytes.
    pub(super) fn read(&mut self, length: usize) -> Result<(), Failure> {
        self.charge((length as u64).div_ceil(BYTES))
    }

    /// Counts `count` members or elements that were passed.
    pub(super) fn pass(&mut self, count: usize) -> Result<(), Failure> {
        self.charge((count / PASSED) as u64)
    }

    /// Counts a new text of `length` bytes.
    pub(super) fn make_text(&mut self, length: usize) -> Result<(), Failure> {
        self.memory = self.memory.checked_sub(length).ok_or(Failure::Over)?;
        self.read(length)
    }

    /// Counts `count` new elements of a list or entries of a map.
    pub(super) fn make_values(&mut self, count: usize) -> Result<(), Failure> {
        // An entry of a map has a key and two values in a node of a tree.
        const SIZE: usize = 3 * size_of::<super::value::CelValue<'static>>();
        self.memory = self.memory.checked_sub(count.saturating_mul(SIZE)).ok_or(Failure::Over)?;
        self.pass(count)
    }
}
