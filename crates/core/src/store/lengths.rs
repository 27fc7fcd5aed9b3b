//! The length of the longest object of a store, to a factor of two.
//!
//! Objects are counted by the number of bits of their length, so that the maximum can be computed after the longest one
//! is removed. The exact length would need an order of all lengths.

/// Number of classes: a length has from 0 to `usize::BITS` bits.
const CLASSES: usize = usize::BITS as usize + 1;

/// For each number of bits, how many objects have a length of so many bits.
#[derive(Clone, Debug)]
pub(super) struct Lengths([u32; CLASSES]);

impl Default for Lengths {
    fn default() -> Lengths {
        Lengths([0; CLASSES])
    }
}

impl Lengths {
    /// Counts an object of this many bytes.
    pub(super) fn add(&mut self, length: usize) {
        if let Some(count) = self.class(length) {
            *count += 1;
        }
    }

    /// Stops counting an object of this many bytes.
    pub(super) fn remove(&mut self, length: usize) {
        if let Some(count) = self.class(length) {
            *count = count.saturating_sub(1);
        }
    }

    /// An upper bound of the lengths, in bytes: the largest number with as many bits as the greatest length. 0 without
    /// objects.
    pub(super) fn most(&self) -> usize {
        let bits = self.0.iter().rposition(|count| *count > 0).unwrap_or(0) as u32;
        usize::MAX.checked_shr(usize::BITS - bits).unwrap_or(0)
    }

    /// The counter for all lengths with as many bits as this one. There is one for every length.
    fn class(&mut self, length: usize) -> Option<&mut u32> {
        self.0.get_mut((usize::BITS - length.leading_zeros()) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::Lengths;

    #[test]
    fn the_longest_is_known_to_a_factor_of_two() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.most(), 0);
        for (length, most) in
            [(0, 0), (1, 1), (2, 3), (3, 3), (4, 7), (1_300_000, (1 << 21) - 1), (usize::MAX, usize::MAX)]
        {
            lengths.add(length);
            assert_eq!(lengths.most(), most, "{length} was added");
        }
        for (length, most) in [(usize::MAX, (1 << 21) - 1), (1_300_000, 7), (4, 3), (3, 3), (2, 1), (1, 0), (0, 0)] {
            lengths.remove(length);
            assert_eq!(lengths.most(), most, "{length} was removed");
        }
    }
}
