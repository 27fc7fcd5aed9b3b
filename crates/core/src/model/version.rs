//! resourceVersion: the only code that reads it as a number.

use std::fmt;

/// A resourceVersion: a decimal integer of the source cluster, comparable within one resource since KEP-5504.
///
/// [`Version::ZERO`] means "none yet" and never belongs to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(u64);

impl Version {
    /// Before every real version.
    pub const ZERO: Version = Version(0);

    /// The version of this number.
    pub const fn new(number: u64) -> Version {
        Version(number)
    }

    /// The number of the version.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Parses a decimal text without sign, of at most 20 digits; `None` for other texts and beyond 64 bits.
    pub fn parse(text: &str) -> Option<Version> {
        if text.len() > 20 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        text.parse().ok().map(Version)
    }

    /// The next version, for folder mode, which counts its own versions.
    #[must_use]
    pub const fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}
