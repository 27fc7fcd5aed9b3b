//! What many watches hold together, and make once: thousands of them may be open by one user.

use std::collections::BTreeMap;
use std::sync::Arc;

use allocation_counter::measure;
use futures::FutureExt;

use super::{ALL_SHIRTS, Fixture, Stored, catalog};
use crate::crd::PrinterColumn;
use crate::extract::Prune;
use crate::json::cursor::bytes_read_so_far;
use crate::registry::consumer::{ConsumerClaim, ConsumerContext};
use crate::registry::views::{ViewDefinition, ViewPart};
use crate::registry::{Resource, ViewState};
use crate::server::Settings;
use crate::store::HistoryLimits;
use crate::wire::shared_columns::SharedColumns;
use crate::wire::table::Include;

/// As large as the printer columns of a definition can be.
fn wide(resource: &Resource) -> Resource {
    let column = |number: usize| PrinterColumn {
        name: format!("column-{number}"),
        kind: "string".to_owned(),
        format: String::new(),
        description: "d".repeat(1_000),
        priority: 0,
        json_path: ".spec.color".to_owned(),
    };
    let long_name = |number: usize| format!("{number:050}");
    Resource {
        printer_columns: (0..600).map(column).collect(),
        categories: (0..1_000).map(long_name).collect(),
        short_names: (0..1_000).map(long_name).collect(),
        ..resource.clone()
    }
}

pub(super) fn pruned(path: &str) -> ViewPart {
    let prune = Prune::new([path]).unwrap();
    ViewPart {
        group: "stable.example.com".to_owned(),
        resource: "shirts".to_owned(),
        prune: prune.into(),
        ..ViewPart::default()
    }
}

pub(super) fn serve(fixture: &Fixture, views: &[(&str, ViewPart)]) {
    let definition = |part: &ViewPart| ViewDefinition { parts: vec![part.clone()], ..ViewDefinition::default() };
    let views = views.iter().map(|(name, part)| ((*name).to_owned(), Ok(definition(part).into())));
    fixture.registry.replace_views(views.collect::<BTreeMap<_, _>>());
}

fn through(view: &str) -> String {
    format!("/apis/view.fieldcache.dev/v1alpha1/views/{view}/proxy{ALL_SHIRTS}?watch=true&resourceVersion=100")
}

#[test]
fn a_table_watch_takes_little_memory_whatever_the_definition_takes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let mut fixture = runtime.block_on(async { Fixture::new() });
    fixture.shirts.resource = Arc::new(wide(&fixture.shirts.resource).with_new_state());
    fixture.registry.replace(catalog(&[&fixture.shirts, &fixture.hats, &fixture.pods]), |_| None);
    fixture.shirts.publish();
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let path = format!("{ALL_SHIRTS}?watch=true&resourceVersion=100");
    let mut watches = Vec::new();
    let open = |watches: &mut Vec<_>| {
        let opened = measure(|| watches.push(runtime.block_on(fixture.watch_with(&path, &table))));
        opened.bytes_current
    };
    let first = open(&mut watches);
    let counted = fixture.server.limits().watches().of_busiest();
    assert!(counted > 150, "the user for whom columns are made is charged for them: {counted}");
    assert!(first > 600_000, "the first one holds the columns: {first} bytes");
    let second = open(&mut watches);
    assert!(second < 16_384, "{second} bytes");
    drop(watches.remove(0));
    let still = fixture.server.limits().watches().of_busiest();
    assert!(still > 150, "they are counted as long as a watch holds them: {still}");
    let others: i64 = (0..20).map(|_| open(&mut watches)).sum();
    assert!(others < 20 * 16_384, "{} bytes for each of the others", others / 20);
}

#[test]
fn a_resource_for_one_consumer_takes_little_memory_whatever_the_definition_takes() {
    let fixture = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async { Fixture::new() });
    let resource = wide(&fixture.shirts.resource);
    let values = vec![(ConsumerClaim::Namespace, "a".to_owned())];
    let consumer = ConsumerContext { values, ..ConsumerContext::default() };
    let mut kept = Vec::new();
    let allocated = measure(|| kept.push(resource.of_consumer(&consumer)));
    assert!(allocated.bytes_current < 4_096, "{} bytes", allocated.bytes_current);
}

