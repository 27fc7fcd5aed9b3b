//! What older and newer servers do otherwise than the usual one, each with its reason.
//!
//! fieldcache answers as the usual version does, whatever its source is, unless it hands on what the source says. So the differences
//! between versions show as differences from fieldcache. Each entry must be needed beside every version that it names: a run
//! beside one of them fails when it is not.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use e2e::compare::Difference;
use e2e::versions::Kubernetes;
use serde_json::Value;

use super::allowed::{self, ALLOWED, Pattern, like};

/// A difference from the usual version.
struct Otherwise {
    /// The minor versions that differ.
    versions: &'static [u32],
    how: How,
    /// What the difference is and why.
    reason: &'static str,
}

/// What differs.
#[derive(Clone, Copy)]
enum How {
    /// Values.
    Values {
        /// As in [`allowed::Allowance`].
        cases: &'static [&'static str],
        /// As in [`allowed::Allowance`].
        places: &'static [&'static str],
    },
    /// It refuses with this text what the usual version answers, so nothing of the answer is alike.
    Refuses(&'static str),
    /// It never sends events with this text, and so cannot show these defects.
    NeverSends { text: &'static str, hides: &'static [&'static str] },
}

/// All of them.
static OTHERWISE: [Otherwise; 7] = [
    Otherwise {
        versions: &[33],
        how: How::Refuses("sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
        reason: "Streaming lists (WatchList) were on in 1.32, off in 1.33 and are on again since 1.34.",
    },
    Otherwise {
        versions: &[33],
        how: How::NeverSends {
            text: r#""k8s.io/initial-events-end":"true""#,
            hides: &["end bookmark missing", "end bookmark without its annotation"],
        },
        reason: "Without streaming lists no bookmark ends the objects that a watch begins with.",
    },
    Otherwise {
        versions: &[33],
        how: How::Values {
            cases: &["discovery*accept=aggregated*", "ended by time: 4 seconds, *", "ends by time in every form: *"],
            places: &["*.metadata.creationTimestamp"],
        },
        reason: "What has no creation time said so with null before 1.34.",
    },
    Otherwise {
        versions: &[33],
        how: How::Values {
            cases: &["list matrix/*, resourceVersion=future, *"],
            places: &[".body.*", ".headers.retry-after", ".status"],
        },
        reason: "Lists of an exact version came from etcd before 1.34, which calls one of the future an internal error.",
    },
    Otherwise {
        versions: &[33],
        how: How::Values {
            cases: &["page and more/*, resourceVersion=0, *"],
            places: &[".body.items[*]", ".body.metadata.*"],
        },
        reason: "Before 1.34 a page that is asked for with a token and version 0 kept to its limit.",
    },
    Otherwise {
        versions: &[33],
        how: How::Values { cases: &["label/*=error: *"], places: &[".body.message"] },
        reason: "Limits of label keys and values were worded otherwise before 1.34.",
    },
    Otherwise {
        versions: &[33],
        how: How::Refuses("found ')', expected: ',', or identifier"),
        reason: "Before 1.34 a set of label values could not end with two commas.",
    },
];

/// Numbers of this table begin here, apart from those of [`super::allowed::ALLOWED`].
const FIRST: usize = 100;

/// The events that were missed: numbers and texts of [`How::NeverSends`].
static MISSED: Mutex<BTreeSet<Pattern>> = Mutex::new(BTreeSet::new());

/// The version whose kube-apiserver is compared with.
pub(crate) fn under_test() -> Kubernetes {
    Kubernetes::under_test().expect("a version that is not known must have failed the start of the control plane")
}

fn in_force() -> impl Iterator<Item = (usize, &'static Otherwise)> {
    let minor = under_test().minor();
    OTHERWISE
        .iter()
        .enumerate()
        .map(|(index, otherwise)| (FIRST + index, otherwise))
        .filter(move |(_, otherwise)| otherwise.versions.contains(&minor))
}

/// The reasons of all that is in force.
pub(crate) fn reasons() -> Vec<&'static str> {
    in_force().map(|(_, otherwise)| otherwise.reason).collect()
}

/// The patterns that cover a difference, one of `all` of its case, here and in [`allowed`]; none when it is not meant.
pub(crate) fn covering(case: &str, all: &[Difference], difference: &Difference) -> Vec<Pattern> {
    let mut covering = allowed::covering(case, difference);
    for (index, otherwise) in in_force() {
        let numbered = |&pattern: &&'static str| (index, pattern);
        match otherwise.how {
            How::Values { cases, places } => {
                let cases: Vec<_> = cases.iter().filter(|pattern| like(pattern, case)).map(numbered).collect();
                let places = places.iter().filter(|pattern| like(pattern, &difference.path)).map(numbered);
                let mut places = places.peekable();
                if !cases.is_empty() && places.peek().is_some() {
                    covering.extend(cases.into_iter().chain(places));
                }
            }
            How::Refuses(text) => {
                let says = |difference: &Difference| difference.left.as_ref().is_some_and(|left| contains(left, text));
                covering.extend(all.iter().any(says).then_some((index, text)));
            }
            How::NeverSends { .. } => {}
        }
    }
    covering
}

/// Removes from what fieldcache sent the events that the version under test never sends.
pub(crate) fn without_events_never_sent(expected: &Value, outcome: &mut Value) {
    for (index, otherwise) in in_force() {
        let How::NeverSends { text, .. } = otherwise.how else { continue };
        let events = |outcome: &Value| outcome["events"].as_array().cloned().unwrap_or_default();
        if events(expected).iter().any(|event| contains(event, text)) {
            continue;
        }
        let (missed, mut sent): (Vec<_>, Vec<_>) = events(outcome).into_iter().partition(|event| contains(event, text));
        let Some(first) = missed.first() else { continue };
        // Of the rows of Tables the first one has the columns.
        let columns = &first["object"]["columnDefinitions"];
        if let Some(next) = sent.first_mut().filter(|next| columns.is_array() && next["object"]["rows"].is_array()) {
            next["object"]["columnDefinitions"] = columns.clone();
        }
        outcome["events"] = sent.into();
        MISSED.lock().unwrap_or_else(PoisonError::into_inner).insert((index, text));
    }
}

/// Whether a defect of fieldcache cannot show beside the version under test.
pub(crate) fn hides(defect: &str) -> bool {
    let hides = |how| matches!(how, How::NeverSends { hides, .. } if hides.contains(&defect));
    in_force().any(|(_, otherwise)| hides(otherwise.how))
}

/// The patterns in force of which none is in `used`, with the reason: beside the usual version those of [`allowed`], beside
/// another one those of that version, for what differs from the usual one may be alike there.
pub(crate) fn needless(used: &BTreeSet<Pattern>) -> Vec<(Pattern, &'static str)> {
    let mut needless: Vec<(Pattern, &'static str)> = Vec::new();
    if under_test().is_usual() {
        needless.extend(allowed::patterns().map(|pattern| (pattern, ALLOWED[pattern.0].reason)));
    }
    for (index, Otherwise { how, reason, .. }) in in_force() {
        let patterns: Vec<&'static str> = match how {
            How::Values { cases, places } => cases.iter().chain(*places).copied().collect(),
            How::Refuses(text) | How::NeverSends { text, .. } => vec![text],
        };
        needless.extend(patterns.into_iter().map(|pattern| ((index, pattern), *reason)));
    }
    let missed = MISSED.lock().unwrap_or_else(PoisonError::into_inner);
    needless.retain(|(pattern, _)| !used.contains(pattern) && !missed.contains(pattern));
    needless
}

/// Whether a document has a text somewhere, as it stands in JSON.
fn contains(document: &Value, text: &str) -> bool {
    document.to_string().contains(text)
}
