//! What older and newer servers do otherwise than the usual one, each with its reason.
//!
//! fieldcache responds as the usual version does, whatever its source is, unless it forwards what the source says. So
//! the differences between versions show as differences from fieldcache. What it does as newer servers do is otherwise
//! beside the usual one too. Each entry must be needed beside every version that it names: a run beside one of them
//! fails when it is not.

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
    /// Defects of fieldcache that cannot show beside these versions.
    hides: &'static [&'static str],
    /// What the difference is and why.
    reason: &'static str,
}

/// What differs.
#[derive(Clone, Copy)]
enum How {
    /// Values: the cases and the places as in [`allowed::Allowance`].
    Values(&'static [&'static str], &'static [&'static str]),
    /// These places of any case have null where the usual version has nothing.
    Null(&'static [&'static str]),
    /// It refuses with this text what the usual version answers, or refuses otherwise: nothing of the answer is alike.
    Refuses(&'static str),
    /// It never sends events with this text.
    NeverSends(&'static str),
}

const fn otherwise(versions: &'static [u32], how: How, reason: &'static str) -> Otherwise {
    Otherwise { versions, how, hides: &[], reason }
}

/// All of them.
static OTHERWISE: [Otherwise; 16] = [
    otherwise(
        &[33],
        How::Refuses("sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
        "Streaming lists (WatchList) were on in 1.32, off in 1.33 and are on again since 1.34.",
    ),
    Otherwise {
        // When other bookmarks come is up to the server's clock, so none is expected.
        hides: &["end bookmark missing", "end bookmark without its annotation", "bookmarks never sent"],
        ..otherwise(
            &[33],
            How::NeverSends(r#""k8s.io/initial-events-end":"true""#),
            "Without streaming lists no bookmark ends the objects that a watch begins with.",
        )
    },
    otherwise(
        &[32],
        How::Values(&["*"], &["*.annotations[\"kubernetes.io/initial-events-list-blueprint\"]"]),
        "In 1.32 the bookmark that ends the initial events had an empty list as an annotation.",
    ),
    otherwise(
        &[32],
        How::Values(&["bookmark/initial, replicationcontrollers*"], &[".events[*].object.spec.replicas"]),
        "A ReplicationController without replicas had 0 of them in 1.32.",
    ),
    otherwise(
        &[32, 33],
        How::Null(&["*.creationTimestamp"]),
        "What has no creation time said so with null before 1.34.",
    ),
    otherwise(
        &[32],
        How::Refuses(
            "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        ),
        "A watch as Table was refused by 1.32 unless plain JSON would do as well.",
    ),
    otherwise(
        &[32],
        How::Values(&["discovery/*, accept=aggregated v2beta1"], &["*"]),
        "Aggregated discovery had its beta form in 1.32 still.",
    ),
    otherwise(
        &[32, 33],
        How::Values(&["faults of a * media type, *"], &[".body.*", ".status"]),
        "The parameters of a request were looked at before its media types in 1.33 and before.",
    ),
    otherwise(
        &[32],
        How::Refuses("resourceVersion: Invalid value: "),
        "A version that is no number was an internal error of a list in 1.32.",
    ),
    otherwise(
        &[32, 33],
        How::Refuses("etcdserver: mvcc: required revision is a future revision"),
        "Lists of an exact version came from etcd before 1.34, which calls one of the future an internal error.",
    ),
    otherwise(
        &[32, 33],
        How::Values(&["*"], &["*.metadata.continue.start"]),
        "Tokens of pages that came from etcd have keys without a slash at their beginning.",
    ),
    otherwise(
        &[32, 33],
        How::Values(&["label/*, labelSelector=error: *"], &[".body.message"]),
        "Limits of label keys and values were worded otherwise before 1.34.",
    ),
    otherwise(
        &[32, 33],
        How::Refuses("found ')', expected: ',', or identifier"),
        "A set of label values could not end with two commas in 1.33 and before.",
    ),
    Otherwise {
        hides: &["watch not compressed"],
        ..otherwise(
            &[32, 33, 36],
            How::Values(
                &["other headers: gzip", "compressed watches: *"],
                &[".headers.content-encoding", ".headers.vary"],
            ),
            "Watches that begin with a list are compressed since 1.37 when a client requests it; fieldcache compresses them beside every version.",
        )
    },
    otherwise(
        &[37],
        How::Values(
            &["table kind/of=definitions, *", "gzip more/definitions, accept=table, *"],
            &[".body.columnDefinitions*", ".body.rows*"],
        ),
        "CustomResourceDefinitions have more columns since 1.37.",
    ),
    otherwise(
        &[37],
        How::Values(&["bookmark/initial, csinodes *"], &[".events[*].object.status"]),
        "A CSINode has a status since 1.37.",
    ),
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
            How::Values(cases, places) => {
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
            How::Null(places) => {
                let is_null = difference.left == Some(Value::Null) && difference.right.is_none();
                let places = places.iter().filter(|pattern| is_null && like(pattern, &difference.path));
                covering.extend(places.map(numbered));
            }
            How::NeverSends(_) => {}
        }
    }
    covering
}

/// Removes from what fieldcache sent the events that the version under test never sends.
pub(crate) fn without_events_never_sent(expected: &Value, outcome: &mut Value) {
    for (index, otherwise) in in_force() {
        let How::NeverSends(text) = otherwise.how else { continue };
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
    in_force().any(|(_, otherwise)| otherwise.hides.contains(&defect))
}

/// The patterns in force of which none is in `used`, with the reason. For the usual version these are those of
/// [`allowed`]. For another one they are its own, because differences from the usual one may be alike there.
pub(crate) fn needless(used: &BTreeSet<Pattern>) -> Vec<(Pattern, &'static str)> {
    let mut needless: Vec<(Pattern, &'static str)> = Vec::new();
    if under_test().is_usual() {
        needless.extend(allowed::patterns().map(|pattern| (pattern, ALLOWED[pattern.0].reason)));
    }
    for (index, Otherwise { how, reason, .. }) in in_force() {
        let patterns: Vec<&'static str> = match how {
            How::Values(cases, places) => cases.iter().chain(*places).copied().collect(),
            How::Null(places) => places.to_vec(),
            How::Refuses(text) | How::NeverSends(text) => vec![text],
        };
        needless.extend(patterns.into_iter().map(|pattern| ((index, pattern), *reason)));
    }
    let missed = MISSED.lock().unwrap_or_else(PoisonError::into_inner);
    needless.retain(|(pattern, _)| !used.contains(pattern) && !missed.contains(pattern));
    needless
}

/// Whether a document has a text somewhere, as it is in JSON.
fn contains(document: &Value, text: &str) -> bool {
    document.to_string().contains(text)
}
