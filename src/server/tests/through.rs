//! Requests through a View: what it shows, what it leaves out, and how its watches end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use http_body::Body as _;
use http_body_util::BodyExt;
use serde_json::json;

use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::extract::Prune;
use crate::registry::consumer::{ConsumerClaim, ConsumerContext, ConsumerTerms};
use crate::registry::views::{ViewDefinition, ViewPart};
use crate::request::view_path::VIEWS;
use crate::selector::{FieldExpression, Operator};
use crate::server::Settings;
use crate::server::health::Check;

const BLUE: &str = "/apis/view.fieldcache.dev/v1alpha1/views/blue/proxy";

fn blue() -> ViewPart {
    let operator = Operator::In(vec!["blue".to_owned(), "cyan".to_owned()]);
    ViewPart {
        group: "stable.example.com".to_owned(),
        resource: "shirts".to_owned(),
        namespaces: vec!["a".to_owned(), "ab".to_owned()].into(),
        fields: vec![FieldExpression { key: "spec.color".to_owned(), operator }],
        ..ViewPart::default()
    }
}

fn serve(fixture: &Fixture, part: ViewPart) {
    let definition = ViewDefinition { parts: vec![part], ..ViewDefinition::default() };
    fixture.registry.replace_views(BTreeMap::from([("blue".to_owned(), Ok(definition.into()))]));
}

#[tokio::test]
async fn a_view_is_a_server_of_what_it_shows() {
    let fixture = Fixture::with_shirts(Settings::default());
    serve(&fixture, blue());
    let lists = [
        ("", &["a/x", "a/x.y", "ab/x", "ab/x.y"][..], "all that it shows, of several namespaces in one list"),
        ("?fieldSelector=metadata.name%3Dx", &["a/x", "ab/x"], "a field of the request, too"),
        ("?fieldSelector=spec.color%3Dgreen", &[], "what it does not show is not there"),
        ("?fieldSelector=spec.color!%3Dblue", &[], "nor by what it is not"),
        ("?labelSelector=tone%3Dgreen", &[], "nor by a label"),
        ("?labelSelector=tone%3Dblue&limit=3", &["a/x", "a/x.y", "ab/x"], "pages"),
    ];
    for (query, expected, why) in lists {
        assert_eq!(fixture.get(&format!("{BLUE}{ALL_SHIRTS}{query}")).await.names(), expected, "{why}");
    }
    let within = |namespace: &str| format!("{BLUE}/apis/stable.example.com/v1/namespaces/{namespace}/shirts");
    assert_eq!(fixture.get(&within("ab")).await.names(), ["ab/x", "ab/x.y"]);
    let elsewhere = fixture.get(&within("a-b")).await;
    assert_eq!((elsewhere.code.as_u16(), elsewhere.names().len()), (200, 0), "a namespace outside looks empty");
    let one = fixture.get(&format!("{BLUE}{ALL_SHIRTS}?limit=1")).await.json();
    assert_eq!(one["metadata"]["remainingItemCount"], 3, "what remains is counted of what it shows");
    let objects = [
        ("a", "x", 200, "shown"),
        ("a", "x-y", 404, "of another color"),
        ("a-b", "x", 404, "of another namespace"),
        ("a", "none", 404, "not there at all"),
    ];
    for (namespace, name, code, why) in objects {
        let answer = fixture.get(&format!("{}/{name}", within(namespace))).await;
        assert_eq!(answer.code.as_u16(), code, "{why}");
        let status = format!("shirts.stable.example.com \\\"{name}\\\" not found");
        assert_eq!(answer.body.contains(&status), code == 404, "{why}: {}", answer.body);
    }
}

