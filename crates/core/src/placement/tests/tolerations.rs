//! Taints against tolerations, evictions, and where taints come from.

use serde_json::json;

use super::{Options, fitting, incoming, node, reasons, report, review, tainted};
use crate::placement::condition::{origin, renamed};
use crate::placement::node::Taint;
use crate::placement::pod::Toleration;
use crate::placement::toleration::{Eviction, eviction, tolerates};

fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
    Toleration {
        key: key.to_owned(),
        operator: operator.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
        toleration_seconds: None,
    }
}

fn taint(text: &str) -> Taint {
    text.parse().unwrap()
}

#[test]
fn a_toleration_covers_a_taint_by_effect_key_and_operator() {
    // (key, operator, value, effect), taint, with the gate off, with it on, why.
    let rows = [
        (("key", "Equal", "value", "NoSchedule"), "key=value:NoSchedule", true, true, "all equal"),
        (("key", "", "value", "NoSchedule"), "key=value:NoSchedule", true, true, "the operator defaults to Equal"),
        (("key", "Exists", "", "NoSchedule"), "key=value:NoSchedule", true, true, "Exists takes any value"),
        (("key", "Equal", "other", "NoSchedule"), "key=value:NoSchedule", false, false, "another value"),
        (("other", "Exists", "", "NoSchedule"), "key=value:NoSchedule", false, false, "another key"),
        (("key", "Exists", "", "NoExecute"), "key=value:NoSchedule", false, false, "another effect"),
        (("key", "Exists", "", ""), "key=value:NoExecute", true, true, "an empty effect is every effect"),
        (("", "Exists", "", ""), "key=value:PreferNoSchedule", true, true, "an empty key with Exists is everything"),
        (("", "Exists", "", "NoExecute"), "key=value:NoSchedule", false, false, "but not every effect"),
        (("", "Equal", "value", ""), "any=value:NoSchedule", true, true, "evaluated, an empty key is any key"),
        (("", "", "", ""), "key:NoSchedule", true, true, "and an absent value is the empty one"),
        (("key", "Equal", "", ""), "key:NoSchedule", true, true, "empty values are equal"),
        (("key", "Like", "value", ""), "key=value:NoSchedule", false, false, "an unknown operator covers nothing"),
        (("key", "Gt", "100", ""), "key=950:NoSchedule", false, true, "950 > 100"),
        (("key", "Gt", "950", ""), "key=950:NoSchedule", false, false, "strictly"),
        (("key", "Lt", "951", ""), "key=950:NoSchedule", false, true, "950 < 951"),
        (("key", "Gt", "100", ""), "key=0950:NoSchedule", false, false, "a leading zero is no number"),
        (("key", "Gt", "0100", ""), "key=950:NoSchedule", false, false, "on either side"),
        (("key", "Gt", "100", ""), "key=high:NoSchedule", false, false, "nor is a word"),
        (("key", "Gt", "100", ""), "key=101.5:NoSchedule", false, false, "nor a fraction"),
        (("key", "Gt", "100", ""), "key:NoSchedule", false, false, "nor nothing"),
        (("key", "Gt", "-0", ""), "key=5:NoSchedule", false, false, "nor minus zero"),
        (("key", "Gt", "+1", ""), "key=5:NoSchedule", false, false, "nor a plus sign"),
        (("key", "Gt", "-1", ""), "key=0:NoSchedule", false, true, "zero and minus are"),
        (("key", "Lt", "9223372036854775808", ""), "key=1:NoSchedule", false, false, "more than 64 bits is none"),
    ];
    for ((key, operator, value, effect), taint_text, without_gate, with_gate, why) in rows {
        let toleration = toleration(key, operator, value, effect);
        assert_eq!(tolerates(&toleration, &taint(taint_text), false), without_gate, "gate off, {taint_text}: {why}");
        assert_eq!(tolerates(&toleration, &taint(taint_text), true), with_gate, "gate on, {taint_text}: {why}");
    }
}

#[test]
fn only_untolerated_noschedule_and_noexecute_taints_keep_away() {
    let nodes = [
        tainted("free", &[]),
        tainted("prefer", &["a:PreferNoSchedule"]),
        tainted("no", &["a=1:NoSchedule", "b:PreferNoSchedule"]),
        tainted("execute", &["c=2:NoExecute", "d:NoSchedule"]),
    ];
    let answer = review(&nodes, &[], &incoming(json!({})));
    assert_eq!(fitting(&answer), ["free", "prefer"]);
    assert_eq!(reasons(&answer, "execute"), ["UntoleratedTaint", "UntoleratedTaint"], "each taint is a reason");
    let report = report(&answer, "execute");
    let taints: Vec<_> = report.rejections.iter().map(|rejection| rejection.taint.as_deref().unwrap()).collect();
    assert_eq!(taints, ["c=2:NoExecute", "d:NoSchedule"], "and is named as kubectl taint writes it");
    assert_eq!(answer.message(), "2/4 nodes are available: 2 node(s) had untolerated taint(s).");
    let seconds = json!({"tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]});
    let answer = review(&nodes, &[], &incoming(seconds));
    assert_eq!(reasons(&answer, "execute"), ["UntoleratedTaint"], "seconds play no part in a filter");
}

#[test]
fn releases_before_1_34_name_the_taint() {
    let cluster = super::cluster(&[tainted("n1", &["a=1:NoSchedule"]), tainted("n2", &["b:NoExecute"])], &[]);
    let older = Options { target_minor: 33, ..Options::default() };
    let message = cluster.review(&incoming(json!({})), &older).message();
    let expected =
        "0/2 nodes are available: 1 node(s) had untolerated taint {a: 1}, 1 node(s) had untolerated taint {b: }.";
    assert_eq!(message, expected);
}

#[test]
fn a_cordoned_node_rejects_pods_that_do_not_tolerate_its_taint() {
    let mut cordoned = node("n1", &[]);
    cordoned.spec.unschedulable = true;
    let rows = [
        (json!({}), false, "no toleration"),
        (json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}), true, "by key"),
        (json!({"tolerations": [{"operator": "Exists"}]}), true, "everything"),
        (json!({"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}), false, "another effect"),
        (json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "value": "x"}]}), false, "another value"),
    ];
    for (spec, fits, why) in rows {
        let answer = review(std::slice::from_ref(&cordoned), &[], &incoming(spec));
        assert_eq!(answer.feasible() == 1, fits, "{why}");
    }
    let answer = review(&[cordoned], &[], &incoming(json!({})));
    assert_eq!(answer.message(), "0/1 nodes are available: 1 node(s) were unschedulable.");
}

