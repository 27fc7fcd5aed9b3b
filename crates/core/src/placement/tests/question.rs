//! PlacementReview: valid requests, their premises, and the document of the response.

use serde_json::{Value, json};

use super::{Options, cluster, fitting, node, required, running, tainted, term, with_containers};
use crate::placement::question::{Fetched, Reviewed};
use crate::placement::review::{PlacementReview, PlacementReviewSpec, PlacementReviewStatus, ResourceVersions};
use crate::placement::warning::Warning;
use crate::placement::{ClusterIndex, Pod};

fn spec(value: Value) -> PlacementReviewSpec {
    serde_json::from_value(value).unwrap()
}

/// Evaluates a review of a Pod or a workload, with a container.
fn evaluate(cluster: &ClusterIndex, value: Value) -> Result<Reviewed, String> {
    evaluate_unchanged(cluster, with_containers(value))
}

fn evaluate_unchanged(cluster: &ClusterIndex, value: Value) -> Result<Reviewed, String> {
    spec(value).answer(cluster, Fetched::default(), &Options::default()).map_err(|refusal| refusal.to_string())
}

fn texts(warnings: &[Warning]) -> Vec<String> {
    warnings.iter().map(ToString::to_string).collect()
}

fn nodes() -> ClusterIndex {
    cluster(&[node("n1", &["disk=ssd"]), node("n2", &[])], &[running("default/web", "n1", &["app=web"], json!({}))])
}

#[test]
fn exactly_one_pod_is_evaluated() {
    let cluster = nodes();
    let refused = "spec: Invalid value: exactly one of pod, template and podRef must be given";
    for value in [json!({}), json!({"pod": {}, "podRef": {"namespace": "a", "name": "b"}})] {
        assert_eq!(evaluate(&cluster, value.clone()).unwrap_err(), refused, "{value}");
    }
    assert_eq!(
        evaluate(&cluster, json!({"podRef": {"namespace": "a", "name": "b"}})).unwrap_err(),
        "spec.podRef: Invalid value: there is no such Pod"
    );
}

#[test]
fn a_new_pod_goes_through_admission_and_a_stored_one_does_not() {
    let away = required(
        "podAntiAffinity",
        json!([{"labelSelector": {}, "topologyKey": "kubernetes.io/hostname", "matchLabelKeys": ["app"]}]),
    );
    let document = json!({"metadata": {"labels": {"app": "db"}}, "spec": away});
    let fresh = evaluate(&nodes(), json!({"pod": document})).unwrap().answer;
    assert_eq!(fitting(&fresh), ["n1", "n2"], "merged, the term means pods of the same app");
    assert_eq!(fresh.pod().metadata.namespace, "default");
    assert_eq!(fresh.pod().spec.tolerations.len(), 2, "defaulted");
    let mut stored: Pod = serde_json::from_value(document).unwrap();
    stored.metadata.namespace = "default".to_owned();
    let fetched = Fetched { stored: Some(&stored), ..Fetched::default() };
    let by_reference = spec(json!({"podRef": {"namespace": "default", "name": "p"}}));
    let taken = by_reference.answer(&nodes(), fetched, &Options::default()).unwrap().answer;
    assert_eq!(fitting(&taken), ["n2"], "taken as it is");
    assert!(taken.pod().spec.tolerations.is_empty());
    let bound = running("default/p", "n1", &[], json!({}));
    let fetched = Fetched { stored: Some(&bound), ..Fetched::default() };
    let reviewed = by_reference.answer(&nodes(), fetched, &Options::default()).unwrap();
    assert_eq!(texts(&reviewed.warnings), ["the Pod is bound to n1, so no other node is possible"]);
}