#[tokio::test]
async fn before_all_is_known_that_is_to_be_served_nothing_is_said_not_to_be_there() {
    let known = Arc::new(AtomicBool::new(false));
    let is_known = known.clone();
    let is_complete: Arc<dyn Fn() -> bool + Send + Sync> = Arc::new(move || is_known.load(Ordering::Relaxed));
    let fixture = Fixture::with_shirts(Settings { is_complete: Some(is_complete), ..Settings::default() });
    serve(&fixture, blue());
    let rows = [
        ("/apis/stable.example.com/v1/socks", true, "a resource"),
        ("/apis/other.example.com/v1", true, "a group"),
        ("/api/v1/secrets", true, "a built-in resource"),
        ("/apis/view.fieldcache.dev/v1alpha1/views/red/proxy/api/v1/pods", true, "a View"),
        (&format!("{BLUE}/apis/stable.example.com/v1/socks"), true, "what a View shows depends on what is served"),
        (&format!("{SHIRTS}/none"), false, "an object of an existing store"),
        (&format!("{BLUE}/apis/stable.example.com/v1/namespaces/a/shirts/none"), false, "the same in a View"),
    ];
    let read = async |path: &str| {
        let answer = fixture.get(path).await;
        (answer.code.as_u16(), answer.headers.contains_key("retry-after"), answer.body.contains("not known yet"))
    };
    for (path, is_unknown, what) in rows {
        let expected = if is_unknown { (429, true, true) } else { (404, false, false) };
        assert_eq!(read(path).await, expected, "{path}: {what}");
    }
    assert_eq!(read(ALL_SHIRTS).await, (200, false, false), "what is there is answered");
    known.store(true, Ordering::Relaxed);
    for (path, _, what) in rows {
        assert_eq!(read(path).await, (404, false, false), "{path}: {what}");
    }
}

#[tokio::test]
async fn everything_around_speaks_of_the_view_alone() {
    let check = Check::one("store", false, || Err("about to be read".to_owned()));
    let fixture = Fixture::with_shirts(Settings { checks: vec![check], ..Settings::default() });
    assert_eq!(fixture.get("/readyz").await.code, 500);
    serve(&fixture, blue());
    let groups = fixture.get(&format!("{BLUE}/apis")).await.json();
    let names: Vec<&str> =
        groups["groups"].as_array().unwrap().iter().filter_map(|group| group["name"].as_str()).collect();
    assert_eq!(names, ["stable.example.com", "authentication.k8s.io", "authorization.k8s.io"], "{groups}");
    let resources = fixture.get(&format!("{BLUE}/apis/stable.example.com/v1")).await.json();
    let names: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().filter_map(|found| found["name"].as_str()).collect();
    assert_eq!(names, ["shirts", "shirts/status"], "hats are in the group too, and not in the View");
    let rows = [
        (Method::GET, format!("{BLUE}/api/v1/pods"), 404, "a resource that it does not have"),
        (Method::GET, format!("{BLUE}/apis/stable.example.com/v1/hats"), 404, "one of the same group"),
        (Method::GET, format!("{BLUE}/readyz"), 200, "health is the server's"),
        (Method::GET, format!("{BLUE}/readyz/store"), 404, "but not what else is kept"),
        (Method::GET, BLUE.to_owned(), 200, "its root"),
        (Method::GET, format!("{BLUE}/"), 200, "its root, with a slash"),
        (Method::POST, format!("{BLUE}{SHIRTS}"), 405, "it is read-only"),
        (Method::DELETE, format!("{BLUE}{SHIRTS}"), 405, "also as a whole"),
        (Method::GET, format!("{VIEWS}red/proxy{ALL_SHIRTS}"), 404, "no View of that name"),
        (Method::GET, format!("{VIEWS}blue/proxied{ALL_SHIRTS}"), 404, "not behind its proxy"),
        (Method::GET, format!("{VIEWS}blue%2Fproxy{ALL_SHIRTS}"), 404, "a slash that is no slash"),
        (Method::GET, format!("{VIEWS}BLUE/proxy{ALL_SHIRTS}"), 404, "no name"),
        (Method::GET, format!("{BLUE}/../../red/proxy{ALL_SHIRTS}"), 404, "nothing is above its root"),
        (Method::GET, format!("{BLUE}{BLUE}{ALL_SHIRTS}"), 404, "no View in a View"),
    ];
    for (method, path, code, why) in rows {
        assert_eq!(fixture.whole(method, &path, &[]).await.code.as_u16(), code, "{why}: {path}");
    }
    let explained = fixture.get(&format!("{BLUE}{ALL_SHIRTS}?explain=true")).await;
    assert_eq!(explained.header("fieldcache-explain"), "", "plans count what is not shown");
    fixture.registry.replace_views(BTreeMap::from([("blue".to_owned(), Err("spec.x is wrong".to_owned()))]));
    let refused = fixture.get(&format!("{BLUE}{ALL_SHIRTS}")).await;
    let message = "the View blue is not served: kubectl get view blue -o wide shows the reason";
    assert_eq!((refused.code.as_u16(), &*refused.message()), (503, message), "other users do not see its error");
}

