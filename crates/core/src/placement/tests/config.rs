//! KubeSchedulerConfiguration as options.

use serde_json::{Value, json};

use super::Options;
use crate::placement::config::apply;
use crate::placement::options::{Plugin, Weights};

fn configured(profile: Value) -> Options {
    let document = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile],
    });
    apply(&document, None, Options::default()).unwrap()
}

fn weights(taint_toleration: i64, node_affinity: i64, inter_pod_affinity: i64) -> Weights {
    Weights { taint_toleration, node_affinity, inter_pod_affinity }
}

#[test]
fn plugins_are_enabled_and_weighted_by_point_then_multi_point_then_default() {
    let rows = [
        (json!({}), weights(3, 2, 2), vec![], "the defaults"),
        (json!({"score": {"disabled": [{"name": "NodeAffinity"}]}}), weights(3, 0, 2), vec![], "one score off"),
        (
            json!({"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity", "weight": 7}]}}),
            weights(0, 7, 0),
            vec![],
            "all off but one",
        ),
        (
            json!({"score": {"enabled": [{"name": "InterPodAffinity"}]}}),
            weights(3, 2, 1),
            vec![],
            "enabled without a weight counts once",
        ),
        (
            json!({"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}),
            weights(0, 2, 2),
            vec![Plugin::TaintToleration],
            "off everywhere",
        ),
        (
            json!({"multiPoint": {"disabled": [{"name": "TaintToleration"}]}, "filter": {"enabled": [{"name": "TaintToleration"}]}}),
            weights(0, 2, 2),
            vec![],
            "but for its filter",
        ),
        (
            json!({"multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 9}]}, "score": {"enabled": [{"name": "NodeAffinity", "weight": 4}]}}),
            weights(3, 4, 2),
            vec![],
            "the point wins",
        ),
        (
            json!({"multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 9}], "disabled": [{"name": "*"}]}}),
            weights(0, 9, 0),
            vec![
                Plugin::SchedulingGates,
                Plugin::NodeUnschedulable,
                Plugin::NodeName,
                Plugin::TaintToleration,
                Plugin::InterPodAffinity,
            ],
            "enabling wins",
        ),
        (
            json!({"filter": {"disabled": [{"name": "NodeUnschedulable"}]}, "preEnqueue": {"disabled": [{"name": "*"}]}}),
            weights(3, 2, 2),
            vec![Plugin::SchedulingGates, Plugin::NodeUnschedulable],
            "by point",
        ),
    ];
    for (plugins, expected, disabled, why) in rows {
        let options = configured(json!({"plugins": plugins}));
        assert_eq!((options.weights, options.disabled), (expected, disabled), "{why}");
    }
}

#[test]
fn arguments_of_plugins_are_read() {
    let options = configured(json!({"pluginConfig": [
        {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 10, "ignorePreferredTermsOfExistingPods": true}},
        {"name": "NodeAffinity", "args": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}},
        {"name": "NodeResourcesFit", "args": {"whatever": 1}},
    ]}));
    assert_eq!((options.hard_pod_affinity_weight, options.ignore_preferred_terms_of_existing_pods), (10, true));
    assert!(options.added_affinity.unwrap().required.is_some());
    assert_eq!(configured(json!({})), Options::default(), "an empty profile changes nothing");
}

#[test]
fn a_profile_is_chosen_by_the_schedulers_name() {
    let profile = |name: Value, weight: i64| json!({"schedulerName": name, "plugins": {"score": {"enabled": [{"name": "NodeAffinity", "weight": weight}]}}});
    let document = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [profile(json!("batch"), 5), profile(json!(null), 6)],
    });
    let weight =
        |name: Option<&str>| apply(&document, name, Options::default()).map(|options| options.weights.node_affinity);
    assert_eq!(weight(Some("batch")), Ok(5));
    assert_eq!(weight(Some("default-scheduler")), Ok(6), "a profile without a name is the default scheduler's");
    assert_eq!(weight(None), Ok(6));
    let message = weight(Some("zzz")).unwrap_err().to_string();
    assert_eq!(message, "there is no profile with schedulerName \"zzz\"; there are: batch, default-scheduler");
}

#[test]
fn a_configuration_that_cannot_be_used_is_rejected() {
    let with = |args: Value| {
        json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "profiles": [{"pluginConfig": [args]}],
        })
    };
    let broken =
        json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["ten"]}]}]});
    let rows = [
        (
            json!({"apiVersion": "v1", "kind": "Pod"}),
            "expected a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1, got \"v1\" \"Pod\"",
        ),
        (
            with(json!({"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}})),
            "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: must be an integer from 0 to 100",
        ),
        (
            with(json!({"name": "NodeAffinity", "args": {"addedAffinity": "no"}})),
            "profiles[0].pluginConfig[0].args.addedAffinity: invalid",
        ),
        (
            with(
                json!({"name": "NodeAffinity", "args": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": broken}}}),
            ),
            "profiles[0].pluginConfig[0].args.addedAffinity: addedAffinity.matchExpressions[0].values: Invalid value: \"ten\"",
        ),
    ];
    for (document, expected) in rows {
        let message = apply(&document, None, Options::default()).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message}");
    }
}
