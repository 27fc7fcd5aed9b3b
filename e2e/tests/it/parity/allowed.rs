//! The differences between kube-apiserver and fieldcache that are meant, each with its reason.
//!
//! Nothing else may differ. An allowance that no case needs any more fails the suite, so this file cannot outgrow the truth.

use e2e::compare::Difference;
use serde_json::{Value, json};

/// A difference that is meant.
pub(crate) struct Allowance {
    /// The cases or watches concerned: their names, `*` for any text.
    pub(crate) cases: &'static [&'static str],
    /// Where they differ: paths into the outcome, `*` for any text.
    pub(crate) places: &'static [&'static str],
    /// How they differ.
    pub(crate) how: How,
    /// Why it is right.
    pub(crate) reason: &'static str,
}

/// How two answers may differ at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// In any way.
    Anyhow,
    /// fieldcache does not have it.
    Absent,
    /// fieldcache has it, kube-apiserver does not.
    Added,
    /// kube-apiserver's null is an empty array.
    EmptyForNull,
}

impl How {
    fn covers(self, difference: &Difference) -> bool {
        let (left, right) = (difference.left.as_ref(), difference.right.as_ref());
        match self {
            How::Anyhow => true,
            How::Absent => right.is_none(),
            How::Added => left.is_none(),
            How::EmptyForNull => left == Some(&Value::Null) && right == Some(&json!([])),
        }
    }
}

/// All of them.
pub(crate) static ALLOWED: [Allowance; 9] = [
    Allowance {
        cases: &["*"],
        places: &[
            "*.resources[\"*/attach\"]",
            "*.resources[\"*/exec\"]",
            "*.resources[\"*/portforward\"]",
            "*.resources[\"*/proxy\"]",
            "*.subresources.attach",
            "*.subresources.exec",
            "*.subresources.portforward",
            "*.subresources.proxy",
        ],
        how: How::Absent,
        reason: "What leads into a workload is not forwarded, so that no page or program can reach it through a local server.",
    },
    Allowance {
        cases: &["*"],
        places: &[".body.serverAddressByClientCIDRs[0].serverAddress"],
        how: How::Anyhow,
        reason: "Each server names its own address.",
    },
    Allowance {
        cases: &["walk/*Selector*"],
        places: &["[\"ends with an empty page\"]"],
        how: How::Anyhow,
        reason: "A server that scans cannot know that nothing more matches; the index knows and ends the walk one page earlier.",
    },
    Allowance {
        cases: &["*Selector*", "*of=a page of selected pods*", "walk/narrowed to a namespace by 1"],
        places: &["*.body.metadata.remainingItemCount"],
        how: How::Added,
        reason: "A server that scans cannot know how many objects match; the index knows, so every client can count with limit=1.",
    },
    Allowance {
        cases: &["walk/narrowed to a namespace by 1"],
        places: &[".pages[*]", ".pages[*].body.metadata.continue", "[\"ends with an empty page\"]"],
        how: How::Anyhow,
        reason: "kube-apiserver loses every page after the first when a field selector narrows all namespaces to one.",
    },
    Allowance {
        cases: &["*"],
        places: &[".body.items", ".body.rows", "*.body.items", "*.body.rows"],
        how: How::EmptyForNull,
        reason: "An empty list is [] everywhere, as in all other lists; kube-apiserver's null here breaks clients that iterate.",
    },
    Allowance {
        cases: &["refused for other reasons: metadata in the form of lists"],
        places: &[".status", ".events[0]", ".events[1]", ".lasted"],
        how: How::Anyhow,
        reason: "A form that does not fit is refused at once; kube-apiserver accepts it and breaks off at the first event.",
    },
    Allowance {
        cases: &["openapi/*"],
        places: &["*.x-kubernetes-selectable-fields"],
        how: How::Added,
        reason: "The fields by which built-in kinds can be selected are published, as those of definitions are.",
    },
    Allowance {
        cases: &["*"],
        places: &[
            ".body.groups[\"view.fieldcache.dev\"]",
            ".body[\"order of groups\"][*]",
            ".body.items[\"view.fieldcache.dev\"]",
            ".body[\"order of items\"][*]",
        ],
        how: How::Added,
        reason: "Where a Pod may run is requested of fieldcache itself, so that its own group is in discovery, the last of all.",
    },
];

/// The patterns that cover a difference, those of cases and those of places; none when it is not meant.
pub(crate) fn covering(case: &str, difference: &Difference) -> Vec<Pattern> {
    let mut covering = Vec::new();
    for (index, allowance) in ALLOWED.iter().enumerate() {
        let all = |patterns: &[&'static str], text: &str| -> Vec<Pattern> {
            patterns.iter().filter(|pattern| like(pattern, text)).map(|&pattern| (index, pattern)).collect()
        };
        let (cases, places) = (all(allowance.cases, case), all(allowance.places, &difference.path));
        if !cases.is_empty() && !places.is_empty() && allowance.how.covers(difference) {
            covering.extend(cases.into_iter().chain(places));
        }
    }
    covering
}

/// Every pattern there is: each must be needed.
pub(crate) fn patterns() -> impl Iterator<Item = Pattern> {
    let one = |(index, allowance): (usize, &Allowance)| {
        allowance.cases.iter().chain(allowance.places).map(move |&pattern| (index, pattern)).collect::<Vec<_>>()
    };
    ALLOWED.iter().enumerate().flat_map(one)
}

/// A pattern and the number of its allowance.
pub(crate) type Pattern = (usize, &'static str);

/// Whether `text` is like `pattern`, in which `*` matches any text.
pub(crate) fn like(pattern: &str, text: &str) -> bool {
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
