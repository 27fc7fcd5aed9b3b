//! Corpus (ii): realistic running Pods of 6 to 10 KB each, as served, with managedFields.
//!
//! They have the form of the Pods of Deployments in a mid-sized cluster. Each has one or two containers with varied
//! images, environment, a probe and resources. It also has the fields that kube-apiserver and its admission plugins
//! fill in, and a status as a kubelet reports it. Two labels have a value of their own for each Pod. All free text has
//! words of its own.

use serde_json::{Map, Value, json};

use super::managed_fields::{Shape, entry};
use super::{time, words};
use crate::random::Random;

/// The labels whose value no two Pods share.
pub const UNIQUE_LABELS: [&str; 2] = ["example.com/request", "example.com/trace"];

/// How many Deployments, Nodes and namespaces the Pods are spread over.
const APPS: u64 = 400;
const NODES: u64 = 500;
const NAMESPACES: u64 = 40;

/// What the schema of a Pod says about its lists.
const SHAPE: Shape = Shape {
    keyed_lists: &[
        ("metadata.ownerReferences", &["uid"]),
        ("spec.containers", &["name"]),
        ("spec.containers.env", &["name"]),
        ("spec.containers.ports", &["containerPort", "protocol"]),
        ("spec.containers.volumeMounts", &["mountPath"]),
        ("spec.volumes", &["name"]),
        ("status.conditions", &["type"]),
        ("status.podIPs", &["ip"]),
    ],
    atomic_items: &["metadata.ownerReferences"],
    always_there: &["metadata", "spec", "spec.containers", "status"],
};

/// What distinguishes one corpus from another.
#[derive(Debug, Clone)]
pub struct Pods {
    /// How many there are.
    pub count: u64,
    /// The seed.
    pub seed: u64,
}

impl Default for Pods {
    fn default() -> Pods {
        Pods { count: 20_000, seed: 1 }
    }
}

impl Pods {
    /// The namespaces of the Pods.
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        (0..NAMESPACES).map(namespace).collect()
    }

    /// The collection in one namespace.
    #[must_use]
    pub fn collection(&self, namespace: &str) -> String {
        format!("/api/v1/namespaces/{namespace}/pods")
    }

    /// All Pods, with their status, as clients send them: a server takes the status in a second request only.
    pub fn objects(&self) -> impl Iterator<Item = Value> {
        (0..self.count).map(|index| self.object(index))
    }

    /// Pod `index`, with its status, as clients send it.
    #[must_use]
    pub fn object(&self, index: u64) -> Value {
        let mut random = Random::from_seed(self.seed, index);
        let app = App::from_seed(self.seed, index % APPS);
        let started = index * 17 % 5_000_000;
        let containers: Vec<Container> = (0..app.containers).map(|place| app.container(place, &mut random)).collect();
        let address = format!("10.{}.{}.{}", 64 + index / 62_500, index / 250 % 250, index % 250 + 1);
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": app.metadata(index, &mut random),
            "spec": app.spec(&containers, &mut random),
            "status": status(&containers, &address, started, &mut random),
        })
    }

    /// Pod `index` as kube-apiserver stores and serves it, created by field manager `kube-controller-manager`, with its status by
    /// `kubelet`; its resourceVersion is twice `index` + 1,001.
    #[must_use]
    pub fn stored(&self, index: u64) -> Value {
        let mut object = self.object(index);
        let mut random = Random::from_seed(!self.seed, index);
        let created = time(index * 17 % 5_000_000);
        let mut written = json!({ "metadata": object["metadata"], "spec": object["spec"] });
        if let Value::Object(members) = &mut written["metadata"] {
            members.remove("name");
            members.remove("namespace");
        }
        let mut reported = json!({ "status": object["status"] });
        if let Value::Object(members) = &mut reported["status"] {
            // The server writes this one itself.
            members.remove("qosClass");
        }
        let mut status_entry = entry("kubelet", "v1", &created, &SHAPE, &reported);
        status_entry["subresource"] = "status".into();
        object["metadata"]["managedFields"] =
            json!([entry("kube-controller-manager", "v1", &created, &SHAPE, &written), status_entry]);
        object["metadata"]["creationTimestamp"] = created.into();
        object["metadata"]["generation"] = 1.into();
        object["metadata"]["resourceVersion"] = (index * 2 + 1_001).to_string().into();
        object["metadata"]["uid"] = random.uid().into();
        object
    }
}

/// One container, with what its status repeats.
struct Container {
    spec: Value,
    image: String,
    digest: String,
}

/// A Deployment: what its Pods have in common.
struct App {
    name: String,
    team: &'static str,
    namespace: String,
    hash: String,
    owner: String,
    containers: u64,
    seed: u64,
}

impl App {
    fn from_seed(seed: u64, index: u64) -> App {
        let mut random = Random::from_seed(seed ^ 0xa99, index);
        App {
            name: format!("{}-{}", words::word(&mut random), words::word(&mut random)),
            team: words::word(&mut random),
            namespace: namespace(index % NAMESPACES),
            hash: random.suffix(10),
            owner: random.uid(),
            containers: 1 + (index % 5) / 3,
            seed: random.number(),
        }
    }

