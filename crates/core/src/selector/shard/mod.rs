//! The shard selector of KEP-5866: ranges of the hash of `metadata.uid` or `metadata.namespace`.
//!
//! The text is an expression of CEL, of which only `shardRange()` and `||` are allowed. [`expression`] parses it;
//! nothing evaluates it. The rules and messages follow apiserver `pkg/sharding/parser.go`, and the hash follows
//! apimachinery `pkg/sharding`: FNV-1a of 64 bits. `store` has an index of the hashes, and `query` plans with it.

#[cfg(test)]
pub(crate) mod arbitrary;
mod expression;
mod token;

use std::fmt::{self, Write as _};

use self::expression::{Constant, Expression};
use super::SelectorError;
use crate::model::{fnv1a, quote};

/// The path of an object whose hash decides whether the object is in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardKey {
    /// metadata.uid.
    Uid,
    /// metadata.namespace; empty for a cluster-scoped object.
    Namespace,
}

impl ShardKey {
    /// The path in an expression.
    pub fn path(self) -> &'static str {
        match self {
            ShardKey::Uid => "object.metadata.uid",
            ShardKey::Namespace => "object.metadata.namespace",
        }
    }
}

/// The hashes from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HashRange {
    /// The lowest hash.
    pub first: u64,
    /// The highest hash.
    pub last: u64,
}

/// A parsed shard selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    key: ShardKey,
    /// The ranges in ascending order. They do not overlap, and there is a gap between any two.
    ranges: Box<[HashRange]>,
    /// The selector in the notation of kube-apiserver, with the ranges as the client sent them.
    text: Box<str>,
}

/// One call of `shardRange()`: the path, and the texts of its two bounds, which are valid.
struct Requirement<'e> {
    key: ShardKey,
    start: &'e str,
    end: &'e str,
}

impl Shard {
    /// Parses the query parameter `shardSelector`, which is not empty.
    ///
    /// # Errors
    /// The message of kube-apiserver. For a syntax error, only the beginning of the message is the same.
    pub fn parse(text: &str) -> Result<Shard, SelectorError> {
        let error =
            |message: String| SelectorError { message: format!("invalid shard selector: {message}"), offset: 0 };
        let trimmed = text.trim();
        if trimmed.is_empty() {
            let message = "empty shard selector is not allowed; omit the parameter for unfiltered lists";
            return Err(error(message.to_owned()));
        }
        let parsed = expression::parse(trimmed).map_err(|problem| error(format!("CEL parse error: {problem}")))?;
        let calls = if let Expression::AnyOf(parts) = &parsed { parts } else { std::slice::from_ref(&parsed) };
        let requirements = calls.iter().map(requirement).collect::<Result<Vec<_>, String>>().map_err(error)?;
        Shard::new(&requirements).map_err(error)
    }

