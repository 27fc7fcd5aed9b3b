//! Semantic versions (apiserver `pkg/cel/library/semverlib.go`, which uses blang/semver).

use std::cmp::Ordering;

/// A semantic version. Its order is that of its fields. Build metadata is checked and not kept: it does not count in
/// comparisons.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Semver {
    pub(super) major: u64,
    pub(super) minor: u64,
    pub(super) patch: u64,
    before: Release,
    /// See [`Semver::weight`]. It decides no comparison: versions with equal other fields have the same weight.
    weight: usize,
}

/// The part of a version after the hyphen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Release {
    /// A pre-release: the identifiers between the points, such as `alpha` and `1` of `1.0.0-alpha.1`.
    Pre(Vec<Identifier>),
    /// A version without a pre-release. It is later than its pre-releases.
    Final,
}

/// An identifier of a pre-release. Numbers come before texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl Release {
    /// See [`Semver::weight`].
    fn weight(&self) -> usize {
        let of_identifier = |identifier: &Identifier| match identifier {
            Identifier::Number(_) => size_of::<Identifier>(),
            Identifier::Text(text) => size_of::<Identifier>() + text.len(),
        };
        match self {
            Release::Pre(identifiers) => identifiers.iter().map(of_identifier).sum(),
            Release::Final => 0,
        }
    }
}

impl PartialOrd for Release {
    fn partial_cmp(&self, other: &Release) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Release {
    fn cmp(&self, other: &Release) -> Ordering {
        match (self, other) {
            (Release::Pre(left), Release::Pre(right)) => left.cmp(right),
            (Release::Pre(_), Release::Final) => Ordering::Less,
            (Release::Final, Release::Pre(_)) => Ordering::Greater,
            (Release::Final, Release::Final) => Ordering::Equal,
        }
    }
}

impl Semver {
    /// Reads a version such as `1.2.3-alpha.1+build`; `None` for other texts.
    pub(super) fn parse(text: &str) -> Option<Semver> {
        let mut parts = text.splitn(3, '.');
        let (major, minor, rest) = (parts.next()?, parts.next()?, parts.next()?);
        // The patch number, the pre-release after `-`, and the build metadata after `+`.
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, before) = rest.split_once('-').map_or((rest, None), |(patch, before)| (patch, Some(before)));
        let is_identifier =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if build.is_some_and(|build| !build.split('.').all(is_identifier)) {
            return None;
        }
        let before = match before {
            None => Release::Final,
            Some(before) => Release::Pre(before.split('.').map(identifier).collect::<Option<_>>()?),
        };
        let (major, minor, patch) = (number(major)?, number(minor)?, number(patch)?);
        Some(Semver { major, minor, patch, weight: before.weight(), before })
    }

    /// The work of comparing the version with another one: the number of bytes of a text that is compared in the same
    /// time.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Like [`Semver::parse`], but the version may begin with `v`, lack its last numbers (which are 0), or have zeros
    /// before its numbers. A version that lacks numbers has no pre-release and no build metadata.
    pub(super) fn parse_tolerant(text: &str) -> Option<Semver> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return None;
        }
        parts.resize(3, "0".to_owned());
        Semver::parse(&parts.join("."))
    }
}

/// A part of a version between points, without zeros before its number: `007` becomes `7`, and `00-rc` becomes `0-rc`.
fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|first: char| first.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

/// Reads a number in digits; `None` for other texts, for a number with zeros before it, and above 64 bits.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let has_zeros = text.len() > 1 && text.starts_with('0');
    text.parse().ok().filter(|_| is_number && !has_zeros)
}

/// Reads an identifier of a pre-release: a number without zeros before it, or a text of ASCII letters, digits and
/// hyphens. `None` for other texts.
fn identifier(part: &str) -> Option<Identifier> {
    if part.bytes().all(|byte| byte.is_ascii_digit()) {
        return number(part).map(Identifier::Number);
    }
    let is_valid = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_valid.then(|| Identifier::Text(part.to_owned()))
}