#[test]
fn a_template_is_evaluated_as_the_next_pod_of_its_workload() {
    let template = json!({"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": required("podAntiAffinity", json!([{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname", "matchLabelKeys": ["pod-template-hash"]}])),
    }}});
    let answer = evaluate(&nodes(), json!({"template": template})).unwrap().answer;
    assert_eq!(fitting(&answer), ["n1", "n2"], "a new revision keeps away from itself only");
    assert_eq!(answer.terms()[0].derived, ["pod-template-hash=new"]);
    let invalid = json!({"kind": "Deployment", "spec": {"template": {"spec": {"tolerations": [{"key": "k", "operator": "Like"}]}}}});
    let message = evaluate(&nodes(), json!({"template": invalid})).unwrap_err();
    assert!(
        message.starts_with("spec.template.spec.tolerations[0].operator: Unsupported value: \"Like\""),
        "{message}"
    );
    let message = evaluate(&nodes(), json!({"template": {"kind": "Service"}})).unwrap_err();
    assert!(message.starts_with("spec.template: Invalid value: \"Service\" is not a supported workload"), "{message}");
}

#[test]
fn a_pod_of_very_many_terms_is_not_evaluated() {
    let terms = |number: usize| {
        let preferred = vec![json!({"weight": 1, "podAffinityTerm": term("app=web", "zone")}); number - 1];
        json!({"spec": {"affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
            ]},
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
        }}})
    };
    evaluate(&nodes(), json!({"pod": terms(256)})).unwrap();
    let message = "Invalid value: the Pod has 257 affinity terms; a review evaluates at most 256";
    let many = evaluate(&nodes(), json!({"pod": terms(257)})).unwrap_err();
    assert_eq!(many, format!("spec.affinity: {message}"));
    let stored: Pod = serde_json::from_value(terms(257)).unwrap();
    let fetched = Fetched { stored: Some(&stored), ..Fetched::default() };
    let by_reference = spec(json!({"podRef": {"namespace": "default", "name": "p"}}));
    let refused = by_reference.answer(&nodes(), fetched, &Options::default()).unwrap_err();
    assert_eq!(refused.to_string(), format!("spec.podRef: {message}"));
}

#[test]
fn premises_change_a_copy_and_nothing_else() {
    let cluster = nodes();
    let pod = json!({"spec": required("podAntiAffinity", json!([term("app=web", "kubernetes.io/hostname")]))});
    let fits = |what_if: Value| fitting(&evaluate(&cluster, json!({"pod": pod, "whatIf": what_if})).unwrap().answer);
    assert_eq!(fits(json!({})), ["n2"]);
    assert_eq!(fits(json!({"withoutPods": [{"namespace": "default", "name": "web"}]})), ["n1", "n2"]);
    assert!(fits(json!({"taints": [{"node": "n2", "key": "k", "value": "v", "effect": "NoSchedule"}]})).is_empty());
    assert_eq!(
        fits(json!({"labels": [{"node": "n2", "key": "kubernetes.io/hostname", "value": "n1"}]})),
        Vec::<String>::new(),
        "moved into the domain of n1"
    );
    assert_eq!(fits(json!({})), ["n2"], "nothing stays");
    let ssd = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
    let labelled =
        evaluate(&cluster, json!({"pod": ssd, "whatIf": {"labels": [{"node": "n2", "key": "disk", "value": "ssd"}]}}));
    assert_eq!(fitting(&labelled.unwrap().answer), ["n1", "n2"]);
    let replaced = super::cluster(&[tainted("n1", &["k=old:NoSchedule"])], &[]);
    let tolerant = json!({"spec": {"tolerations": [{"key": "k", "value": "new"}]}});
    let what_if = json!({"taints": [{"node": "n1", "key": "k", "value": "new", "effect": "NoSchedule"}]});
    assert_eq!(
        evaluate(&replaced, json!({"pod": tolerant, "whatIf": what_if})).unwrap().answer.feasible(),
        1,
        "a taint with the same key and effect is replaced"
    );
}

