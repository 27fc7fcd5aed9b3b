//! A small seeded generator: splitmix64, as published by Steele, Lea and Flood (2014); for corpora, workloads and schedules of faults.
//!
//! Not a crate, because the corpora must stay the same for as long as figures are compared, and crates change their streams.

/// A stream of numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Stream `index` of this seed: that of one object of a corpus, of one writer, of one client.
    pub fn from_seed(seed: u64, index: u64) -> Random {
        let mut random = Random { state: seed ^ index.wrapping_mul(0xd134_2543_de82_ef95) };
        random.number();
        random
    }

    /// The next 64 bits.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero. The bias of a remainder is far below what a corpus shows.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// One of `choices`, which is not empty.
    pub fn choose<'a, Choice: ?Sized>(&mut self, choices: &[&'a Choice]) -> &'a Choice {
        let index = self.below(choices.len() as u64);
        choices[usize::try_from(index).unwrap_or_default()]
    }

    /// So many hexadecimal digits.
    pub fn hexadecimal(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits + 16);
        while text.len() < digits {
            text.push_str(&format!("{:016x}", self.number()));
        }
        text.truncate(digits);
        text
    }

    /// A version 4 UUID.
    pub fn uid(&mut self) -> String {
        let digits = self.hexadecimal(32);
        let variant = self.choose(&["8", "9", "a", "b"]);
        format!(
            "{}-{}-4{}-{variant}{}-{}",
            &digits[..8],
            &digits[8..12],
            &digits[13..16],
            &digits[17..20],
            &digits[20..]
        )
    }

    /// So many letters and digits from the alphabet of Kubernetes' generated names.
    pub fn suffix(&mut self, length: usize) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..length).map(|_| char::from(ALPHABET[usize::try_from(self.below(27)).unwrap_or_default()])).collect()
    }
}
