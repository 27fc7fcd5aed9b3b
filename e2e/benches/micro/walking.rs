//! An owner -> its dependents, over stores of which one is large.

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::Criterion;
use fieldcache::dependents::{SearchScope, SearchedStore, WalkOptions, walk};
use fieldcache::extract::Extractor;
use fieldcache::model::{Gvr, Scope, Version};
use fieldcache::query::work::at_once;
use fieldcache::registry::{LoadState, Resource, ResourceOrigin};
use fieldcache::store::{HistoryLimits, RelistMode, Store};
use serde_json::json;

/// How many objects the large store has: ten for each owner.
const OBJECTS: u64 = 1_000_000;

/// How many stores there are.
const STORES: usize = 60;

/// A store of so many objects. Each owner has ten of them, and `root` has the first five owners.
fn stored(kind: &str, count: u64) -> SearchedStore {
    let extractor = Extractor::built_in(None, "v1");
    let mut store = Store::new(HistoryLimits::default());
    store.begin_list();
    for number in 0..count {
        let owner = if kind == "Owner" { "root".to_owned() } else { format!("owner-{}", number / 10) };
        let uid = if kind == "Owner" { format!("owner-{number}") } else { format!("{kind}-{number}") };
        let object = json!({
            "metadata": {
                "name": format!("object-{number:07}"), "namespace": format!("ns-{}", number / 1_000), "uid": uid,
                "resourceVersion": (number + 1).to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "app": "web", "tier": "front" },
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true }],
            },
            "spec": { "nodeName": format!("node-{}", number % 500), "containers": [{ "name": "main", "image": "registry.example.com/main" }] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        let bytes = Bytes::from(object.to_string());
        store.list(&extractor.extract(bytes).expect("the object must be readable"));
    }
    store.commit_list(Version::new(OBJECTS + 1), RelistMode::TrustVersions);
    let resource = Resource {
        gvr: Gvr::new("", "v1", kind.to_lowercase()),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        singular: String::new(),
        scope: Scope::Namespaced,
        short_names: Arc::default(),
        categories: Arc::default(),
        subresources: Arc::default(),
        storage_version_hash: String::new(),
        origin: ResourceOrigin::BuiltIn,
        printer_columns: Arc::default(),
        deprecation_warning: None,
        definition: String::new(),
        extractor,
        state: Arc::default(),
        partial_store: None,
        view_restriction: None,
        dropped: Default::default(),
    };
    resource.state.publish(LoadState::Ready(store.snapshot()));
    SearchedStore { resource: Arc::new(resource), scope: SearchScope::All }
}

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(format!("dependents among {OBJECTS} objects in {STORES} stores"));
    // Only made if it is measured: it takes a minute.
    let mut stores: Vec<SearchedStore> = Vec::new();
    group.bench_function("a tree of 55 objects", |bencher| {
        if stores.is_empty() {
            stores = vec![stored("Owner", 5), stored("Object", OBJECTS)];
            stores.extend((2..STORES).map(|number| stored(&format!("Other{number}"), 0)));
        }
        bencher.iter(|| {
            let hold = |_| Ok::<(), Infallible>(());
            let Ok(found) = at_once(walk(black_box(&stores), "root", WalkOptions::default(), hold));
            assert_eq!(found.dependents.len(), 55, "the tree");
            found
        });
    });
    group.finish();
}
