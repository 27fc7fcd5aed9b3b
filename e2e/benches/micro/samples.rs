//! The objects that are measured, as an API server writes them, and a store of them.

use bytes::Bytes;
use e2e::corpus::pods::Pods;
use e2e::corpus::shirts::Shirts;
use fieldcache::crd::Crd;
use fieldcache::extract::Extractor;
use fieldcache::model::{Record, Version};
use fieldcache::store::{HistoryLimits, RelistMode, Store};
use serde_json::json;

/// How many objects stores and pages are made of; index structures of this size no longer fit the first caches.
pub(crate) const STORED: u64 = 20_000;

/// A kind of object, and the plan that reads it.
pub(crate) struct Sample {
    /// For the table.
    pub(crate) name: &'static str,
    /// What reads it.
    pub(crate) plan: Extractor,
    /// One object as it is in an event of a watch.
    pub(crate) object: Bytes,
}

/// The corpus of shirts, which stores and pages are made of.
pub(crate) fn shirts() -> Shirts {
    Shirts { count: STORED, ..Shirts::default() }
}

/// The plan of shirts: four fields.
pub(crate) fn shirt_plan(shirts: &Shirts) -> Extractor {
    let definition = Crd::read(&shirts.definition()).expect("the corpus's definition must be readable");
    Extractor::custom_resource(&definition, "v1")
}

/// A shirt's bytes.
pub(crate) fn shirt(shirts: &Shirts, index: u64) -> Bytes {
    Bytes::from(shirts.stored(index).to_string())
}

/// A shirt as a record; of a later version where `version` is given.
pub(crate) fn record(plan: &Extractor, object: &Bytes, version: Option<Version>) -> Record {
    let mut record = plan.extract(object.clone()).expect("an object of the corpus must be readable");
    record.version = version.unwrap_or(record.version);
    record
}

/// A store of all shirts.
pub(crate) fn store(shirts: &Shirts) -> Store {
    let plan = shirt_plan(shirts);
    let mut store = Store::new(HistoryLimits::default());
    store.begin_list();
    for index in 0..shirts.count {
        store.list(&record(&plan, &shirt(shirts, index), None));
    }
    store.commit_list(Version::new(shirts.count + 1_000), RelistMode::TrustVersions);
    store
}

/// A pod's bytes, in the order of an event: kind and apiVersion first, as Go writes typed objects.
pub(crate) fn pod(index: u64) -> Bytes {
    let mut pod = Pods::default().stored(index);
    let members = pod.as_object_mut().expect("a pod must be an object");
    let type_meta: String = ["kind", "apiVersion"]
        .iter()
        .filter_map(|name| members.remove(*name).map(|value| format!("\"{name}\":{value},")))
        .collect();
    Bytes::from(format!("{{{type_meta}{}", &pod.to_string()[1..]))
}

/// A large, a usual and a small object.
pub(crate) fn all() -> Vec<Sample> {
    let shirts = shirts();
    let small = json!({
        "metadata": {
            "name": "settings-0000007", "namespace": "corpus-7", "uid": "6f1c7f0e-6a52-4c3e-9d0e-2c8f4b6d9a10",
            "resourceVersion": "1007", "creationTimestamp": "2026-01-01T00:00:07Z",
            "labels": { "app.kubernetes.io/name": "settings", "example.com/size": "S" },
            "managedFields": [{ "manager": "corpus", "operation": "Update", "apiVersion": "v1",
                "time": "2026-01-01T00:00:07Z", "fieldsType": "FieldsV1", "fieldsV1": { "f:data": { ".": {}, "f:a": {} } } }],
        },
        "data": { "a": "seven" },
    });
    vec![
        Sample { name: "shirt", plan: shirt_plan(&shirts), object: shirt(&shirts, 7) },
        Sample { name: "pod", plan: fieldcache::builtin::extractor("", "v1", "Pod"), object: pod(7) },
        Sample {
            name: "settings",
            plan: fieldcache::builtin::extractor("", "v1", "ConfigMap"),
            object: Bytes::from(small.to_string()),
        },
    ]
}
