//! What is sent to a server and what becomes of its answers, as far as no server is needed for it.

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Value, json};

use super::{FOLDER, json as printed_json, parsed, placed};
use crate::cli::exit::Exit;
use crate::cli::place::node_report::NodeDetails;
use crate::cli::place::nodes::no_such_node;
use crate::cli::place::remote::{is_remote, read_response, retry_while_loading};
use crate::cli::place::remote_error::{not_there, remedy, review_error};
use crate::cli::place::reviewed::{ReviewResult, printed};
use crate::cli::place::reviews::{path, requests};
use crate::placement::Node;
use crate::placement::review::{PlacementReview, PlacementReviewSpec, WhatIf};
use crate::source::connection::{RequestError, UpstreamResponse};

const URL: &str = "http://127.0.0.1:8181";

#[test]
fn a_server_is_used_unless_a_review_cannot_express_the_request() {
    for (arguments, expected, why) in [
        (&["pod/a", "--server", URL][..], true, "a stored Pod"),
        (&["-f", "pod.yaml", "--server", URL, "--node", "n", "-o", "json"], true, "a file"),
        (
            &["pod/a", "--server", URL, "--taint", "n=k:NoSchedule", "--label", "n:a=b", "--without-pod", "a/b"],
            true,
            "premises",
        ),
        (&["pod/a", "--server", URL, "--kubeconfig", "somebody's"], true, "with credentials"),
        (&["pod/a"], false, "a cluster"),
        (&["pod/a", "--kubeconfig", "a"], false, "a cluster"),
        (&["pod/a", "--dir", "a"], false, "a folder"),
        (&["--misplaced", "--server", URL], false, "what runs"),
        (&["--uses-match-label-keys", "--server", URL], false, "what runs"),
        (&["pod/a", "--server", URL, "--scheduler-config", "a"], false, "another scheduler"),
        (&["pod/a", "--server", URL, "--limit-hard-anti-affinity-topology"], false, "another API server"),
        (&["pod/a", "--server", URL, "--toleration-comparison"], false, "a feature gate"),
        (&["pod/a", "--server", URL, "--target-version", "1.33"], false, "another version"),
    ] {
        assert_eq!(is_remote(&parsed(arguments).unwrap()), expected, "{why}: {arguments:?}");
    }
}

#[test]
fn fields_that_do_not_exist_are_to_be_warned_of() {
    assert_eq!(path(), "/apis/view.fieldcache.dev/v1alpha1/placementreviews?fieldValidation=Warn");
}

#[tokio::test]
async fn answers_are_read_as_they_were_written() {
    for (scenario, file) in [
        ("disktype", "pod.yaml"),
        ("zones", "pod.yaml"),
        ("pod-affinity", "pod.yaml"),
        ("pod-affinity", "required-by-zone.yaml"),
        ("taints", "pod.yaml"),
        ("rolling-upgrade", "with-keys.yaml"),
    ] {
        let (written, _) = printed_json(scenario, &["-f", &format!("HERE/{file}")]).await;
        let mut sent = written.clone();
        sent["metadata"] = json!({});
        let (received, status) = read_response(sent.to_string().as_bytes()).unwrap();
        assert_eq!(received, written, "{scenario}/{file}: empty metadata have no owner");
        assert_eq!(json!(status), written["status"], "{scenario}/{file}");
    }
    let (received, _) = read_response(br#"{"metadata": {"name": "a"}, "status": {"total": 1, "new": 1}}"#).unwrap();
    assert_eq!(received, json!({"metadata": {"name": "a"}, "status": {"total": 1, "new": 1}}), "nothing gets lost");
    for wrong in ["", "<html>", "[]", "{}", r#"{"status": "Success"}"#, r#"{"status": {"nodes": 1}}"#] {
        assert!(read_response(wrong.as_bytes()).is_err(), "{wrong:?} is no answer");
    }
}

fn answered(status: &Value, spec: PlacementReviewSpec, about: Option<NodeDetails>) -> ReviewResult {
    let (received, read) = read_response(json!({ "status": status }).to_string().as_bytes()).unwrap();
    let review = PlacementReview { spec, status: Some(read), ..PlacementReview::default() };
    let is_event = status.get("total").is_none();
    ReviewResult { subject: "Pod a/b".to_owned(), review, received: Some(received), is_event, about }
}

#[test]
fn of_a_pod_that_one_may_only_get_the_message_is_printed() {
    let not = json!(["NodePorts (host ports)"]);
    for (message, expected) in [
        ("0/2 nodes are available: 2 node(s) were unschedulable.", Exit::No),
        ("waiting for scheduling gates: [one]", Exit::No),
        ("no nodes available to schedule pods", Exit::No),
        ("the Pod fits a node by the rules that were evaluated, so it has no FailedScheduling event", Exit::Done),
        ("the Pod is bound to node1, so it has no FailedScheduling event", Exit::Done),
    ] {
        let status = json!({"message": message, "notEvaluated": not});
        let answers = [answered(&status, PlacementReviewSpec::default(), None)];
        let (text, exit) = printed(&parsed(&["pod/b"]).unwrap(), &answers);
        assert!(
            text.starts_with(&format!(
                "Pod a/b: {message}\n\nThis is the message of the Pod's FailedScheduling event."
            )),
            "{text}"
        );
        assert!(text.contains("\nNot evaluated: free resources"), "{text}");
        assert_eq!(exit, expected, "{message}");
        let (text, _) = printed(&parsed(&["pod/b", "-o", "wide"]).unwrap(), &answers);
        assert!(
            text.contains("  NodePorts (host ports)\n") && !text.contains("Evaluated at the resourceVersions: nodes"),
            "{text}"
        );
        let (text, _) = printed(&parsed(&["pod/b", "-o", "json"]).unwrap(), &answers);
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["status"], status, "as it came");
    }
}

