//! Replacing catalogs, waiting for data, demand.

mod binding_subjects;
mod consumer;
mod documents;
mod memory;
mod router;
mod view_namespaces;
mod views;

use std::sync::Arc;
use std::time::Duration;

use super::views::{ViewDefinition, ViewPart, ViewState};
use super::{Catalog, LoadState, NotReady, OverMemory, Registry, Resource, ResourceOrigin, ResourceState, VersionInfo};
use crate::model::quantity::Bytes;
use crate::model::{Gvr, Scope, Version};
use crate::store::{HistoryLimits, Store};

/// A resource whose store is not read.
pub(crate) fn resource(plural: &str) -> Arc<Resource> {
    Arc::new(Resource {
        gvr: Gvr::new("", "v1", plural),
        kind: "Thing".to_owned(),
        list_kind: "ThingList".to_owned(),
        singular: String::new(),
        scope: Scope::Namespaced,
        short_names: Arc::new([]),
        categories: Arc::new([]),
        subresources: Arc::new([]),
        storage_version_hash: String::new(),
        origin: ResourceOrigin::BuiltIn,
        printer_columns: Arc::new([]),
        deprecation_warning: None,
        definition: String::new(),
        extractor: crate::builtin::extractor("", "v1", "Thing"),
        state: Arc::default(),
        partial_store: None,
        view_restriction: None,
        dropped: Default::default(),
    })
}

/// A catalog of these alone.
pub(crate) fn catalog(resources: &[&Arc<Resource>]) -> Catalog {
    Catalog::new(vec![], resources.iter().map(|resource| (*resource).clone()), VersionInfo::default())
}

fn ready() -> LoadState {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(7));
    LoadState::Ready(store.snapshot())
}

#[test]
fn what_leaves_the_catalog_is_gone_and_what_stays_is_untouched() {
    let (kept, replaced, dropped) = (resource("kept"), resource("replaced"), resource("dropped"));
    let registry = Registry::new(catalog(&[&kept, &replaced, &dropped]));
    for resource in [&kept, &replaced, &dropped] {
        resource.state.publish(ready());
    }
    let replacement = resource("replaced");
    registry.replace(catalog(&[&kept, &replacement]), |_| None);
    assert!(matches!(kept.state.load_state(), LoadState::Ready(_)));
    assert!(matches!(replacement.state.load_state(), LoadState::Idle));
    for gone in [&replaced, &dropped] {
        assert!(matches!(gone.state.load_state(), LoadState::Gone(_)), "{}", gone.gvr);
        gone.state.publish(ready());
        assert!(matches!(gone.state.load_state(), LoadState::Gone(_)), "nothing follows Gone");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_the_first_load_and_no_longer_than_its_patience() {
    let patience = Duration::from_secs(5);
    let idle = ResourceState::default();
    let waited = idle.snapshot(patience).await.unwrap_err();
    assert_eq!(waited.to_string(), "storage is (re)initializing: not started");

    let loading = ResourceState::default();
    loading.publish(LoadState::Loading("12 objects read".to_owned()));
    let waited = loading.snapshot(patience).await.unwrap_err();
    assert_eq!(waited.to_string(), "storage is (re)initializing: 12 objects read");

    let loads = Arc::new(ResourceState::default());
    let (publisher, answered) = (loads.clone(), loads.snapshot(patience));
    let publish = async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        publisher.publish(ready());
    };
    let (snapshot, ()) = tokio::join!(answered, publish);
    assert_eq!(snapshot.unwrap().version(), Version::new(7));

    let refused = ResourceState::default();
    refused.publish(LoadState::SourceError { code: 403, message: "no".to_owned() });
    let started = tokio::time::Instant::now();
    assert_eq!(
        refused.snapshot(patience).await.unwrap_err(),
        NotReady::SourceError { code: 403, message: "no".to_owned() }
    );
    assert_eq!(started.elapsed(), Duration::ZERO, "a refusal is answered at once");

    let over = OverMemory { limit: Bytes(2), held: Bytes(1), needed: Bytes(1) };
    refused.publish(LoadState::OverMemory(over.clone()));
    assert_eq!(refused.snapshot(patience).await.unwrap_err(), NotReady::OverMemory(over));
    assert_eq!(started.elapsed(), Duration::ZERO, "and so is a want of memory");

    let gone = ResourceState::default();
    gone.end(crate::registry::GoneReason::NotServed);
    assert_eq!(gone.snapshot(patience).await.unwrap_err(), NotReady::Gone);
}

/// A user who may change a definition could otherwise fill memory with one store for each change.
#[test]
fn nothing_holds_the_store_of_a_removed_resource() {
    let copy = || LoadState::Ready(Store::new(HistoryLimits::default()).snapshot());
    let last = |live: &ResourceState| match live.load_state() {
        LoadState::Gone(gone) => (gone.had_store, gone.last.is_some()),
        _ => (false, true),
    };
    let live = ResourceState::default();
    live.publish(copy());
    live.end(crate::registry::GoneReason::Replaced);
    assert_eq!(last(&live), (true, false), "no watch needs it");
    let live = ResourceState::default();
    live.publish(copy());
    let _open = live.open_watch();
    live.end(crate::registry::GoneReason::Replaced);
    assert_eq!(last(&live), (true, true), "a watch is to send what is left");
    live.forget_last();
    assert_eq!(last(&live), (true, false));

    // A View that was read before, and not since.
    let (before, after) = (resource("shirts"), resource("shirts"));
    let registry = Registry::new(catalog(&[&before]));
    let part = ViewPart { resource: "shirts".to_owned(), ..ViewPart::default() };
    let definition = ViewDefinition { parts: vec![part], ..ViewDefinition::default() };
    registry.replace_views([("all".to_owned(), Ok(definition.into()))].into());
    let Some(ViewState::Served(view)) = registry.view("all") else { panic!("it is served") };
    let of_before = registry.catalog();
    assert_eq!(view.catalog(&of_before).resources().count(), 1);
    assert!(Arc::ptr_eq(&view.catalog(&of_before), &view.catalog(&of_before)), "it is made once");
    registry.replace(catalog(&[&after]), |_| None);
    // Of a request that began before.
    view.catalog(&of_before);
    drop(of_before);
    let gone = Arc::downgrade(&before);
    drop(before);
    assert_eq!(gone.strong_count(), 0, "the resource of the catalog before");
    let now = registry.catalog();
    assert!(Arc::ptr_eq(&view.catalog(&now), &view.catalog(&now)), "it is made once");
}

#[test]
fn open_watches_are_counted_out_when_they_end() {
    let live = ResourceState::default();
    let (first, second) = (live.open_watch(), live.open_watch());
    assert_eq!(live.open_watches(), 2);
    drop(first);
    assert_eq!(live.open_watches(), 1);
    drop(second);
    assert_eq!(live.open_watches(), 0);
}

#[test]
fn objects_without_a_protobuf_form_are_remembered_within_a_bound() {
    let live = ResourceState::default();
    for number in 0..1_000 {
        live.note_unencodable(&format!("a/{number}"));
    }
    live.note_unencodable("a/990");
    let noted = live.unencodable();
    assert_eq!(noted.len(), 64);
    assert_eq!(noted.last().map(String::as_str), Some("a/990"), "the newest is the last to be forgotten");
    // An object whose name is as long is not from an API server of Kubernetes.
    live.note_unencodable(&"a".repeat(1_025));
    assert_eq!(live.unencodable(), noted);
    live.forget_unencodable("a/990");
    assert_eq!(live.unencodable().len(), 63);
}
