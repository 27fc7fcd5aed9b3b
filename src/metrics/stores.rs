//! Metrics of each loaded store: objects, bytes, indexes by field, history, watches.
//!
//! A resource that is not loaded has no series. The series of a removed resource end. All label indexes of a store have
//! one series together, because users choose label keys, and their number has no bound.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::labels::RESOURCE_LABELS;
use crate::model::{FieldIndex, Gvr};
use crate::registry::{CheckOutcome, LoadState, Registry, Resource};
use crate::store::{Attribute, Usage};

/// Exports the stores of a registry.
#[derive(Debug)]
pub struct StoresCollector {
    registry: Arc<Registry>,
}

/// One loaded store.
struct Loaded {
    resource: Arc<Resource>,
    usage: Usage,
}

/// A gauge of a store: its name without `fieldcache_store_`, its help, and a function that reads it.
type Gauge = (&'static str, &'static str, fn(&Loaded) -> u64);

const GAUGES: [Gauge; 9] = [
    ("objects", "Objects in the store", |store| store.usage.objects),
    ("json_bytes", "Bytes of the objects as JSON", |store| store.usage.json_bytes),
    ("held_bytes", "Bytes of the compressed objects in memory", |store| store.usage.held_bytes),
    ("order_bytes", "Bytes of the index that keeps objects in list order, by namespace and name", |store| {
        store.usage.order_bytes
    }),
    ("history_changes", "Changes in the history of the store, from which watches can resume", |store| {
        store.usage.history_changes
    }),
    ("history_bytes", "Bytes of previous states of objects that only the history holds", |store| {
        store.usage.history_bytes
    }),
    ("open_watches", "Open watches of clients", |store| store.resource.state.open_watches()),
    (
        "unreadable_objects",
        "Objects of the source that cannot be read and are not served, counted up to 1000",
        |store| store.resource.state.unreadable().names.len() as u64,
    ),
    (
        "unselectable_objects",
        "Objects with too many or too long values of extra fields, which selectors on these fields never match",
        |store| store.usage.unselectable,
    ),
];

impl StoresCollector {
    /// A collector of the stores of this registry.
    pub fn new(registry: Arc<Registry>) -> StoresCollector {
        StoresCollector { registry }
    }

    /// The stores that are loaded now, with their usage.
    fn loaded(&self) -> Vec<Loaded> {
        let catalog = self.registry.catalog();
        let loaded = catalog.stores().filter_map(|resource| match resource.state.load_state() {
            LoadState::Ready(snapshot) => {
                let usage = snapshot.usage();
                Some(Loaded { resource: resource.clone(), usage })
            }
            LoadState::Idle
            | LoadState::Loading(_)
            | LoadState::SourceError { .. }
            | LoadState::OverMemory(_)
            | LoadState::Gone(_) => None,
        });
        loaded.collect()
    }
}

impl Loaded {
    fn labels(&self) -> [(&str, &str); 3] {
        labels(&self.resource)
    }

    /// The indexes of the store as (index, field, values, bytes): one for each field, one for all labels, one for
    /// namespaces, one for owners if an object has any, one for the subjects of RoleBindings, and one for shards if the
    /// store has it.
    fn indexes(&self) -> Vec<(&str, &str, u64, u64)> {
        let sum = |belongs: &dyn Fn(&Attribute) -> bool| {
            let matching = self.usage.attributes.iter().filter(|index| belongs(&index.attribute));
            matching.fold((0, 0), |(values, bytes), index| (values + index.values, bytes + index.bytes))
        };
        let mut indexes = Vec::new();
        // A field that no object has also has a series.
        for (number, field) in self.resource.extractor.fields().iter().enumerate() {
            let (values, bytes) =
                sum(&|attribute| matches!(attribute, Attribute::Field(index) if usize::from(index.0) == number));
            indexes.push(("field", &*field.label, values, bytes));
        }
        let (values, bytes) = sum(&|attribute| *attribute == Attribute::Labels);
        indexes.push(("label", "", values, bytes));
        let (values, bytes) = sum(&|attribute| *attribute == Attribute::Namespace);
        indexes.push(("namespace", "", values, bytes));
        let (values, bytes) = sum(&|attribute| *attribute == Attribute::Owners);
        indexes.extend((bytes > 0).then_some(("owner", "", values, bytes)));
        let (values, bytes) = sum(&|attribute| *attribute == Attribute::Field(FieldIndex::SUBJECTS));
        indexes.extend((bytes > 0).then_some(("subject", "", values, bytes)));
        // Few stores have this index.
        let (values, bytes) = sum(&|attribute| *attribute == Attribute::UidHash);
        indexes.extend((bytes > 0).then_some(("shard", "", values, bytes)));
        indexes
    }
}