#[test]
fn evictions_follow_the_first_toleration_of_each_taint() {
    let limited = |key: &str, seconds: i64| Toleration {
        toleration_seconds: Some(seconds),
        ..toleration(key, "Exists", "", "NoExecute")
    };
    let forever = |key: &str| toleration(key, "Exists", "", "NoExecute");
    let rows: Vec<(&[&str], Vec<Toleration>, Eviction, &str)> = vec![
        (&[], vec![], Eviction::Never, "no taint"),
        (&["a:NoSchedule", "b:PreferNoSchedule"], vec![], Eviction::Never, "other effects never evict"),
        (&["a:NoExecute"], vec![], Eviction::Now, "not tolerated"),
        (&["a:NoExecute"], vec![forever("a")], Eviction::Never, "tolerated without limit"),
        (&["a:NoExecute"], vec![limited("a", 3600)], Eviction::After(3600), "for an hour"),
        (&["a:NoExecute"], vec![limited("a", 0)], Eviction::Now, "zero is now"),
        (&["a:NoExecute"], vec![limited("a", -5)], Eviction::Now, "so is less"),
        (&["a:NoExecute"], vec![limited("a", 60), forever("a")], Eviction::After(60), "a later one does not help"),
        (&["a:NoExecute"], vec![forever("a"), limited("a", 60)], Eviction::Never, "nor harm"),
        (
            &["a:NoExecute", "b:NoExecute"],
            vec![limited("a", 60), limited("b", 30)],
            Eviction::After(30),
            "the least counts",
        ),
        (
            &["a:NoExecute", "b:NoExecute"],
            vec![limited("a", 60), forever("b")],
            Eviction::After(60),
            "no limit is no time",
        ),
        (&["a:NoExecute", "b:NoExecute"], vec![limited("a", 60)], Eviction::Now, "one is not tolerated"),
        (&["a:NoExecute", "b:NoSchedule"], vec![forever("a")], Eviction::Never, "the other does not evict"),
    ];
    for (taints, tolerations, expected, why) in rows {
        let taints: Vec<Taint> = taints.iter().map(|text| taint(text)).collect();
        assert_eq!(eviction(&taints, &tolerations, false), expected, "{why}");
    }
}

#[test]
fn taints_are_explained_by_the_conditions_behind_them() {
    for (key, expected) in [
        ("node.kubernetes.io/not-ready", Some("the condition Ready is False, or the Node is new")),
        (
            "node.kubernetes.io/unreachable",
            Some("the condition Ready is Unknown: the kubelet stopped posting node status"),
        ),
        ("node.kubernetes.io/memory-pressure", Some("the condition MemoryPressure is True")),
        ("node.kubernetes.io/disk-pressure", Some("the condition DiskPressure is True")),
        ("node.kubernetes.io/pid-pressure", Some("the condition PIDPressure is True")),
        ("node.kubernetes.io/network-unavailable", Some("the condition NetworkUnavailable is True")),
        ("node.kubernetes.io/unschedulable", Some("the node is cordoned")),
        ("own", None),
    ] {
        assert_eq!(origin(key), expected, "{key}");
    }
}

#[test]
fn old_keys_are_ordinary_keys_with_a_hint() {
    assert_eq!(renamed("node.alpha.kubernetes.io/notReady"), Some("node.kubernetes.io/not-ready"));
    assert_eq!(renamed("node.alpha.kubernetes.io/unreachable"), Some("node.kubernetes.io/unreachable"));
    assert_eq!(renamed("node.kubernetes.io/unreachable"), None);
    let old = json!({"tolerations": [
        {"key": "node.alpha.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 6000},
    ]});
    let answer = review(&[tainted("n1", &["node.kubernetes.io/unreachable:NoExecute"])], &[], &incoming(old));
    assert_eq!(answer.feasible(), 0, "it does not cover today's taint");
    let hint = "the taint key node.alpha.kubernetes.io/unreachable is obsolete: Kubernetes no longer sets it, and sets node.kubernetes.io/unreachable instead";
    assert_eq!(answer.warnings(), [hint]);
}

#[test]
fn taints_are_read_as_kubectl_writes_them() {
    let read = taint("example.com/key=value:NoSchedule");
    assert_eq!((&*read.key, &*read.value, &*read.effect), ("example.com/key", "value", "NoSchedule"));
    for text in ["key=value:NoSchedule", "key:NoExecute", "key:PreferNoSchedule"] {
        assert_eq!(taint(text).to_string(), text, "and are printed alike");
    }
    for text in ["", "key", "key=value", "key=value:Never", ":NoSchedule", "=v:NoSchedule", "k=-:NoSchedule"] {
        let error = text.parse::<Taint>().unwrap_err().to_string();
        assert!(error.contains("write KEY=VALUE:EFFECT"), "{text}: {error}");
    }
}
