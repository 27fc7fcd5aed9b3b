//! The text of a review is that of its document.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{cluster, incoming, labelled, node, required, running, tainted, term};
use crate::placement::review::{API_VERSION, KIND, PlacementReview, PlacementReviewStatus, ResourceVersions};
use crate::placement::{ClusterIndex, Options, PlacementResult};

fn review() -> PlacementReview {
    PlacementReview { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), ..PlacementReview::default() }
}

/// The text as it is written directly, and the text of the document, for these nodes.
pub(super) fn written(answer: &PlacementResult, names: &[&str]) -> (String, String) {
    let node_names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut review = self::review();
    review.spec.node_names = node_names.clone();
    let (versions, age) = (ResourceVersions::default(), Some(2));
    let summary = answer.summary(versions, age);
    let whole = PlacementReviewStatus { nodes: answer.nodes(&node_names), ..summary.clone() };
    let document = PlacementReview { status: Some(whole), ..review.clone() };
    review.status = Some(summary);
    let text = String::from_utf8(answer.text_of(review).unwrap()).unwrap();
    let read: Value = serde_json::from_str(&text).unwrap();
    let read = PlacementReviewStatus::deserialize(&read["status"]).unwrap();
    assert_eq!(Some(read), document.status, "a client reads the text as the same status");
    (text, serde_json::to_string(&document).unwrap())
}

fn odd() -> ClusterIndex {
    // No API server has such names, but a folder may.
    let quoted = node("with \"quotes\" and \\", &["zone=\u{1}\t\u{e4}", "disk=hdd"]);
    let pods =
        [running("default/a\"b", "plain", &["app=web"], required("podAntiAffinity", json!([term("app=x", "zone")])))];
    cluster(
        &[quoted, node("plain", &["zone=\u{1}\t\u{e4}", "disk=ssd"]), tainted("taken", &["key=value:NoSchedule"])],
        &pods,
    )
}

#[test]
fn every_kind_of_rejection_is_written_as_its_document_is() {
    let by_zone = |label: &str| json!([term(label, "zone")]);
    let on_names = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["plain"]}]}]);
    let node_affinity = |terms| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    let rows = [
        ("nothing but taints", json!({})),
        ("a node selector", json!({"nodeSelector": {"disk": "ssd"}})),
        ("affinity", required("podAffinity", by_zone("app=web"))),
        ("anti-affinity", required("podAntiAffinity", by_zone("app=web"))),
        ("names", node_affinity(on_names)),
        ("no term", node_affinity(json!([]))),
        ("gates", json!({"schedulingGates": [{"name": "one"}]})),
        (
            "a term that cannot be parsed",
            required("podAffinity", json!([{"labelSelector": {"matchLabels": {"a b": "c"}}, "topologyKey": "zone"}])),
        ),
    ];
    let cluster = odd();
    for (message, spec) in rows {
        for pod in [incoming(spec.clone()), labelled(&["app=x"], spec)] {
            for target_minor in [33, 36] {
                let answer = cluster.review(&pod, &Options { target_minor, ..Options::default() });
                for names in [&[][..], &["plain", "nowhere"], &["nowhere"]] {
                    let (text, document) = written(&answer, names);
                    assert_eq!(text, document, "{message}, 1.{target_minor}, {names:?}");
                }
            }
        }
    }
    let (text, _) = written(&cluster.review(&incoming(json!({})), &Options::default()), &[]);
    assert!(text.contains(r#"{"name":"with \"quotes\" and \\","fits":true,"scores":["#), "{text}");
}

#[test]
fn a_review_without_status_has_no_reports() {
    let answer = odd().review(&incoming(json!({})), &Options::default());
    let text = answer.text_of(review()).unwrap();
    assert_eq!(text, serde_json::to_vec(&review()).unwrap());
}