#[tokio::test]
async fn columns_are_shared_by_content_and_cached_while_in_use() {
    let fixture = Fixture::new();
    serve(&fixture, &[("one", pruned(".spec.size")), ("two", pruned(".spec.color"))]);
    let seen = |name: &str| {
        let Some(ViewState::Served(view)) = fixture.registry.view(name) else { panic!("{name} is served") };
        view.catalog(&fixture.registry.catalog()).resource(&fixture.shirts.resource.gvr).unwrap().clone()
    };
    let (whole, one, two) = (fixture.shirts.resource.clone(), seen("one"), seen("two"));
    let shared = SharedColumns::default();
    let columns = shared.get(&whole, "v1", Include::None);
    assert!(Arc::ptr_eq(&columns, &shared.get(&whole, "v1", Include::None)), "the same form");
    let other = Stored::new(wide(&whole), HistoryLimits::default()).resource;
    for (resource, version, include, why) in [
        (&whole, "v1beta1", Include::None, "another version"),
        (&whole, "v1", Include::Object, "other rows"),
        (&one, "v1", Include::None, "a View leaves out a column"),
        (&two, "v1", Include::None, "another View another one"),
        (&other, "v1", Include::None, "another definition of the same name"),
    ] {
        assert!(!Arc::ptr_eq(&columns, &shared.get(resource, version, include)), "{why}");
    }
    serve(&fixture, &[("whole", ViewPart { prune: Arc::default(), ..pruned(".spec.size") })]);
    let unpruned = shared.get(&seen("whole"), "v1", Include::None);
    assert!(Arc::ptr_eq(&columns, &unpruned), "a View that leaves out nothing");
    let addresses: Vec<usize> =
        (0..1_000).map(|_| Arc::as_ptr(&shared.get(&one, "v1", Include::None)).addr()).collect();
    assert!(shared.len() < 200 && !addresses.is_empty(), "{} are kept, one is used", shared.len());
}

#[tokio::test(start_paused = true)]
async fn what_a_view_leaves_out_is_left_out_once_for_all_its_watches() {
    const WATCHES: usize = 40;
    let forms = [
        "application/json",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
    ];
    let changes = |fixture: &mut Fixture| {
        fixture.put("default", "x", "blue");
        fixture.put("default", "x", &"<red>".repeat(10_000));
        fixture.delete("default", "x");
    };
    let views = [("one", pruned(".spec.size")), ("two", pruned(".spec.color"))];
    // Each form through each View alone, and what one watch reads.
    let (mut alone, mut read_alone) = (Vec::new(), 0);
    for (form, (view, _)) in forms.iter().flat_map(|form| views.iter().map(move |view| (form, view))) {
        let mut fixture = Fixture::with(Settings::default(), HistoryLimits::default());
        serve(&fixture, &views);
        let mut watch = fixture.watch_with(&through(view), &[("accept", form)]).await;
        assert!(watch.next().now_or_never().is_none(), "it is up to date");
        changes(&mut fixture);
        let before = bytes_read_so_far();
        alone.push((*form, *view, [watch.next().await, watch.next().await, watch.next().await]));
        read_alone += bytes_read_so_far() - before;
    }
    let mut fixture = Fixture::with(Settings::default(), HistoryLimits::default());
    serve(&fixture, &views);
    let mut watches = Vec::new();
    for number in 0..WATCHES * alone.len() {
        let (form, view, _) = &alone[number % alone.len()];
        let mut watch = fixture.watch_with(&through(view), &[("accept", form)]).await;
        assert!(watch.next().now_or_never().is_none(), "it is up to date");
        watches.push(watch);
    }
    changes(&mut fixture);
    let before = bytes_read_so_far();
    for (number, watch) in watches.iter_mut().enumerate() {
        let (form, view, expected) = &alone[number % alone.len()];
        let events = [watch.next().await, watch.next().await, watch.next().await];
        assert_eq!(&events, expected, "watch {number}: {form} through {view}");
        let text = format!("{events:?}");
        let is_whole = *form == forms[0];
        let shown = ["size", "color"].map(|name| text.contains(&format!("\"{name}\"")));
        assert_eq!(shown, [*view == "two" && is_whole, *view == "one" && is_whole], "{form} through {view}: {text}");
    }
    let read = bytes_read_so_far() - before;
    assert!(read_alone > 0 && read <= read_alone, "{read} bytes read, {read_alone} by one watch of each form");
}
