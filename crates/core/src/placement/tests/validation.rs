//! The errors and warnings of an API server, word for word.

use serde_json::{Value, json};

use super::{Options, incoming, labelled, required};
use crate::placement::admission::{AdmissionError, admit};
use crate::placement::node::Taint;
use crate::placement::pod::Pod;
use crate::placement::validate::{self, pod, taints, template};

const KEY_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const DNS_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

fn problems(spec: Value) -> Vec<String> {
    pod(&incoming(spec), &Options::default()).iter().map(ToString::to_string).collect()
}

fn warnings(spec: Value) -> Vec<String> {
    validate::warnings(&incoming(spec).spec, "spec").iter().map(ToString::to_string).collect()
}

fn node_terms(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

#[test]
fn node_selectors_and_node_affinity_are_rejected_in_upstreams_words() {
    let path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let expression = |key: &str, operator: &str, values: Value| {
        node_terms(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
    };
    let field = |key: &str, operator: &str, values: Value| {
        node_terms(json!([{"matchFields": [{"key": key, "operator": operator, "values": values}]}]))
    };
    let rows = [
        (node_terms(json!([])), vec![format!("{path}: Required value: must have at least one node selector term")]),
        (node_terms(json!([{}])), vec![]),
        (
            expression("k", "In", json!([])),
            vec![format!(
                "{path}[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
            )],
        ),
        (
            expression("k", "NotIn", json!(null)),
            vec![format!(
                "{path}[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
            )],
        ),
        (
            expression("k", "Exists", json!(["v"])),
            vec![format!(
                "{path}[0].matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )],
        ),
        (
            expression("k", "Gt", json!(["1", "2"])),
            vec![format!(
                "{path}[0].matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
            )],
        ),
        (expression("k", "Gt", json!(["ten"])), vec![]),
        (
            expression("k", "Like", json!(["v"])),
            vec![format!(
                "{path}[0].matchExpressions[0].operator: Invalid value: \"Like\": not a valid selector operator"
            )],
        ),
        (
            expression("-k", "Exists", json!([])),
            vec![format!("{path}[0].matchExpressions[0].key: Invalid value: \"-k\": {KEY_RULE}")],
        ),
        (
            expression("k", "In", json!(["ok", "-v-"])),
            vec![format!("{path}[0].matchExpressions[0].values[1]: Invalid value: \"-v-\": {VALUE_RULE}")],
        ),
        (field("metadata.name", "In", json!(["n1"])), vec![]),
        (
            field("metadata.name", "In", json!(["n1", "n2"])),
            vec![format!(
                "{path}[0].matchFields[0].values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )],
        ),
        (
            field("metadata.name", "Exists", json!([])),
            vec![format!(
                "{path}[0].matchFields[0].operator: Invalid value: \"Exists\": not a valid selector operator"
            )],
        ),
        (
            field("metadata.uid", "In", json!(["x"])),
            vec![format!(
                "{path}[0].matchFields[0].key: Invalid value: \"metadata.uid\": not a valid field selector key"
            )],
        ),
        (json!({"nodeSelector": {"-k": "v"}}), vec![format!("spec.nodeSelector: Invalid value: \"-k\": {KEY_RULE}")]),
        (json!({"nodeSelector": {"k": "-v"}}), vec![format!("spec.nodeSelector: Invalid value: \"-v\": {VALUE_RULE}")]),
        (json!({"nodeSelector": {"KubernetesUpper.Case_Key": "Value"}}), vec![]),
    ];
    for (spec, expected) in rows {
        assert_eq!(problems(spec.clone()), expected, "{spec}");
    }
    let name = problems(field("metadata.name", "In", json!(["Not-A-Name"])));
    assert!(
        name[0].starts_with(&format!(
            "{path}[0].matchFields[0].values[0]: Invalid value: \"Not-A-Name\": a lowercase RFC 1123 subdomain must"
        )),
        "{name:?}"
    );
    assert!(
        problems(json!({"nodeSelector": {"Upper.Case/k": "v"}}))[0]
            .contains("prefix part a lowercase RFC 1123 subdomain"),
        "a prefix has no upper case"
    );
}

#[test]
fn preferences_are_rejected_in_upstreams_words() {
    let preferred = |weight: i64, values: Value| {
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "preference": {"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}},
        ]}}})
    };
    let path = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]";
    for (weight, is_fine) in [(0, false), (1, true), (100, true), (101, false), (-1, false)] {
        let expected = if is_fine {
            vec![]
        } else {
            vec![format!("{path}.weight: Invalid value: {weight}: must be in the range 1-100")]
        };
        assert_eq!(problems(preferred(weight, json!(["v"]))), expected, "node weight {weight}");
        let pods = super::preferred("podAntiAffinity", weight, super::term("a=1", "zone"));
        let path = "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]";
        let expected = if is_fine {
            vec![]
        } else {
            vec![format!("{path}.weight: Invalid value: {weight}: must be in the range 1-100")]
        };
        assert_eq!(problems(pods), expected, "pod weight {weight}");
    }
    assert!(problems(preferred(1, json!(["-v-"]))).is_empty(), "values that are no label values pass here");
    let found = warnings(preferred(1, json!(["-v-"])));
    assert_eq!(
        found,
        [format!("{path}.preference.matchExpressions[0].values[0]: -v- is invalid, {VALUE_RULE}")],
        "with a warning"
    );
}

#[test]
fn pod_terms_are_rejected_in_upstreams_words() {
    let path = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let with = |changes: Value| {
        let mut term = json!({"labelSelector": {}, "topologyKey": "zone"});
        for (key, value) in changes.as_object().unwrap() {
            term[key] = value.clone();
        }
        problems(required("podAffinity", json!([term])))
    };
    let expressions = |operator: &str, values: Value| json!({"labelSelector": {"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}});
    let rows = [
        (json!({}), vec![]),
        (
            json!({"topologyKey": ""}),
            vec![
                format!("{path}.topologyKey: Required value: can not be empty"),
                format!("{path}.topologyKey: Invalid value: \"\": name part must be non-empty"),
                format!("{path}.topologyKey: Invalid value: \"\": {KEY_RULE}"),
            ],
        ),
        (json!({"topologyKey": "any.domain/Key"}), vec![]),
        (
            json!({"namespaces": ["ok", "Not_Ok"]}),
            vec![format!("{path}.namespace: Invalid value: \"Not_Ok\": {DNS_RULE}")],
        ),
        (
            expressions("Gt", json!(["1"])),
            vec![format!(
                "{path}.labelSelector.matchExpressions[0].operator: Invalid value: \"Gt\": not a valid selector operator"
            )],
        ),
        (
            expressions("Lt", json!(["1"])),
            vec![format!(
                "{path}.labelSelector.matchExpressions[0].operator: Invalid value: \"Lt\": not a valid selector operator"
            )],
        ),
        (
            expressions("ExistsWithSameValue", json!([])),
            vec![format!(
                "{path}.labelSelector.matchExpressions[0].operator: Invalid value: \"ExistsWithSameValue\": not a valid selector operator"
            )],
        ),
        (
            expressions("In", json!([])),
            vec![format!(
                "{path}.labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
            )],
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"-k": "v"}}}),
            vec![format!("{path}.namespaceSelector.matchLabels: Invalid value: \"-k\": {KEY_RULE}")],
        ),
        (
            json!({"labelSelector": null, "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b"]}),
            vec![
                format!("{path}.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"),
                format!("{path}.mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set"),
            ],
        ),
        (
            json!({"matchLabelKeys": ["-a"]}),
            vec![format!("{path}.matchLabelKeys[0]: Invalid value: \"-a\": {KEY_RULE}")],
        ),
        (
            json!({"matchLabelKeys": ["a"], "mismatchLabelKeys": ["b", "a"]}),
            vec![format!(
                "{path}.matchLabelKeys[0]: Invalid value: \"a\": exists in both matchLabelKeys and mismatchLabelKeys"
            )],
        ),
    ];
    for (changes, expected) in rows {
        assert_eq!(with(changes.clone()), expected, "{changes}");
    }
}

