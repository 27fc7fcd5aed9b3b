//! A cluster to place Pods in, and Pods to review: by default 5,000 nodes and 150,000 Pods.
//!
//! A third of the Pods belong to DaemonSets, and a tenth have labels of their own (StatefulSets). The others come from
//! templates. Half of these have preferred terms about themselves, and a tenth required ones, so 30 % of all Pods have
//! preferred terms. Only what decides on placement is in the objects: they are no corpus of sizes.

use serde_json::{Value, json};

use crate::random::Random;

/// The corpus.
#[derive(Debug, Clone)]
pub struct Placement {
    /// How many nodes; at least one.
    pub nodes: u64,
    /// How many pods.
    pub pods: u64,
    /// How many templates the pods come from.
    pub templates: u64,
    /// Where the random choices come from.
    pub seed: u64,
}

impl Default for Placement {
    fn default() -> Placement {
        Placement { nodes: 5_000, pods: 150_000, templates: 400, seed: 33 }
    }
}

const NAMESPACES: u64 = 200;
const DAEMONS: u64 = 10;
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn node_name(index: u64) -> String {
    format!("ip-10-0-{}-{}.eu-west-1.compute.internal", index / 256, index % 256)
}

fn away_from(label: &Value, key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": key})
}

impl Placement {
    /// A node.
    #[must_use]
    pub fn node(&self, index: u64) -> Value {
        let mut taints = Vec::new();
        if index.is_multiple_of(50) {
            taints.push(json!({"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}));
        }
        if index.is_multiple_of(20) {
            taints.push(json!({"key": "spot", "effect": "PreferNoSchedule"}));
        }
        let zone = format!("eu-west-1{}", ["a", "b", "c"][usize::try_from(index % 3).unwrap_or_default()]);
        json!({
            "metadata": {"name": node_name(index), "labels": {
                HOST: node_name(index), ZONE: zone, "topology.kubernetes.io/region": "eu-west-1",
                "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": format!("m{}.xlarge", index % 6),
                "example.com/rack": format!("r{}", index % 100), "example.com/pool": format!("p{}", index % 8),
                "example.com/cpus": (index % 64).to_string(),
                "example.com/disk": if index.is_multiple_of(3) { "ssd" } else { "hdd" },
            }},
            "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    /// A namespace of the pods.
    pub fn namespaces(&self) -> impl Iterator<Item = Value> {
        let system = json!({"metadata": {"name": "kube-system"}});
        let teams = (0..NAMESPACES)
            .map(|index| json!({"metadata": {"name": format!("team-{index}"), "labels": {"tier": (index % 10).to_string()}}}));
        std::iter::once(system).chain(teams)
    }

    fn labels(&self, template: u64) -> Value {
        let tier = ["web", "db", "batch", "cache"][usize::try_from(template % 4).unwrap_or_default()];
        json!({
            "app": format!("app-{template}"), "tier": tier, "env": "prod", "team": format!("team-{}", template % 40),
            "pod-template-hash": format!("{:x}", template * 7_919 + 65_537),
        })
    }

    /// A pod that runs; `seed` moves it to another node.
    #[must_use]
    pub fn pod(&self, index: u64, seed: u64) -> Value {
        let tolerations = json!([
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ]);
        let daemons = self.pods / 3;
        if index < daemons {
            let (daemon, node) = (index / self.nodes % DAEMONS, node_name(index % self.nodes));
            let by_name = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": by_name}});
            return json!({
                "metadata": {"namespace": "kube-system", "name": format!("daemon-{daemon}-{index}"), "uid": format!("uid-{index}"),
                    "labels": {"app": format!("daemon-{daemon}"), "controller-revision-hash": "7c9d"}},
                "spec": {"nodeName": node, "affinity": {"nodeAffinity": required}, "tolerations": [{"operator": "Exists"}]},
                "status": {"phase": "Running"},
            });
        }
        let template = index % self.templates;
        let mut labels = self.labels(template);
        let name = format!("app-{template}-{index}");
        if index % 7 == 3 {
            labels["statefulset.kubernetes.io/pod-name"] = name.as_str().into();
        }
        let mut away = json!({});
        if template.is_multiple_of(2) {
            let preferred = [(100, HOST), (50, ZONE)]
                .map(|(weight, key)| json!({"weight": weight, "podAffinityTerm": away_from(&labels["app"], key)}));
            away["preferredDuringSchedulingIgnoredDuringExecution"] = json!(preferred);
        }
        if template % 10 == 1 {
            away["requiredDuringSchedulingIgnoredDuringExecution"] = json!([away_from(&labels["app"], HOST)]);
        }
        let node = Random::from_seed(self.seed ^ seed, index).below(self.nodes);
        json!({
            "metadata": {"namespace": format!("team-{}", template % NAMESPACES), "name": name, "uid": format!("uid-{index}"), "labels": labels},
            "spec": {"nodeName": node_name(node), "affinity": {"podAntiAffinity": away}, "tolerations": tolerations},
            "status": {"phase": "Running"},
        })
    }

    /// A Pod to review. Each is a different one, and eight kinds of question follow each other.
    #[must_use]
    pub fn pending_pod(&self, index: u64) -> Value {
        let mut random = Random::from_seed(self.seed, u64::MAX - index);
        let template = random.below(self.templates);
        let own = json!(format!("app-{template}"));
        let other = json!(format!("app-{}", random.below(self.templates)));
        let required = |terms: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
        let preferred = |weight: u64, term: Value| json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]});
        let everywhere = |selector: Value, key: &str| json!({"labelSelector": selector, "topologyKey": key, "namespaceSelector": {}});
        let affinity = match index % 8 {
            0 => json!({}),
            1 => json!({"podAntiAffinity": required(json!([away_from(&own, HOST)]))}),
            2 => json!({"podAffinity": required(json!([away_from(&other, ZONE)]))}),
            3 => {
                let tiers = json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["web", "db"]}]});
                json!({"podAntiAffinity": preferred(10, everywhere(tiers, "example.com/rack"))})
            }
            4 => {
                let large = json!([{"key": "example.com/pool", "operator": "In", "values": ["p1", "p2"]}, {"key": "example.com/cpus", "operator": "Gt", "values": ["16"]}]);
                let fast = json!([{"key": "example.com/disk", "operator": "In", "values": ["ssd"]}]);
                let terms = json!([{"matchExpressions": large}, {"matchExpressions": fast}]);
                let rack = json!({"matchExpressions": [{"key": "example.com/rack", "operator": "In", "values": ["r1", "r2"]}]});
                json!({"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": rack}],
                }})
            }
            5 => {
                let both = json!([away_from(&own, ZONE), {"labelSelector": {"matchLabels": {"env": "prod"}}, "topologyKey": "example.com/rack"}]);
                let batch = json!([everywhere(json!({"matchLabels": {"tier": "batch"}}), HOST)]);
                json!({"podAffinity": required(both), "podAntiAffinity": required(batch)})
            }
            6 => {
                let team = json!([{"labelSelector": {}, "topologyKey": HOST, "namespaceSelector": {"matchLabels": {"tier": "3"}}}]);
                json!({"podAntiAffinity": required(team)})
            }
            _ => json!({"podAffinity": preferred(1, everywhere(json!({}), ZONE))}),
        };
        let mut labels = self.labels(template);
        labels["asked"] = index.to_string().into();
        json!({
            "metadata": {"namespace": format!("team-{}", template % NAMESPACES), "labels": labels},
            "spec": {
                "containers": [{"name": "main", "image": "registry.example.com/main"}],
                "affinity": affinity,
                "nodeSelector": if index.is_multiple_of(5) { json!({"example.com/disk": "ssd"}) } else { json!({}) },
            },
        })
    }
}
