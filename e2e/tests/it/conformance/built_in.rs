//! Built-in types (E12, E13): every candidate label on every kind of the table, queried on both sides.
//!
//! kube-apiserver is the table. A selector that it accepts must select the same here, and a selector that it rejects
//! must get the same message. All its APIs are switched on, so that the beta kinds of the table are there.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::versions::Kubernetes;
use e2e::{compare, objects};
use futures::{StreamExt, stream};
use http::StatusCode;
use serde_json::{Value, json};

use super::backend::{SOON, names, query};

/// Every label that some kind of the table has, and some that none has.
const LABELS: [&str; 44] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels",
    "name",
    "nosuchfield",
    "spec.nodeName",
    "spec.host",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
    "spec.unschedulable",
    "status.replicas",
    "type",
    "spec.clusterIP",
    "spec.type",
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "source.component",
    "regarding.kind",
    "regarding.name",
    "regarding.namespace",
    "reportingController",
    "status.successful",
    "status.succeeded",
    "spec.signerName",
    "spec.podName",
    "spec.driver",
    "spec.leaseName",
    "spec.replicas",
];

/// Values that some object of ours has in some label, and one that none has.
const VALUES: [&str; 29] = [
    "",
    "one",
    "two",
    "node-1",
    "Always",
    "Never",
    "default-scheduler",
    "true",
    "false",
    "Pending",
    "Active",
    "10.1.2.3",
    "0",
    "3",
    "Opaque",
    "example.com/kind",
    "None",
    "ClusterIP",
    "ExternalName",
    "Pod",
    "Started",
    "kubelet",
    "example.com/signer",
    "Normal",
    "default",
    "v1",
    "example.com",
    "spec.containers{c}",
    "nothing-has-this",
];

/// Collections whose lists are compared.
const COLLECTIONS: [&str; 22] = [
    "/api/v1/pods",
    "/api/v1/nodes",
    "/api/v1/replicationcontrollers",
    "/api/v1/namespaces",
    "/api/v1/secrets",
    "/api/v1/services",
    "/api/v1/events",
    "/apis/events.k8s.io/v1/events",
    "/apis/batch/v1/jobs",
    "/apis/batch/v1/cronjobs",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/certificates.k8s.io/v1beta1/clustertrustbundles",
    "/apis/certificates.k8s.io/v1alpha1/clustertrustbundles",
    "/apis/certificates.k8s.io/v1beta1/podcertificaterequests",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1beta1/resourceslices",
    "/api/v1/configmaps",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/deployments",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/coordination.k8s.io/v1/leases",
];