#[tokio::test]
async fn what_is_left_out_is_in_no_answer_and_answers_nothing() {
    let fixture = Fixture::with_shirts(Settings::default());
    serve(
        &fixture,
        ViewPart { prune: Prune::new([".spec.size", ".metadata.creationTimestamp"]).unwrap().into(), ..blue() },
    );
    let path = format!("{BLUE}{ALL_SHIRTS}");
    let list = fixture.get(&path).await;
    assert_eq!(list.json()["items"][0]["spec"], json!({"color": "blue"}), "{}", list.body);
    assert!(!list.body.contains("creationTimestamp") && list.names().len() == 4, "{}", list.body);
    let unknown = fixture.get(&format!("{path}?fieldSelector=spec.size%3D7")).await;
    assert_eq!((unknown.code.as_u16(), &*unknown.message()), (400, "field label not supported: spec.size"));
    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let table = fixture.get_with(&path, &table).await.json();
    assert_eq!(table["rows"][0]["cells"], json!(["x", "blue"]), "{table}");
    let columns: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().filter_map(|column| column["name"].as_str()).collect();
    assert_eq!(columns, ["Name", "Color"], "a column would say what is left out");
    let partial = [("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")];
    assert!(!fixture.get_with(&path, &partial).await.body.contains("creationTimestamp\":\"2026"));
    let one = fixture.get(&format!("{BLUE}/apis/stable.example.com/v1/namespaces/a/shirts/x")).await.json();
    assert_eq!(one["spec"], json!({"color": "blue"}));
}

#[tokio::test]
async fn a_view_shows_what_it_keeps_and_selects_by_nothing_else() {
    let fixture = Fixture::with_shirts(Settings::default());
    serve(&fixture, ViewPart { prune: Prune::with_kept([], [".spec.color"]).unwrap().into(), ..blue() });
    let path = format!("{BLUE}{ALL_SHIRTS}");
    let list = fixture.get(&path).await.json();
    let first = &list["items"][0];
    let metadata: Vec<&String> = first["metadata"].as_object().unwrap().keys().collect();
    assert_eq!(metadata, ["name", "namespace", "resourceVersion"], "{first}");
    assert_eq!(first["spec"], json!({"color": "blue"}), "{first}");
    assert_eq!(list["items"].as_array().unwrap().len(), 4, "the View itself selects by other fields");
    let rows = [
        ("fieldSelector=spec.color%3Dblue", 200, ""),
        ("fieldSelector=spec.size%3D7", 400, "field label not supported: spec.size"),
        (
            "labelSelector=tone%3Dblue",
            400,
            "labelSelector: the View does not show the label \"tone\" of shirts: select by another label, or add \
             .metadata.labels['tone'] to keep in the View",
        ),
        (
            "labelSelector=!other&watch=true",
            400,
            "labelSelector: the View does not show the label \"other\" of shirts: \
             select by another label, or add .metadata.labels['other'] to keep in the View",
        ),
    ];
    for (query, code, message) in rows {
        let answer = fixture.get(&format!("{path}?{query}")).await;
        assert_eq!(answer.code.as_u16(), code, "{query}: {}", answer.body);
        assert_eq!(if code == 200 { String::new() } else { answer.message() }, message, "{query}");
    }
    let labels = Prune::with_kept([], [".metadata.labels['tone']"]).unwrap();
    serve(&fixture, ViewPart { prune: labels.into(), ..blue() });
    let list = fixture.get(&format!("{path}?labelSelector=tone%3Dblue")).await;
    assert_eq!(list.names().len(), 4, "a kept label selects");
    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let table = fixture.get_with(&path, &table).await.json();
    assert_eq!(table["rows"][0]["cells"].as_array().unwrap().len(), 2, "columns that are not shown: {table}");
}

