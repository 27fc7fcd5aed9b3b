//! The differences between kube-apiserver and fieldcache that are meant, each with its reason.
//!
//! Nothing else may differ. An allowance that no case needs any more fails the suite, so this file cannot outgrow the truth.

use e2e::compare::Difference;

/// A difference that is meant.
pub struct Allowance {
    /// The cases or watches concerned: their names, `*` for any text.
    pub cases: &'static str,
    /// Where they differ: a path into the outcome, `*` for any text.
    pub place: &'static str,
    /// Why it is right.
    pub reason: &'static str,
}

/// All of them.
pub static ALLOWED: [Allowance; 0] = [];

/// Which allowances cover a difference.
pub fn covering(case: &str, difference: &Difference) -> Vec<usize> {
    let covers = |allowance: &Allowance| like(allowance.cases, case) && like(allowance.place, &difference.path);
    ALLOWED.iter().enumerate().filter(|(_, allowance)| covers(allowance)).map(|(index, _)| index).collect()
}

/// Whether `text` is like `pattern`, in which `*` stands for any text.
fn like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|after| {
            // Every place at which the rest of the pattern could begin.
            (0..=after.len()).filter(|&index| after.is_char_boundary(index)).any(|index| like(rest, &after[index..]))
        }),
    }
}

#[test]
fn patterns_match_whole_texts() {
    let rows = [
        ("a/b", "a/b", true),
        ("a/b", "a/bc", false),
        ("a/*", "a/bc", true),
        ("*c", "a/bc", true),
        ("a*b*c", "a--b--c", true),
        ("a*b*c", "a--c--b", false),
        (".items[*].x", ".items[12].x", true),
        ("*", "", true),
    ];
    for (pattern, text, expected) in rows {
        assert_eq!(like(pattern, text), expected, "{pattern} {text}");
    }
}