/// Fields that select objects of ours.
const SELECTING: [(&str, &[&str]); 14] = [
    (
        "/api/v1/pods",
        &[
            "metadata.name",
            "metadata.namespace",
            "spec.nodeName",
            "spec.host",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
    ),
    ("/api/v1/nodes", &["metadata.name", "spec.unschedulable"]),
    ("/api/v1/replicationcontrollers", &["metadata.name", "status.replicas"]),
    ("/api/v1/namespaces", &["metadata.name", "status.phase"]),
    ("/api/v1/secrets", &["metadata.namespace", "type"]),
    ("/api/v1/services", &["spec.clusterIP", "spec.type"]),
    (
        "/api/v1/events",
        &[
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    (
        "/apis/events.k8s.io/v1/events",
        &["regarding.kind", "regarding.name", "regarding.namespace", "reason", "reportingController", "type"],
    ),
    ("/apis/batch/v1/jobs", &["metadata.name", "status.successful"]),
    ("/apis/certificates.k8s.io/v1/certificatesigningrequests", &["metadata.name", "spec.signerName"]),
    ("/apis/certificates.k8s.io/v1beta1/clustertrustbundles", &["metadata.name", "spec.signerName"]),
    ("/apis/resource.k8s.io/v1/resourceslices", &["metadata.name", "spec.nodeName", "spec.driver"]),
    ("/apis/resource.k8s.io/v1beta1/resourceslices", &["spec.nodeName", "spec.driver"]),
    ("/api/v1/configmaps", &["metadata.name", "metadata.namespace"]),
];

#[tokio::test]
async fn built_in_types_select_as_in_kube_apiserver() -> Result<()> {
    // Some kinds are behind gates that are off although their APIs are beta.
    let version = Kubernetes::under_test()?;
    let behind = match version.minor() {
        ..=33 => "DynamicResourceAllocation=true",
        _ => "PodCertificateRequest=true",
    };
    let gates = format!("--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,{behind}");
    let settings = Settings { all_apis: true, apiserver_arguments: vec![gates], ..Settings::default() };
    let control_plane = ControlPlane::start(settings).await?;
    let writer = control_plane.client();
    let mut created = BTreeSet::new();
    for (path, object) in objects_of_every_kind() {
        let (path, object) = in_a_served_version(&writer, path, object).await?;
        objects::create(&writer, &path, &object).await.with_context(|| object.to_string())?;
        created.insert(path);
    }
    ensure!(created.len() >= 15, "objects of only {created:?}");
    write_statuses(&writer).await.context("statuses")?;
    let fieldcache = Fieldcache::serve_cluster(control_plane.kubeconfig(), &[]).await?;
    let client = fieldcache.client();

    let mut faults = Vec::new();
    let (mut accepted, mut refused) = (0, 0);
    let mut selecting = BTreeSet::new();
    let mut unserved = Vec::new();
    for collection in COLLECTIONS {
        let theirs = writer.get(collection).await?;
        // Some beta kinds come and go with versions of Kubernetes.
        if theirs.status == StatusCode::NOT_FOUND && !version.is_usual() {
            unserved.push(collection);
            continue;
        }
        ensure!(theirs.status.is_success(), "{collection}: {}", theirs.status);
        let whole = theirs.json()?;
        eventually(&format!("{collection} is read"), SOON, async || {
            let ours = client.get_json(collection).await?;
            ensure!(names(&ours) == names(&whole), "{:?} <> {:?}", names(&ours), names(&whole));
            Ok(())
        })
        .await?;
        let outcomes: Vec<Result<Outcome>> =
            stream::iter(LABELS).map(|label| select(&writer, &client, collection, label)).buffered(8).collect().await;
        for (label, outcome) in LABELS.into_iter().zip(outcomes) {
            match outcome {
                Ok(Outcome::Refused) => refused += 1,
                Ok(Outcome::Accepted { selections, selects }) => {
                    accepted += selections;
                    if selects {
                        selecting.insert((collection, label));
                    }
                }
                Err(error) => faults.push(format!("{error:#}")),
            }
        }
    }
    println!(
        "conformance: E12, E13, {} collections, {accepted} selections by {} fields that select, {refused} refusals; not served: {unserved:?}",
        COLLECTIONS.len() - unserved.len(),
        selecting.len()
    );
    ensure!(
        faults.is_empty(),
        "{} differ:\n{}",
        faults.len(),
        faults.iter().take(40).cloned().collect::<Vec<_>>().join("\n")
    );
    // Labels that are accepted and never select anything would say little.
    for (collection, labels) in SELECTING.into_iter().filter(|(collection, _)| !unserved.contains(collection)) {
        for label in labels {
            ensure!(selecting.contains(&(collection, label)), "{collection}: nothing was selected by {label}");
        }
    }
    ensure!(refused >= 500, "only {refused} refusals");
    Ok(())
}

/// An object and its collection as they are, or in the version before, which an older server has instead.
async fn in_a_served_version(writer: &Client, path: &str, mut object: Value) -> Result<(String, Value)> {
    const BEFORE: [(&str, &str); 2] = [
        ("certificates.k8s.io/v1beta1", "certificates.k8s.io/v1alpha1"),
        ("resource.k8s.io/v1", "resource.k8s.io/v1beta1"),
    ];
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let before = BEFORE.into_iter().find(|(new, _)| *new == version);
    let Some((new, old)) = before else { return Ok((path.to_owned(), object)) };
    if writer.get(&format!("{path}?limit=1")).await?.status != StatusCode::NOT_FOUND {
        return Ok((path.to_owned(), object));
    }
    object["apiVersion"] = old.into();
    Ok((path.replace(new, old), object))
}

enum Outcome {
    Refused,
    Accepted {
        /// How many selectors were compared.
        selections: usize,
        /// Whether a value that is not empty selected something.
        selects: bool,
    },
}

/// Every value with `=` and `!=` on both sides; a refusal is the same for all values.
async fn select(writer: &Client, client: &Client, collection: &str, label: &str) -> Result<Outcome> {
    let (mut selections, mut selects) = (0, false);
    for value in VALUES {
        for operator in ["=", "!="] {
            let path = query(collection, &format!("{label}{operator}{value}"), "", "");
            let theirs = writer.get(&path).await?;
            let ours = client.get(&path).await?;
            ensure!(theirs.status == ours.status, "{path}: {} <> {}: {}", theirs.status, ours.status, ours.text());
            let (theirs_body, ours_body) = (theirs.json()?, ours.json()?);
            if !theirs.status.is_success() {
                compare::equal("kube-apiserver", &theirs_body, "fieldcache", &ours_body).context(path)?;
                return Ok(Outcome::Refused);
            }
            let (theirs, ours) = (names(&theirs_body), names(&ours_body));
            ensure!(theirs == ours, "{path}: {theirs:?} <> {ours:?}");
            selections += 1;
            selects |= operator == "=" && !value.is_empty() && !ours.is_empty();
        }
    }
    Ok(Outcome::Accepted { selections, selects })
}

fn objects_of_every_kind() -> Vec<(&'static str, Value)> {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, spec: Value| {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        (PODS, object)
    };
    let named = |path, api_version: &str, kind: &str, name: &str, rest: Value| {
        let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } });
        for (key, value) in rest.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        (path, object)
    };
    let template = json!({
        "metadata": { "labels": { "app": "x" } },
        "spec": { "containers": [{ "name": "c", "image": "i" }], "restartPolicy": "Always" },
    });
    let mut never = template.clone();
    never["spec"]["restartPolicy"] = "Never".into();
    let event = |name: &str, rest: Value| {
        let involved = json!({ "involvedObject": {
            "kind": "Pod", "namespace": "default", "name": "one", "uid": "one", "apiVersion": "v1", "resourceVersion": "3", "fieldPath": "spec.containers{c}",
        } });
        let (path, mut object) = named("/api/v1/namespaces/default/events", "v1", "Event", name, involved);
        for (key, value) in rest.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        (path, object)
    };
    let slice = |name: &str, rest: Value| {
        let mut spec =
            json!({ "driver": "example.com", "pool": { "name": name, "generation": 1, "resourceSliceCount": 1 } });
        for (key, value) in rest.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        named(
            "/apis/resource.k8s.io/v1/resourceslices",
            "resource.k8s.io/v1",
            "ResourceSlice",
            name,
            json!({ "spec": spec }),
        )
    };
    vec![
        pod(
            "one",
            json!({ "nodeName": "node-1", "hostNetwork": true, "restartPolicy": "Never", "serviceAccountName": "two" }),
        ),
        pod("two", json!({ "schedulerName": "two", "hostNetwork": false })),
        pod("three", json!({})),
        named("/api/v1/nodes", "v1", "Node", "node-1", json!({ "spec": { "unschedulable": true } })),
        named("/api/v1/nodes", "v1", "Node", "two", json!({})),
        named(
            "/api/v1/namespaces/default/replicationcontrollers",
            "v1",
            "ReplicationController",
            "one",
            json!({ "spec": { "replicas": 0, "selector": { "app": "x" }, "template": template } }),
        ),
        named(
            "/api/v1/namespaces/default/replicationcontrollers",
            "v1",
            "ReplicationController",
            "two",
            json!({ "spec": { "replicas": 3, "selector": { "app": "x" }, "template": template } }),
        ),
        named("/api/v1/namespaces", "v1", "Namespace", "two", json!({})),
        named("/api/v1/namespaces/default/secrets", "v1", "Secret", "one", json!({ "type": "example.com/kind" })),
        named("/api/v1/namespaces/default/secrets", "v1", "Secret", "two", json!({})),
        named(
            "/api/v1/namespaces/default/services",
            "v1",
            "Service",
            "one",
            json!({ "spec": { "clusterIP": "None", "ports": [{ "port": 80 }] } }),
        ),
        named(
            "/api/v1/namespaces/default/services",
            "v1",
            "Service",
            "two",
            json!({ "spec": { "type": "ExternalName", "externalName": "example.com" } }),
        ),
        event("one", json!({ "reason": "Started", "type": "Normal", "source": { "component": "kubelet" } })),
        event(
            "two",
            json!({ "reason": "two", "type": "Warning", "reportingComponent": "kubelet", "reportingInstance": "one" }),
        ),
        named(
            "/apis/batch/v1/namespaces/default/jobs",
            "batch/v1",
            "Job",
            "one",
            json!({ "spec": { "template": never } }),
        ),
        named(
            "/apis/batch/v1/namespaces/default/jobs",
            "batch/v1",
            "Job",
            "two",
            json!({ "spec": { "template": never } }),
        ),
        named(
            "/apis/certificates.k8s.io/v1beta1/clustertrustbundles",
            "certificates.k8s.io/v1beta1",
            "ClusterTrustBundle",
            "one",
            json!({ "spec": { "trustBundle": certificate() } }),
        ),
        named(
            "/apis/certificates.k8s.io/v1beta1/clustertrustbundles",
            "certificates.k8s.io/v1beta1",
            "ClusterTrustBundle",
            "example.com:signer:two",
            json!({ "spec": { "signerName": "example.com/signer", "trustBundle": certificate() } }),
        ),
        named(
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            "certificates.k8s.io/v1",
            "CertificateSigningRequest",
            "one",
            json!({ "spec": { "signerName": "example.com/signer", "usages": ["client auth"], "request": signing_request() } }),
        ),
        slice("one", json!({ "nodeName": "node-1" })),
        slice("two", json!({ "allNodes": true })),
        named("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap", "one", json!({})),
        named(
            "/apis/apps/v1/namespaces/default/replicasets",
            "apps/v1",
            "ReplicaSet",
            "one",
            json!({ "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "x" } }, "template": template } }),
        ),
        named(
            "/apis/apps/v1/namespaces/default/deployments",
            "apps/v1",
            "Deployment",
            "two",
            json!({ "spec": { "selector": { "matchLabels": { "app": "x" } }, "template": template } }),
        ),
        named(
            "/api/v1/persistentvolumes",
            "v1",
            "PersistentVolume",
            "one",
            json!({ "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/tmp" } } }),
        ),
        named(
            "/apis/storage.k8s.io/v1/storageclasses",
            "storage.k8s.io/v1",
            "StorageClass",
            "one",
            json!({ "provisioner": "example.com/none" }),
        ),
    ]
}