#[tokio::test(start_paused = true)]
async fn copies_of_pruned_data_are_in_no_response() {
    let mut fixture = Fixture::with_shirts(Settings::default());
    let put = |fixture: &mut Fixture, color: &str| {
        let version = fixture.next_version();
        let applied = json!({"spec": {"size": 7, "note": "s3cret"}}).to_string();
        let object = json!({
            "apiVersion": "stable.example.com/v1", "kind": "Shirt",
            "metadata": {
                "name": "copied", "namespace": "a", "resourceVersion": version.to_string(), "labels": {"tone": color},
                "annotations": {"example.com/own": "kept", "kubectl.kubernetes.io/last-applied-configuration": applied},
                "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:note": {"v:\"s3cret\"": {}}, "f:color": {}}}}],
            },
            "spec": {"color": color, "note": ["s3cret"]},
        });
        let record = fixture.shirts.resource.extractor.extract(bytes::Bytes::from(object.to_string())).unwrap();
        fixture.shirts.store.apply(&record);
        fixture.shirts.publish();
    };
    serve(&fixture, ViewPart { prune: Prune::new([".spec.note"]).unwrap().into(), ..blue() });
    let start = fixture.version;
    put(&mut fixture, "blue");
    let one = format!("{BLUE}/apis/stable.example.com/v1/namespaces/a/shirts/copied");
    let shown = fixture.get(&one).await;
    let metadata = &shown.json()["metadata"];
    assert_eq!(metadata["annotations"], json!({"example.com/own": "kept"}));
    assert_eq!(metadata["managedFields"], json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:color": {}}}}]));
    let accepted = [
        "application/json",
        "application/yaml",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ];
    for accept in accepted {
        for query in ["", "?includeObject=Object", "?pretty=true"] {
            for path in [&one, &format!("{BLUE}{ALL_SHIRTS}")] {
                let response = fixture.get_with(&format!("{path}{query}"), &[("accept", accept)]).await;
                let hides = ["s3cret", "last-applied", "f:note"].iter().all(|word| !response.body.contains(word));
                assert!(hides, "{path}{query} {accept}: {}", response.body);
            }
        }
    }
    for accept in [accepted[0], accepted[2], accepted[3]] {
        let path = format!("{BLUE}{ALL_SHIRTS}?watch=true&includeObject=Object&resourceVersion={start}");
        let mut resumed = fixture.watch_with(&path, &[("accept", accept)]).await;
        put(&mut fixture, "cyan");
        put(&mut fixture, "green");
        fixture.delete("a", "copied");
        put(&mut fixture, "blue");
        fixture.delete("a", "copied");
        put(&mut fixture, "blue");
        let mut kinds = Vec::new();
        for _ in 0..6 {
            let event = resumed.next().await.unwrap();
            kinds.push(event["type"].as_str().unwrap().to_owned());
            let text = event.to_string();
            assert!(["s3cret", "last-applied", "f:note"].iter().all(|word| !text.contains(word)), "{accept}: {text}");
        }
        assert!(kinds.contains(&"DELETED".to_owned()), "{kinds:?}");
    }
}