    /// The selector of these requirements, of which there is at least one.
    ///
    /// # Errors
    /// The message for requirements about different paths.
    fn new(requirements: &[Requirement<'_>]) -> Result<Shard, String> {
        let key = requirements.first().map_or(ShardKey::Uid, |requirement| requirement.key);
        let mut text = String::new();
        let mut ranges = Vec::with_capacity(requirements.len());
        for Requirement { key: other, start, end } in requirements {
            if *other != key {
                let (key, other) = (quote(key.path()), quote(other.path()));
                return Err(format!("all shard ranges must use the same field, got {key} and {other}"));
            }
            let separator = if text.is_empty() { "" } else { " || " };
            // Writing to a string does not fail.
            let _ = write!(text, "{separator}shardRange({}, '{start}', '{end}')", key.path());
            // The bounds are valid, and the start is below the end. So the start is below 2^64, and the end is above 0.
            let bound = |hex: &str| u128::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap_or_default();
            let (first, end) = (bound(start) as u64, bound(end));
            ranges.push(HashRange { first, last: end.saturating_sub(1) as u64 });
        }
        Ok(Shard { key, ranges: merged(ranges), text: text.into() })
    }

    /// The path whose hash decides.
    pub fn key(&self) -> ShardKey {
        self.key
    }

    /// The hashes of the shard, as ranges in ascending order. The ranges do not overlap, and there is a gap between any
    /// two.
    pub fn ranges(&self) -> &[HashRange] {
        &self.ranges
    }

    /// The selector in the notation of kube-apiserver, for `metadata.shardInfo.selector` of a list.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the shard has this hash.
    pub fn contains(&self, hash: u64) -> bool {
        let following = self.ranges.partition_point(|range| range.first <= hash);
        following.checked_sub(1).and_then(|index| self.ranges.get(index)).is_some_and(|range| hash <= range.last)
    }

    /// Whether the shard has an object with this namespace and this hash of its metadata.uid.
    pub fn selects(&self, uid_hash: u64, namespace: &str) -> bool {
        self.contains(match self.key {
            ShardKey::Uid => uid_hash,
            ShardKey::Namespace => fnv1a(namespace),
        })
    }

    /// Memory on the heap, in bytes.
    pub fn held_bytes(&self) -> usize {
        size_of_val(&*self.ranges) + self.text.len()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// The same hashes as ranges in ascending order. Ranges that overlap or are adjacent become one.
fn merged(mut ranges: Vec<HashRange>) -> Box<[HashRange]> {
    ranges.sort_unstable();
    let mut merged: Vec<HashRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(1) => last.last = last.last.max(range.last),
            _ => merged.push(range),
        }
    }
    merged.into()
}

/// The requirement of one operand of `||`.
///
/// # Errors
/// The message for an operand that is no valid call of `shardRange()`.
fn requirement(expression: &Expression) -> Result<Requirement<'_>, String> {
    let (function, arguments) = match expression {
        Expression::Call { function, arguments } => (function, arguments),
        // No operand of `||` is an `AnyOf`, because the parser joins nested ones.
        Expression::AnyOf(_)
        | Expression::Path { .. }
        | Expression::Part(_)
        | Expression::Constant(_)
        | Expression::List
        | Expression::Map
        | Expression::Message => {
            let kind = expression.kind();
            return Err(format!("unexpected expression kind {kind}; expected shardRange() call or || operator"));
        }
    };
    if function != "shardRange" {
        let function = quote(function);
        return Err(format!("unsupported function {function}; only shardRange() and || are allowed"));
    }
    let [path, start, end] = arguments.as_slice() else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", arguments.len()));
    };
    let key = match path.path() {
        Ok("object.metadata.uid") => ShardKey::Uid,
        Ok("object.metadata.namespace") => ShardKey::Namespace,
        Ok(other) => {
            let other = quote(other);
            let supported = "object.metadata.uid, object.metadata.namespace";
            return Err(format!("unsupported field path {other}; supported: {supported}"));
        }
        Err(kind) => {
            let expected = "expected field path (e.g. object.metadata.uid)";
            return Err(format!("shardRange() first argument: {expected}, got expression kind {kind}"));
        }
    };
    let (start, end) = (bound(start, "hexStart")?, bound(end, "hexEnd")?);
    // Two valid texts of the same length compare like their numbers. Otherwise the longer one is 2^64.
    if (start.len(), start) >= (end.len(), end) {
        return Err(format!("shard range start {start} must be less than end {end}"));
    }
    Ok(Requirement { key, start, end })
}

/// The text of a bound, which is `0x` with 16 digits, or 2^64. `name` is the name of the argument in messages.
///
/// # Errors
/// The message for any other argument.
fn bound<'e>(argument: &'e Expression, name: &str) -> Result<&'e str, String> {
    let Expression::Constant(constant) = argument else {
        let kind = argument.kind();
        return Err(format!("{name} must be a string literal (e.g. '0xff'), got expression kind {kind}"));
    };
    let Constant::Text(text) = constant else {
        return Err(format!("{name} must be a string literal, got {}", constant.go_type()));
    };
    let quoted = quote(text);
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {quoted}"));
    };
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if digits.len() > 17 {
        let (length, digits) = (digits.len(), quote(digits));
        return Err(format!("{name}: hex value too long ({length} chars, max 17): {digits}"));
    }
    if let Some(other) = digits.chars().find(|digit| !matches!(digit, '0'..='9' | 'a'..='f')) {
        let other = quote(other.encode_utf8(&mut [0; 4]));
        return Err(format!("{name}: invalid hex character {other} in {quoted}"));
    }
    match digits.len() {
        16 => Ok(text),
        17 if digits == "10000000000000000" => Ok(text),
        17 => Err(format!("{name}: 17-digit hex value must be '0x10000000000000000' (2^64), got {quoted}")),
        _ => {
            let padded = quote(&format!("0x{digits:0>16}"));
            Err(format!("{name} must be a 0x-prefixed 16-digit hex value, got {quoted} (did you mean {padded}?)"))
        }
    }
}