/// A certificate for the trust bundle.
fn certificate() -> String {
    e2e::certificates::Authority::create("bundle").expect("an authority").certificate()
}

/// A request for a certificate, in the API's base64.
fn signing_request() -> String {
    let key = rcgen::KeyPair::generate().expect("a key");
    let parameters = rcgen::CertificateParams::new(Vec::<String>::new()).expect("parameters");
    let request = parameters.serialize_request(&key).expect("a request").pem().expect("PEM");
    BASE64_STANDARD.encode(request)
}

/// Fields that only a status has.
async fn write_statuses(writer: &Client) -> Result<()> {
    let rows = [
        (
            "/api/v1/namespaces/default/pods/one/status",
            json!({ "status": { "phase": "Running", "podIP": "10.1.2.3", "podIPs": [{ "ip": "10.1.2.3" }] } }),
        ),
        ("/api/v1/namespaces/default/pods/two/status", json!({ "status": { "nominatedNodeName": "node-1" } })),
        ("/api/v1/namespaces/default/replicationcontrollers/two/status", json!({ "status": { "replicas": 3 } })),
        ("/apis/batch/v1/namespaces/default/jobs/two/status", json!({ "status": { "succeeded": 3 } })),
    ];
    for (path, patch) in rows {
        objects::merge(writer, path, &patch).await?;
    }
    Ok(())
}