#[test]
fn invalid_premises_are_rejected() {
    let rows = [
        (
            json!({"taints": [{"node": "n9", "key": "k", "effect": "NoSchedule"}]}),
            "spec.whatIf.taints[0].node: Invalid value: \"n9\": there is no node with that name",
        ),
        (
            json!({"taints": [{"node": "n1", "key": "k", "effect": "Never"}]}),
            "spec.whatIf.taints[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
        ),
        (
            json!({"labels": [{"node": "n9", "key": "k", "value": "v"}]}),
            "spec.whatIf.labels[0].node: Invalid value: \"n9\": there is no node with that name",
        ),
        (
            json!({"labels": [{"node": "n1", "key": "k", "value": "-v"}]}),
            "spec.whatIf.labels[0].value: Invalid value: \"-v\": a valid label must",
        ),
        (
            json!({"withoutPods": vec![json!({"namespace": "a", "name": "b"}); 1001]}),
            "spec.whatIf.withoutPods: Too many: 1001: must have at most 1000 items",
        ),
    ];
    for (what_if, expected) in rows {
        let message = evaluate(&nodes(), json!({"pod": {}, "whatIf": what_if})).unwrap_err();
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn fields_that_do_not_exist_are_warned_of_and_lists_are_no_objects() {
    let warnings =
        |spec: Value| evaluate(&nodes(), json!({"pod": {"spec": spec}})).map(|reviewed| texts(&reviewed.warnings));
    let never_built = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": {}}}});
    assert_eq!(
        warnings(never_built).unwrap(),
        [
            "unknown field \"spec.affinity.nodeAffinity.requiredDuringSchedulingRequiredDuringExecution\" (never implemented: a Pod that no longer fits keeps running; `fieldcache place --misplaced` finds such Pods)"
        ]
    );
    let proposed =
        required("podAffinity", json!([{"labelSelector": {}, "topologyKey": "z", "matchLabelSelectors": []}]));
    assert_eq!(
        warnings(proposed).unwrap(),
        [
            "unknown field \"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelSelectors\" (use matchLabelKeys and mismatchLabelKeys)"
        ]
    );
    assert_eq!(
        warnings(json!({"tolerations": [{"operator": "Exists", "seconds": 5}]})).unwrap(),
        ["unknown field \"spec.tolerations[0].seconds\""]
    );
    let deprecated = warnings(json!({"nodeSelector": {"beta.kubernetes.io/arch": "amd64"}})).unwrap();
    assert_eq!(
        deprecated,
        ["spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use \"kubernetes.io/arch\" instead"]
    );
    let refused = warnings(json!({"affinity": [], "tolerations": {}})).unwrap_err();
    assert_eq!(
        refused,
        "[spec.affinity: Invalid value: []: must be an object, spec.tolerations: Invalid value: {}: must be a list]"
    );
    assert!(evaluate(&nodes(), json!({"pod": []})).is_err(), "a list is no Pod");
    assert!(evaluate(&nodes(), json!({"pod": {"metadata": []}})).is_err(), "nor metadata");
}

#[test]
fn fields_that_do_not_exist_are_reported_at_every_level() {
    let pod = |pod: Value| json!({"pod": pod});
    let workload =
        |kind: &str, spec: Value| json!({"template": {"kind": kind, "metadata": {"name": "a"}, "spec": spec}});
    let unknown = |field: &str| vec![format!("unknown field \"{field}\"")];
    for (value, expected) in [
        (pod(json!({"spec": {"nodeSelectr": {"disk": "ssd"}}})), unknown("spec.nodeSelectr")),
        (pod(json!({"spec": {"nodeselector": {"disk": "ssd"}}})), unknown("spec.nodeselector")),
        (pod(json!({"spec": {"nodeSelectr": null}})), unknown("spec.nodeSelectr")),
        (pod(json!({"sepc": {}})), unknown("sepc")),
        (pod(json!({"metadata": {"label": {}}})), unknown("metadata.label")),
        (
            pod(json!({"spec": {"schedulingGates": [{"name": "a", "nmae": "a"}]}})),
            unknown("spec.schedulingGates[0].nmae"),
        ),
        (
            pod(json!({"spec": {"topologySpreadConstraints": [{"labelSelector": {"matchLabel": {}}}]}})),
            unknown("spec.topologySpreadConstraints[0].labelSelector.matchLabel"),
        ),
        (pod(json!({"spec": {"nodeSelector": {"any.name/is": "right"}}, "status": {"any": 7}})), Vec::new()),
        (workload("Deployment", json!({"replica": 3, "template": {}})), unknown("spec.replica")),
        (workload("Deployment", json!({"selector": {"app": "a"}, "template": {}})), unknown("spec.selector.app")),
        (workload("ReplicationController", json!({"selector": {"app": "a"}, "template": {}})), Vec::new()),
        (workload("ReplicaSet", json!({"strategy": {}, "template": {}})), unknown("spec.strategy")),
        (workload("StatefulSet", json!({"ordinals": {"begin": 1}, "template": {}})), unknown("spec.ordinals.begin")),
        (
            workload("DaemonSet", json!({"template": {"spec": {"tolerations": [{"for": 5, "operator": "Exists"}]}}})),
            unknown("spec.template.spec.tolerations[0].for"),
        ),
        (workload("Job", json!({"template": {"metadata": {"label": {}}}})), unknown("spec.template.metadata.label")),
        (workload("Job", json!({"template": {"status": {}}})), unknown("spec.template.status")),
    ] {
        let warned = evaluate(&nodes(), value.clone()).unwrap_or_else(|refused| panic!("{value}: {refused}"));
        assert_eq!(texts(&warned.warnings), expected, "{value}");
    }
    let cron_job = json!({"template": {"kind": "CronJob", "metadata": {"name": "a"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": {
        "nodeSelectr": {}, "containers": [{"name": "a", "image": "b"}],
    }}}}}}});
    let warned = evaluate_unchanged(&nodes(), cron_job).unwrap();
    assert_eq!(texts(&warned.warnings), unknown("spec.jobTemplate.spec.template.spec.nodeSelectr"));
    let template = json!({"template": {"kind": "PodTemplate", "spec": {}, "template": {"spec": {
        "containers": [{"name": "a", "image": "b"}],
    }}}});
    assert_eq!(texts(&evaluate_unchanged(&nodes(), template).unwrap().warnings), unknown("spec"));
    let misspelt: serde_json::Map<String, Value> = (0..300).map(|number| (format!("f{number}"), json!(1))).collect();
    assert_eq!(
        evaluate(&nodes(), pod(misspelt.into())).unwrap().warnings.len(),
        100,
        "as many as an API server returns"
    );
}