/// The names and values of the labels of a resource.
fn labels(resource: &Resource) -> [(&str, &str); 3] {
    let Gvr { group, version, resource: plural } = &resource.gvr;
    let [group_label, version_label, resource_label] = RESOURCE_LABELS;
    [(group_label, group), (version_label, version), (resource_label, plural)]
}

impl Collector for StoresCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stores = self.loaded();
        for (name, help, figure) in GAUGES {
            let name = format!("fieldcache_store_{name}");
            let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
            for store in &stores {
                family.encode_family(&store.labels())?.encode_gauge(&figure(store))?;
            }
        }
        let help = "Bytes that only the histories of all stores together hold; --history-changes and --history-memory \
                    bound the history of each store";
        let mut family = encoder.encode_descriptor("fieldcache_history_bytes", help, None, MetricType::Gauge)?;
        let all: u64 = stores.iter().map(|store| store.usage.history_bytes).sum();
        family.encode_gauge(&all)?;
        let help = "Comparisons of a store with a metadata list of its source, by result: ok, mismatch (the store was relisted, \
                    watches ended with 410), skipped (not comparable this time) and failed (the source returned no list)";
        let mut family = encoder.encode_descriptor("fieldcache_self_check", help, None, MetricType::Counter)?;
        for store in &stores {
            let checks = store.resource.state.checks();
            // All results from the first check on; a folder is never checked and has none.
            if checks.is_empty() {
                continue;
            }
            for outcome in CheckOutcome::ALL {
                let labels = (store.labels(), [("result", outcome.as_str())]);
                let ended = checks.count_of(outcome);
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&ended, None)?;
            }
        }
        let help = "Restarts of the sync of a resource after an internal error";
        let mut family = encoder.encode_descriptor("fieldcache_feed_panics", help, None, MetricType::Counter)?;
        // A resource that cannot be loaded because of an internal error must have a series too.
        for resource in self.registry.catalog().stores() {
            let panics = resource.state.panics();
            if panics > 0 || matches!(resource.state.load_state(), LoadState::Ready(_)) {
                let labels = labels(resource);
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&panics, None)?;
            }
        }
        let help = "Seconds since the source last confirmed progress (event or bookmark); 0 for folders";
        let mut family = encoder.encode_descriptor("fieldcache_store_lag_seconds", help, None, MetricType::Gauge)?;
        for store in &stores {
            let lag = store.resource.state.freshness().lag().as_secs_f64();
            family.encode_family(&store.labels())?.encode_gauge(&lag)?;
        }
        let help = "Relists that replaced a complete store";
        let mut family = encoder.encode_descriptor("fieldcache_store_relists", help, None, MetricType::Counter)?;
        for store in &stores {
            let relists = store.resource.state.relists();
            family.encode_family(&store.labels())?.encode_counter::<NoLabelSet, _, u64>(&relists, None)?;
        }
        let help = "Responses that were not sent in protobuf although the client prefers it, because the protobuf messages of the resource are not known";
        let mut family =
            encoder.encode_descriptor("fieldcache_store_missed_protobuf", help, None, MetricType::Counter)?;
        for store in &stores {
            let missed = store.resource.state.missed_protobuf();
            family.encode_family(&store.labels())?.encode_counter::<NoLabelSet, _, u64>(&missed, None)?;
        }
        for (name, help, of_bytes) in [
            (
                "fieldcache_store_index_values",
                "Distinct values in an index; each store has an index for each field, one for labels and one for namespaces",
                false,
            ),
            (
                "fieldcache_store_index_bytes",
                "Bytes of the values of an index, and of its lists of the objects with each value",
                true,
            ),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for store in &stores {
                for (index, field, values, bytes) in store.indexes() {
                    let labels = (store.labels(), [("index", index), ("field", field)]);
                    family.encode_family(&labels)?.encode_gauge(if of_bytes { &bytes } else { &values })?;
                }
            }
        }
        Ok(())
    }
}