#[test]
fn what_is_not_known_of_a_node_is_said() {
    let status = json!({
        "total": 1, "feasible": 1, "message": "1/1 nodes are available.", "nodes": [{"name": "one", "fits": true}],
    });
    let tainted = || {
        let json = br#"{"metadata": {"name": "one"}, "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}"#;
        Node::read(json).unwrap()
    };
    let text = |about| {
        let answers = [answered(&status, PlacementReviewSpec::default(), Some(about))];
        let (text, exit) = printed(&parsed(&["pod/b", "--node", "one"]).unwrap(), &answers);
        assert_eq!(exit, Exit::Done, "{text}");
        assert!(text.starts_with("Pod a/b fits one.\n") && text.contains("\nNo rule rejects the node.\n"), "{text}");
        text
    };
    let found = text(NodeDetails { node: Err("no".to_owned()), tolerations: Ok(Vec::new()) });
    let is_unknown = found.contains("\nThe labels and taints of the node are not known: no\n");
    assert!(is_unknown && !found.contains("Labels:"), "{found}");
    let found = text(NodeDetails { node: Ok(tainted()), tolerations: Err("no".to_owned()) });
    let expected = "Labels: none\nTaints: k=v:NoSchedule\n  the tolerations of the Pod are not known: no\n";
    assert!(found.contains(expected), "{found}");
    let found = text(NodeDetails { node: Ok(tainted()), tolerations: Ok(Vec::new()) });
    assert!(found.contains("  k=v:NoSchedule: not tolerated"), "{found}");
}

#[test]
fn a_missing_node_is_reported_with_the_existing_ones() {
    let some = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (names, all, expected) in [
        (&[][..], 0, "there are no nodes"),
        (&["a", "b"], 2, "the nodes are a, b"),
        (&["a", "b"], 20, "the nodes are a, b, … (20)"),
        (&[], 20, "there are 20 others"),
    ] {
        assert_eq!(no_such_node("x", &some(names), all), format!("there is no node \"x\": {expected}"));
    }
}

#[test]
fn only_requests_for_loading_stores_are_repeated() {
    let answer = |code, message: &str, seconds: Option<u64>| UpstreamResponse {
        code,
        retry_after: seconds.map(Duration::from_secs),
        body: json!({"kind": "Status", "message": message}).to_string().into(),
    };
    let loading = "storage is (re)initializing: pods: 5 of 10";
    let continued = |seconds, text: &str| ControlFlow::Continue((Duration::from_secs(seconds), text.to_owned()));
    for (answer, expected) in [
        (answer(429, loading, Some(3)), continued(3, "pods: 5 of 10")),
        (answer(429, "storage is (re)initializing", None), continued(1, "")),
        (answer(429, "4 placement reviews are in progress", Some(1)), ControlFlow::Break(())),
        (answer(503, loading, Some(1)), ControlFlow::Break(())),
        (answer(201, "", None), ControlFlow::Break(())),
        (UpstreamResponse { code: 429, retry_after: None, body: "later".into() }, ControlFlow::Break(())),
    ] {
        assert_eq!(retry_while_loading(&answer), expected, "{answer:?}");
    }
}

