//! The index counts about as much memory as it allocates, whatever the Pods of a tenant look like.

use allocation_counter::measure;
use serde_json::{Value, json};

use super::ClusterIndex;
use crate::placement::Pod;

const PODS: usize = 2_000;

/// Makes the Pod with this number.
type NewPod = fn(usize) -> Pod;

/// A Pod with `labels` and `spec`.
fn pod(number: usize, labels: &Value, spec: &Value) -> Pod {
    let metadata = json!({"name": format!("p{number}"), "namespace": "default", "labels": labels});
    Pod::read(json!({"metadata": metadata, "spec": spec}).to_string().as_bytes()).unwrap()
}

/// So many labels with a value that no other Pod has.
fn distinct_labels(number: usize, labels: usize) -> Value {
    (0..labels).map(|label| (format!("key{label}"), json!(format!("v{number}-{label}")))).collect()
}

/// Five terms that no other Pod has, with about 400 bytes of JSON.
fn distinct_terms(number: usize) -> Value {
    let term =
        |term: usize| json!({"topologyKey": "z", "labelSelector": {"matchLabels": {"a": format!("{number}-{term}")}}});
    let terms: Vec<Value> = (0..5).map(term).collect();
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
}

#[test]
fn the_index_counts_about_what_it_allocates() {
    let shapes: [(&str, NewPod); 6] = [
        ("of one template, on a node", |number| pod(number, &json!({"app": "a"}), &json!({"nodeName": "n"}))),
        ("pending with distinct terms", |number| pod(number, &json!({}), &json!({"affinity": distinct_terms(number)}))),
        ("with distinct terms on a node", |number| {
            pod(number, &json!({}), &json!({"nodeName": "n", "affinity": distinct_terms(number)}))
        }),
        ("with distinct labels on a node", |number| {
            pod(number, &distinct_labels(number, 20), &json!({"nodeName": "n"}))
        }),
        ("on invented nodes", |number| pod(number, &json!({}), &json!({"nodeName": format!("n{number}")}))),
        ("with all of these", |number| {
            let spec = json!({"nodeName": format!("n{number}"), "affinity": distinct_terms(number)});
            pod(number, &distinct_labels(number, 20), &spec)
        }),
    ];
    for (shape, new) in shapes {
        let pods: Vec<Pod> = (0..PODS).map(new).collect();
        let mut cluster = ClusterIndex::default();
        let allocated = measure(|| {
            for pod in &pods {
                cluster.upsert_pod(pod);
            }
        });
        let (counted, allocated) = (cluster.held_bytes(), u64::try_from(allocated.bytes_current).unwrap());
        println!(
            "Pods {shape}: {} bytes each are counted, {} are allocated",
            counted / PODS as u64,
            allocated / PODS as u64
        );
        assert!(counted * 4 > allocated * 3, "Pods {shape}: {counted} bytes are counted, {allocated} are allocated");
        assert!(counted < allocated * 3, "Pods {shape}: {counted} bytes are counted, {allocated} are allocated");
        for pod in &pods {
            cluster.remove_pod("default", &pod.metadata.name);
        }
        assert_eq!(cluster.held_bytes(), 0, "Pods {shape}: nothing is counted of Pods that are gone");
    }
}