#[test]
fn a_merged_key_must_not_be_in_the_selector_too() {
    let path = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let clash = |index: usize| {
        vec![format!("{path}[{index}]: Invalid value: \"a\": exists in both matchLabelKeys and labelSelector")]
    };
    let own = json!({"key": "a", "operator": "Exists"});
    let term = |selector: Value, keys: Value| json!({"labelSelector": selector, "topologyKey": "zone", "matchLabelKeys": keys});
    let has: &[&str] = &["a=1"];
    let lacks: &[&str] = &["b=1"];
    let rows = [
        (has, term(json!({}), json!(["a"])), vec![], "merged once"),
        (has, term(json!({"matchLabels": {"a": "1"}}), json!(["a"])), clash(0), "in matchLabels"),
        (
            has,
            term(json!({"matchExpressions": [own]}), json!(["b", "a"])),
            clash(1),
            "in matchExpressions; the index is that of the key",
        ),
        (lacks, term(json!({"matchExpressions": [own]}), json!(["a"])), vec![], "nothing is merged without the label"),
        (lacks, term(json!({"matchExpressions": [own, own]}), json!(["a"])), clash(0), "but the user's own two clash"),
        (
            lacks,
            term(json!({"matchLabels": {"a": "1"}, "matchExpressions": [own]}), json!(["a"])),
            clash(0),
            "in both of the user's forms",
        ),
        (
            has,
            term(json!({}), json!(["a", "a"])),
            clash(1),
            "the same key twice is merged twice; the last index counts",
        ),
        (lacks, term(json!({}), json!(["a", "a"])), vec![], "and not merged at all without the label"),
    ];
    for (labels, term, expected, why) in rows {
        let spec = required("podAffinity", json!([term]));
        let found = match admit(labelled(labels, spec.clone()), None, &Options::default()) {
            Ok(_) => Vec::new(),
            Err(AdmissionError::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
            Err(other) => panic!("{why}: {other}"),
        };
        assert_eq!(found, expected, "{why}");
    }
    let mismatch =
        json!([{"labelSelector": {"matchExpressions": [own]}, "topologyKey": "zone", "mismatchLabelKeys": ["a"]}]);
    assert!(
        admit(labelled(has, required("podAntiAffinity", mismatch)), None, &Options::default()).is_ok(),
        "keys of mismatchLabelKeys may be in the selector"
    );
    let deployed: Pod =
        labelled(has, required("podAffinity", json!([term(json!({"matchLabels": {"a": "1"}}), json!(["a"]))])));
    assert!(
        template(&deployed, "spec.template", &Options::default()).is_empty(),
        "a template is validated unmerged: its pods are rejected"
    );
}

#[test]
fn tolerations_are_rejected_in_upstreams_words() {
    let with = |toleration: Value, options: &Options| -> Vec<String> {
        let pod = incoming(json!({"tolerations": [toleration]}));
        validate::pod(&pod, options).iter().map(ToString::to_string).collect()
    };
    let gate_off = Options::default();
    let gate_on = Options { toleration_comparison: true, ..Options::default() };
    let path = "spec.tolerations[0]";
    let rows = [
        (json!({"key": "k", "operator": "Exists"}), &gate_off, vec![]),
        (json!({"operator": "Exists"}), &gate_off, vec![]),
        (json!({"key": "k", "value": "v", "effect": "NoExecute", "tolerationSeconds": -1}), &gate_off, vec![]),
        (
            json!({"operator": "Equal", "value": "v"}),
            &gate_off,
            vec![format!(
                "{path}.operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\""
            )],
        ),
        (
            json!({"value": "v"}),
            &gate_off,
            vec![format!(
                "{path}.operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\""
            )],
        ),
        (
            json!({"key": "k", "operator": "Exists", "value": "x"}),
            &gate_off,
            vec![format!("{path}.operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'")],
        ),
        (
            json!({"key": "k", "operator": "Equal", "value": "-x-"}),
            &gate_off,
            vec![format!("{path}.operator: Invalid value: \"-x-\": {VALUE_RULE}")],
        ),
        (
            json!({"key": "k", "operator": "Like"}),
            &gate_off,
            vec![format!("{path}.operator: Unsupported value: \"Like\": supported values: \"Equal\", \"Exists\"")],
        ),
        (
            json!({"key": "k", "operator": "Gt", "value": "5"}),
            &gate_off,
            vec![format!(
                "{path}.operator: Unsupported value: \"Gt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\""
            )],
        ),
        (json!({"key": "k", "operator": "Gt", "value": "5"}), &gate_on, vec![]),
        (
            json!({"key": "k", "operator": "Lt", "value": "05"}),
            &gate_on,
            vec![format!("{path}.value: Invalid value: \"05\": must be a valid decimal integer in canonical form")],
        ),
        (
            json!({"key": "k", "operator": "Lt", "value": "5.5"}),
            &gate_on,
            vec![
                format!("{path}.value: Invalid value: \"5.5\": must be a valid decimal integer in canonical form"),
                format!("{path}.value: Invalid value: \"5.5\": strconv.ParseInt: parsing \"5.5\": invalid syntax"),
            ],
        ),
        (
            json!({"key": "k", "operator": "Gt", "value": ""}),
            &gate_on,
            vec![
                format!("{path}.value: Invalid value: \"\": must be non-empty"),
                format!("{path}.value: Invalid value: \"\": strconv.ParseInt: parsing \"\": invalid syntax"),
            ],
        ),
        (
            json!({"key": "k", "operator": "Gt", "value": "9223372036854775808"}),
            &gate_on,
            vec![format!(
                "{path}.value: Invalid value: \"9223372036854775808\": strconv.ParseInt: parsing \"9223372036854775808\": value out of range"
            )],
        ),
        (
            json!({"key": "k", "operator": "Exists", "tolerationSeconds": 5}),
            &gate_off,
            vec![format!(
                "{path}.effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set"
            )],
        ),
        (
            json!({"key": "k", "operator": "Exists", "effect": "Never"}),
            &gate_off,
            vec![format!(
                "{path}.effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""
            )],
        ),
        (
            json!({"key": "-k", "operator": "Exists"}),
            &gate_off,
            vec![format!("{path}.key: Invalid value: \"-k\": {KEY_RULE}")],
        ),
    ];
    for (toleration, options, expected) in rows {
        assert_eq!(with(toleration.clone(), options), expected, "{toleration}");
    }
}

#[test]
fn gates_and_a_node_name_exclude_each_other() {
    let found = problems(json!({"nodeName": "n1", "schedulingGates": [{"name": "a"}, {"name": "a"}]}));
    assert_eq!(
        found,
        [
            "spec.schedulingGates[1]: Duplicate value: \"a\"".to_owned(),
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared".to_owned(),
        ]
    );
    assert!(
        problems(json!({"nodeName": "Not_A_Name"}))[0]
            .starts_with("spec.nodeName: Invalid value: \"Not_A_Name\": a lowercase RFC 1123 subdomain must")
    );
}

#[test]
fn taints_of_a_node_are_unique_by_key_and_effect() {
    let of = |texts: &[(&str, &str, &str)]| {
        let list: Vec<Taint> = texts
            .iter()
            .map(|(key, value, effect)| Taint {
                key: (*key).to_owned(),
                value: (*value).to_owned(),
                effect: (*effect).to_owned(),
                time_added: None,
            })
            .collect();
        taints(&list, "spec.taints").iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    assert!(of(&[("k", "v", "NoSchedule"), ("k", "v", "NoExecute"), ("l", "v", "NoSchedule")]).is_empty());
    let twice = of(&[("k", "v", "NoSchedule"), ("k", "w", "NoSchedule")]);
    assert_eq!(
        twice,
        [
            "spec.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"k\",\"value\":\"w\"}: taints must be unique by key and effect pair"
        ]
    );
    assert_eq!(of(&[("k", "", "")]), ["spec.taints[0].effect: Required value"]);
    assert_eq!(
        of(&[("k", "", "Never")]),
        [
            "spec.taints[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""
        ]
    );
    assert_eq!(of(&[("", "-", "NoSchedule")]).len(), 3, "key and value are validated");
}

#[test]
fn several_errors_are_reported_at_once_and_in_order() {
    let mut bad = labelled(
        &["-l=v"],
        json!({
            "nodeSelector": {"-k": "v"},
            "tolerations": [{"key": "k", "operator": "Like"}],
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}, "topologyKey": "-t"}]}},
        }),
    );
    bad.metadata.name = "p".to_owned();
    let refusal = admit(bad, None, &Options::default()).unwrap_err();
    let AdmissionError::Invalid(found) = &refusal else { panic!("{refusal}") };
    let fields: Vec<&str> = found.iter().map(|problem| problem.field.as_str()).collect();
    let term = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey";
    assert_eq!(fields, ["metadata.labels", "spec.nodeSelector", term, "spec.tolerations[0].operator"]);
    assert!(refusal.to_string().starts_with("[metadata.labels: Invalid value: \"-l\": name part"), "{refusal}");
}