/// Objects whose note is as long as this.
fn with_notes(fixture: &mut Fixture, number: usize, length: usize) {
    for number in 0..number {
        let object = json!({
            "apiVersion": "stable.example.com/v1", "kind": "Shirt",
            "metadata": {"name": format!("n{number}"), "namespace": "a", "resourceVersion": fixture.next_version().to_string()},
            "spec": {"color": "blue", "note": "x".repeat(length)},
        });
        let record = fixture.shirts.resource.extractor.extract(bytes::Bytes::from(object.to_string())).unwrap();
        fixture.shirts.store.apply(&record);
    }
    fixture.shirts.publish();
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_counts_as_read_and_divides_nothing() {
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let partials = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let protobuf = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let initial = "watch=true&timeoutSeconds=3&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let compressed = format!("{initial}&allowWatchBookmarks=true");
    let history = "watch=true&timeoutSeconds=3&resourceVersion=1";
    let rows = [
        ("", "application/json"),
        ("pretty=true", "application/json"),
        ("", table),
        ("", partials),
        ("", "application/yaml"),
        ("", protobuf),
        (initial, "application/json"),
        (initial, table),
        (initial, partial),
        (&compressed, "application/json"),
        (&compressed, table),
        (history, "application/json"),
        (history, table),
    ];
    for (query, accept) in rows {
        for encoding in ["identity", "gzip"] {
            let mut frames = Vec::new();
            for length in [4, 400_000] {
                let mut fixture = Fixture::new();
                let first = fixture.put("a", "first", "blue");
                with_notes(&mut fixture, 20, length);
                serve(&fixture, ViewPart { prune: Prune::new([".spec.note"]).unwrap().into(), ..blue() });
                let query = query.replace("resourceVersion=1", &format!("resourceVersion={first}"));
                let path = format!("{BLUE}{ALL_SHIRTS}?{query}");
                let headers = [("accept", accept), ("accept-encoding", encoding)];
                let response = fixture.send(Method::GET, &path, &headers).await;
                assert!(!response.headers().contains_key("content-length"), "{query} {accept} {encoding}");
                let mut body = response.into_body();
                let (mut of_bytes, mut turns) = (Vec::new(), 0);
                while let Some(frame) = std::future::poll_fn(|context| {
                    turns += 1;
                    std::pin::Pin::new(&mut body).poll_frame(context)
                })
                .await
                {
                    of_bytes.push(frame.unwrap().into_data().map_or(0, |data| data.len()));
                }
                if query.is_empty() && length > 4 {
                    // Each reads a megabyte of the eight, one of them before there is a body.
                    assert!(turns >= 6, "{query} {accept} {encoding}: {turns} turns");
                }
                frames.push(of_bytes);
            }
            assert_eq!(frames[0], frames[1], "{query} {accept} {encoding}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_a_list_is_divided_does_not_say_what_is_left_out() {
    let mut frames = Vec::new();
    for length in [4, 100_000] {
        let mut fixture = Fixture::new();
        with_notes(&mut fixture, 2_000, length);
        serve(&fixture, ViewPart { prune: Prune::new([".spec.note"]).unwrap().into(), ..blue() });
        let mut body = fixture.send(Method::GET, &format!("{BLUE}{ALL_SHIRTS}"), &[]).await.into_body();
        let mut of_bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            of_bytes.push(frame.unwrap().into_data().map_or(0, |data| data.len()));
        }
        frames.push(of_bytes);
    }
    assert!(frames[0].len() > 3 && frames[0] == frames[1], "{frames:?}");
}

#[tokio::test(start_paused = true)]
async fn watches_report_what_enters_and_leaves_the_view() {
    let mut fixture = Fixture::with_shirts(Settings::default());
    serve(&fixture, ViewPart { prune: Prune::new([".spec.size"]).unwrap().into(), ..blue() });
    let start = fixture.version;
    let mut watched = fixture.watch(&format!("{BLUE}{ALL_SHIRTS}?watch=true&resourceVersion={start}")).await;
    let mut whole = fixture.watch(&format!("{ALL_SHIRTS}?watch=true&resourceVersion={start}")).await;
    fixture.put("a", "new", "blue");
    fixture.put("a-b", "new", "blue");
    fixture.put("a", "new", "cyan");
    let left = fixture.put("a", "new", "green");
    fixture.put("ab", "other", "cyan");
    fixture.delete("ab", "other");
    let expected =
        [("ADDED", "blue"), ("MODIFIED", "cyan"), ("DELETED", "cyan"), ("ADDED", "cyan"), ("DELETED", "cyan")];
    for (number, (kind, color)) in expected.into_iter().enumerate() {
        let event = watched.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["spec"]), (&json!(kind), &json!({"color": color})), "{number}");
        if number == 2 {
            assert_eq!(event["object"]["metadata"]["resourceVersion"], json!(left.to_string()));
        }
    }
    assert_eq!(whole.next().await.unwrap()["object"]["spec"]["size"], 7, "a watch of the whole shares no line with it");

    // The same View again changes nothing; another one ends it.
    serve(&fixture, ViewPart { prune: Prune::new([".spec.size"]).unwrap().into(), ..blue() });
    fixture.put("a", "more", "blue");
    assert_eq!(watched.next().await.unwrap()["type"], "ADDED");
    serve(&fixture, blue());
    let error = watched.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)), "{error}");
    watched.expect_end("and nothing follows").await;
    assert_eq!(whole.next().await.unwrap()["type"], "ADDED", "others go on");
}