#[test]
fn a_pod_that_cannot_be_created_without_containers_has_no_result() {
    let named = |name: &str| json!({"name": name, "image": "b"});
    let label = "a lowercase RFC 1123 label must consist of";
    for (containers, expected) in [
        (json!(null), "spec.containers: Required value"),
        (json!([]), "spec.containers: Required value"),
        (json!({}), "spec.containers: Invalid value: {}: must be a list"),
        (json!([{}]), "[spec.containers[0].name: Required value, spec.containers[0].image: Required value]"),
        (
            json!([null, {"name": "a", "image": "b"}]),
            "[spec.containers[0].name: Required value, spec.containers[0].image: Required value]",
        ),
        (json!([{"name": "a"}]), "spec.containers[0].image: Required value"),
        (json!([{"image": "a"}]), "spec.containers[0].name: Required value"),
        (json!([named("a"), named("a")]), "spec.containers[1].name: Duplicate value: \"a\""),
        (json!([named("A")]), &format!("spec.containers[0].name: Invalid value: \"A\": {label}")),
        (json!(["a"]), "spec.containers[0]: Invalid value: \"a\": must be an object"),
        (json!([{"name": 7, "image": "b"}]), "spec.containers[0].name: Invalid value: 7: must be a string"),
    ] {
        let spec = json!({"containers": containers});
        let refused = evaluate_unchanged(&nodes(), json!({"pod": {"spec": spec}})).unwrap_err();
        assert!(refused.starts_with(expected), "{containers}: {refused}");
        let template = json!({"kind": "Deployment", "spec": {"template": {"spec": spec}}});
        let refused = evaluate_unchanged(&nodes(), json!({"template": template})).unwrap_err();
        assert!(
            refused.starts_with(&expected.replace("spec.containers", "spec.template.spec.containers")),
            "{refused}"
        );
    }
    let labels = json!({"metadata": {"labels": {"-a": "b"}}, "spec": {"nodeSelector": {"-a": "b"}}});
    let refused = evaluate_unchanged(&nodes(), json!({"pod": labels})).unwrap_err();
    let places = ["metadata.labels", "spec.containers", "spec.nodeSelector"].map(|field| refused.find(field));
    assert!(places.is_sorted() && places[0].is_some(), "in the order of an API server: {refused}");
}

#[test]
fn the_result_is_a_document() {
    let question = json!({
        "apiVersion": "view.fieldcache.dev/v1alpha1", "kind": "PlacementReview",
        "spec": {"pod": {"spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "kept", "image": "kept"}]}}, "nodeNames": ["n2"]},
    });
    let mut review: PlacementReview = serde_json::from_value(question.clone()).unwrap();
    let reviewed = review.spec.answer(&nodes(), Fetched::default(), &Options::default()).unwrap();
    let versions = ResourceVersions { nodes: "1".to_owned(), pods: "2".to_owned(), namespaces: "3".to_owned() };
    review.status = Some(PlacementReviewStatus {
        nodes: reviewed.answer.nodes(&review.spec.node_names),
        ..reviewed.answer.summary(versions, Some(4))
    });
    let mut document = serde_json::to_value(&review).unwrap();
    let status = document["status"].take();
    let mut sent = question;
    sent["status"] = Value::Null;
    assert_eq!(document, sent, "the question comes back whole");
    let mut status = status;
    assert!(status["notEvaluated"].take().as_array().unwrap().len() > 5);
    assert_eq!(
        status,
        json!({
            "resourceVersions": {"nodes": "1", "pods": "2", "namespaces": "3"},
            "ageSeconds": 4,
            "feasible": 1,
            "total": 2,
            "message": "1/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            "reasons": [{"reason": "NodeAffinityMismatch", "message": "node(s) didn't match Pod's node affinity/selector", "count": 1}],
            "notEvaluated": null,
            "nodes": [{
                "name": "n2",
                "fits": false,
                "rejections": [{
                    "plugin": "NodeAffinity",
                    "kind": "Unresolvable",
                    "reason": "NodeAffinityMismatch",
                    "message": "node(s) didn't match Pod's node affinity/selector",
                    "term": {"fieldPath": "spec.nodeSelector[disk]", "text": "disk=ssd"},
                    "label": "!disk",
                }],
            }],
        })
    );
}