#[test]
fn deprecated_labels_and_null_selectors_are_warned_of() {
    let spec = json!({
        "nodeSelector": {"beta.kubernetes.io/os": "linux", "kubernetes.io/os": "linux"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "Exists"}]},
                ]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "node-role.kubernetes.io/master", "operator": "Exists"}]}},
                ],
            },
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}]},
        },
    });
    let affinity = "spec.affinity";
    assert_eq!(
        warnings(spec),
        [
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead"
                .to_owned(),
            format!(
                "{affinity}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
            ),
            format!(
                "{affinity}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key: node-role.kubernetes.io/master is use \"node-role.kubernetes.io/control-plane\" instead"
            ),
            format!(
                "{affinity}.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod"
            ),
            format!(
                "{affinity}.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: a null labelSelector results in matching no pod"
            ),
        ]
    );
}

/// One problem takes hundreds of times the bytes of its subject.
#[test]
fn a_document_has_at_most_a_hundred_problems_and_about_as_many_warnings() {
    let bad: Vec<String> = (0..1_000).map(|number| format!("-{number}")).collect();
    let map: serde_json::Map<String, Value> = bad.iter().map(|text| (text.clone(), json!(text))).collect();
    let expressions = json!([{"key": "k", "operator": "In", "values": bad}]);
    let names: Vec<Value> = bad.iter().map(|name| json!({"key": name, "operator": "Exists"})).collect();
    let pod_terms =
        |term: Value| json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    for (what, spec) in [
        ("a node selector", json!({"nodeSelector": map})),
        ("values of an expression", node_terms(json!([{"matchExpressions": expressions}]))),
        ("expressions", node_terms(json!([{"matchExpressions": names}]))),
        (
            "terms",
            node_terms(Value::from(vec![json!({"matchExpressions": [{"key": "-", "operator": "Exists"}]}); 1_000])),
        ),
        ("a selector's labels", pod_terms(json!({"topologyKey": "t", "labelSelector": {"matchLabels": map}}))),
        (
            "a selector's values",
            pod_terms(json!({"topologyKey": "t", "labelSelector": {"matchExpressions": expressions}})),
        ),
        ("namespaces", pod_terms(json!({"topologyKey": "t", "namespaces": bad}))),
        ("tolerations", json!({"tolerations": names})),
        (
            "scheduling gates",
            json!({"schedulingGates": bad.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}),
        ),
    ] {
        assert_eq!(problems(spec).len(), validate::MOST_PROBLEMS, "{what}");
    }
    let preferred = json!([{"weight": 1, "preference": {"matchExpressions": expressions}}]);
    let found =
        warnings(json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}));
    assert_eq!(found.len(), validate::MOST_PROBLEMS, "warnings");
}