    fn metadata(&self, index: u64, random: &mut Random) -> Value {
        json!({
            "name": format!("{}-{}-{index:05}", self.name, self.hash),
            "generateName": format!("{}-{}-", self.name, self.hash),
            "namespace": self.namespace,
            "labels": {
                "app.kubernetes.io/name": self.name,
                "app.kubernetes.io/instance": format!("{}-{}", self.name, self.namespace),
                "app.kubernetes.io/component": random.choose(&["api", "worker", "web", "cache"]),
                "app.kubernetes.io/version": format!("{}.{}.{}", index % 3, index % 11, index % 29),
                "example.com/team": self.team,
                "example.com/tier": random.choose(&["gold", "silver", "bronze"]),
                "pod-template-hash": self.hash,
                UNIQUE_LABELS[0]: format!("r-{index:08}"),
                UNIQUE_LABELS[1]: random.hexadecimal(16),
            },
            "annotations": {
                "checksum/config": random.hexadecimal(64),
                "example.com/description": words::sentence(random, 16),
                "kubectl.kubernetes.io/restartedAt": time(index * 13 % 5_000_000),
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{}-{}", self.name, self.hash),
                "uid": self.owner, "controller": true, "blockOwnerDeletion": true,
            }],
        })
    }

    fn spec(&self, containers: &[Container], random: &mut Random) -> Value {
        let toleration =
            |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 });
        json!({
            "containers": containers.iter().map(|container| &container.spec).collect::<Vec<_>>(),
            "volumes": [
                { "name": "config", "configMap": { "name": format!("{}-config", self.name), "defaultMode": 420 } },
                { "name": "kube-api-access", "projected": { "defaultMode": 420, "sources": [
                    { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
                    { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                ] } },
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30 << random.below(3),
            "dnsPolicy": "ClusterFirst",
            "nodeName": format!("node-{:03}", random.below(NODES)),
            "securityContext": { "runAsNonRoot": true },
            "schedulerName": "default-scheduler",
            "serviceAccountName": self.name,
            "serviceAccount": self.name,
            "tolerations": [toleration("node.kubernetes.io/not-ready"), toleration("node.kubernetes.io/unreachable")],
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "enableServiceLinks": true,
        })
    }

    fn container(&self, place: u64, random: &mut Random) -> Container {
        // Fixed for the Deployment: the name, the image and which variables there are. Their values are the Pod's own.
        let mut fixed = Random::from_seed(self.seed, place);
        let name = if place == 0 { self.name.clone() } else { format!("{}-{place}", words::word(&mut fixed)) };
        let registry = fixed.choose(&["registry.example.com", "mirror.example.net", "images.example.org:5000"]);
        let (major, minor, patch) = (fixed.below(9), fixed.below(30), fixed.below(30));
        let image = format!("{registry}/{}/{name}:v{major}.{minor}.{patch}", self.team);
        let digest = fixed.hexadecimal(64);
        let mut variables = Map::new();
        for _ in 0..fixed.between(2, 4) {
            let variable = format!("{}_{}", words::word(&mut fixed), words::word(&mut fixed)).to_uppercase();
            let length = usize::try_from(fixed.between(1, 5)).unwrap_or_default();
            variables.insert(variable, words::sentence(random, length).into());
        }
        let env: Vec<Value> =
            variables.into_iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        let port = 8_080 + place;
        let (cpu, memory) = (fixed.between(1, 8) * 50, fixed.between(1, 16) * 64);
        let spec = json!({
            "name": name,
            "image": image,
            "args": ["serve", format!("--listen=:{port}"), format!("--region={}", words::word(random))],
            "env": env,
            "ports": [{ "name": "http", "containerPort": port, "protocol": "TCP" }],
            "resources": {
                "limits": { "cpu": format!("{}m", cpu * 2 + 1), "memory": format!("{}M", memory * 2) },
                "requests": { "cpu": format!("{}m", cpu + 1), "memory": format!("{memory}M") },
            },
            "readinessProbe": {
                "httpGet": { "path": "/readyz", "port": port, "scheme": "HTTP" },
                "timeoutSeconds": 1, "periodSeconds": 5, "successThreshold": 1, "failureThreshold": 3,
            },
            "volumeMounts": [
                { "name": "config", "mountPath": "/etc/config", "readOnly": true },
                { "name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true },
            ],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
            "securityContext": { "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true },
        });
        Container { spec, image, digest }
    }
}

fn status(containers: &[Container], address: &str, started: u64, random: &mut Random) -> Value {
    let condition = |kind: &str, after: u64| {
        json!({
            "type": kind, "status": "True", "lastProbeTime": null,
            "lastTransitionTime": time(started + after),
        })
    };
    let host = format!("172.16.{}.{}", random.below(4), random.between(2, 250));
    let statuses = containers.iter().map(|container| {
        let image = container.image.rsplit_once(':').map_or("", |(name, _)| name);
        json!({
            "name": container.spec["name"],
            "image": container.image,
            "imageID": format!("{image}@sha256:{}", container.digest),
            "containerID": format!("containerd://{}", random.hexadecimal(64)),
            "ready": true, "started": true, "restartCount": random.below(3),
            "state": { "running": { "startedAt": time(started + 3) } },
            "lastState": {},
        })
    });
    let statuses: Vec<Value> = statuses.collect();
    json!({
        "phase": "Running",
        "conditions": [
             condition("Initialized", 1), condition("Ready", 9),
            condition("ContainersReady", 9), condition("PodScheduled", 0),
        ],
        "hostIP": host,
        "hostIPs": [{ "ip": host }],
        "podIP": address,
        "podIPs": [{ "ip": address }],
        "startTime": time(started),
        "containerStatuses": statuses,
        "qosClass": "Burstable",
    })
}

fn namespace(index: u64) -> String {
    format!("corpus-pods-{index}")
}