#[tokio::test]
async fn rejections_are_reported_as_without_a_server() {
    let stored = &requests(&parsed(&["pod/a", "-n", "b"]).unwrap(), "default").unwrap()[0];
    let file = format!("{FOLDER}/tenants/as-printed.yaml");
    let manifest = &requests(&parsed(&["-f", &file]).unwrap(), "default").unwrap()[0];
    let local = placed("tenants", &["-f", "HERE/as-printed.yaml"]).await.unwrap_err();
    let field = "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys";
    let message = "Forbidden: must not be specified when labelSelector is not set";
    let of_manifest = json!({"reason": "Invalid", "details": {"kind": "PlacementReview", "causes": [
        {"field": format!("spec.pod.spec.{field}"), "message": message, "reason": "FieldValueForbidden"},
    ]}});
    let two =
        json!({"details": {"causes": [{"field": "spec.a", "message": "b"}, {"field": "spec.c", "message": "d"}]}});
    let rejected = json!({"message": "pods \"a\" is forbidden: pod rejected: RuntimeClass \"x\" not found"});
    let rights = json!({"message": "nodes is forbidden: User \"x\" cannot list", "details": {"kind": "nodes"}});
    let place = &manifest.place;
    for (request, code, status, expected) in [
        (
            stored,
            404,
            json!({"message": "pods \"a\" not found", "details": {"name": "a", "kind": "pods"}}),
            Some("pods \"a\" not found in namespace \"b\"".to_owned()),
        ),
        (stored, 404, json!({"message": "404 page not found"}), None),
        (stored, 404, Value::Null, None),
        (manifest, 422, of_manifest, Some(format!("{local:#}"))),
        (stored, 422, two.clone(), Some("spec.a: b; spec.c: d".to_owned())),
        (manifest, 422, two, Some(format!("{place}Pod default/as-printed is invalid:\n  spec.a: b\n  spec.c: d"))),
        (stored, 422, json!({"message": "no causes"}), None),
        (manifest, 403, rejected.clone(), Some(format!("{place}{}", rejected["message"].as_str().unwrap()))),
        (stored, 403, rights, None),
        (stored, 503, json!({"message": "nodes are not cached here"}), None),
    ] {
        let found = review_error(request, code, &status).map(|error| format!("{error:#}"));
        assert_eq!(found, expected, "{code} {status}");
    }
}

#[test]
fn refusals_come_with_what_to_do() {
    let request = |premised: bool, arguments: &[&str]| {
        let mut request = requests(&parsed(arguments).unwrap(), "default").unwrap().remove(0);
        request.spec.what_if = premised.then(WhatIf::default);
        request
    };
    let file = format!("{FOLDER}/disktype/pod.yaml");
    let rights = json!({"message": "nodes is forbidden: User \"x\" cannot list resource \"nodes\"", "details": {"kind": "nodes"}});
    let foreign = json!({"message": "the host example.com is not this server's"});
    let of_cluster =
        json!({"message": "x is forbidden: User \"y\" cannot create resource \"placementreviews\" in API group \"z\""});
    for (request, code, status, expected) in [
        (request(false, &["pod/a"]), 403, &rights, "grant list on nodes and pods, or get on the Pod"),
        (request(false, &["-f", &file]), 403, &rights, "grant list on nodes and pods"),
        (request(true, &["pod/a"]), 403, &rights, "omit --node, --taint, --label and --without-pod"),
        (request(false, &["pod/a", "--node", "n"]), 403, &rights, "omit --node, --taint, --label and --without-pod"),
        (request(false, &["pod/a"]), 403, &of_cluster, "grant create on placementreviews.view.fieldcache.dev"),
        (request(false, &["pod/a"]), 403, &foreign, ""),
        (request(false, &["pod/a"]), 503, &Value::Null, ""),
    ] {
        let found = remedy(&request, code, status).unwrap_or_default();
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{status}: {found}");
    }
    let absent = || Err(RequestError::Unreachable { url: URL.to_owned(), cause: String::new() });
    let view = format!("{URL}/apis/view.fieldcache.dev/v1alpha1/views/a/proxy");
    for (url, group, expected) in [
        (
            URL,
            absent(),
            "is not a fieldcache server, or is too old for placement reviews: give the URL of another server with --server",
        ),
        (URL, Ok(()), "is a fieldcache server without placement reviews: upgrade it"),
        (
            &*view,
            Ok(()),
            "is the URL of a View, which has no placement reviews: give the URL of the fieldcache server itself",
        ),
        (
            &*view,
            absent(),
            "is the URL of a View, which has no placement reviews: give the URL of the fieldcache server itself",
        ),
    ] {
        let found = not_there(url, &group);
        assert!(found.contains(expected) && found.starts_with(url), "{found}");
    }
}