#[tokio::test]
async fn a_view_for_consumers_shows_each_caller_its_own_part_and_nothing_without_one() {
    let fixture = Fixture::with_shirts(Settings::default());
    let terms =
        ConsumerTerms { fields: vec![("spec.color".to_owned(), ConsumerClaim::NodeName)], ..ConsumerTerms::default() };
    let definition = ViewDefinition { parts: vec![blue()], consumer: terms, ..ViewDefinition::default() };
    fixture.registry.replace_views(BTreeMap::from([("blue".to_owned(), Ok(definition.into()))]));
    for path in [ALL_SHIRTS, "/apis", "/openapi/v3", "/version"] {
        let answer = fixture.get(&format!("{BLUE}{path}")).await;
        assert_eq!(answer.code, 403, "no caller is known: {path}: {}", answer.body);
    }
    // What is made for a consumer is made of the View's own resource.
    let whole = fixture.registry.catalog();
    let Some(crate::registry::ViewState::Served(view)) = fixture.registry.view("blue") else { panic!("served") };
    let catalog = view.catalog(&whole);
    let gvr = crate::model::Gvr::new("stable.example.com", "v1", "shirts");
    let resource = catalog.resource(&gvr).unwrap();
    let snapshot = match resource.state.load_state() {
        crate::registry::LoadState::Ready(snapshot) => snapshot,
        other => panic!("{other:?}"),
    };
    let names = |resource: &crate::registry::Resource| -> Vec<String> {
        let selection = resource.restrict(crate::query::Selection::default());
        let state = crate::query::State::current(snapshot.clone());
        crate::query::Listing::new(state, &selection, None).map(|object| object.key().to_string()).collect()
    };
    let names_for = |values: &[(ConsumerClaim, &str)]| {
        let values = values.iter().map(|(value, text)| (*value, (*text).to_owned())).collect();
        names(&resource.of_consumer(&ConsumerContext { values, ..ConsumerContext::default() }))
    };
    assert!(names(resource).is_empty(), "before the caller is known");
    assert!(names_for(&[]).is_empty(), "for a caller without the value");
    assert!(names_for(&[(ConsumerClaim::PodName, "blue")]).is_empty(), "for a caller with another one");
    assert_eq!(names_for(&[(ConsumerClaim::NodeName, "blue")]), ["a/x", "a/x.y", "ab/x", "ab/x.y"]);
    assert!(names_for(&[(ConsumerClaim::NodeName, "green")]).is_empty(), "the View's own selection holds as well");
    assert!(names_for(&[(ConsumerClaim::NodeName, "blue,spec.color!=x")]).is_empty(), "a value is a value");
}
