//! Lists as Facets: counts of every kind of selection, errors, Accept headers, Views, and what is not forwarded.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use super::pass_through::{Behind, answered, before};
use super::{ALL_SHIRTS, Answer, Fixture, SHIRTS, extra};
use crate::extract::Prune;
use crate::registry::fieldcache_protocol::CONSISTENCY_HEADER;
use crate::registry::views::{ViewDefinition, ViewPart};
use crate::selector::{FieldExpression, Operator};
use crate::server::Settings;
use crate::server::pass_through::PassThrough;

pub(super) const FACETS: &str = "application/json;as=Facets;g=view.fieldcache.dev;v=v1alpha1";
const VIEW: &str = "/apis/view.fieldcache.dev/v1alpha1/views/window/proxy";
const ONLY_LISTS: &str = "as=Facets is only accepted in lists, as application/json or application/yaml with \
    g=view.fieldcache.dev;v=v1alpha1";

async fn get_facets(fixture: &Fixture, path: &str) -> Answer {
    fixture.get_with(path, &[("accept", FACETS)]).await
}

/// The Facets of a response without its kind, at version 109.
fn facets(total: u64, facets: &Value) -> Value {
    json!({
        "kind": "Facets", "apiVersion": "view.fieldcache.dev/v1alpha1", "metadata": { "resourceVersion": "109" },
        "total": total, "facets": facets,
    })
}

/// A facet of these values without others.
fn facet(field: &str, values: &[(&str, u64)], absent: u64) -> Value {
    let counts: Vec<Value> = values.iter().map(|(value, count)| json!({ "value": value, "count": count })).collect();
    json!({ "field": field, "distinct": counts.len(), "values": counts, "other": 0, "absent": absent })
}

#[tokio::test]
async fn facets_count_what_a_list_has() {
    let fixture = Fixture::with_shirts(Settings::default());
    let color = |values: &[(&str, u64)]| facet("spec.color", values, 0);
    let in_a = "/apis/stable.example.com/v1/namespaces/a/shirts";
    for (path, total, expected, why) in [
        (ALL_SHIRTS.to_owned(), 9, json!([]), "only the total"),
        (format!("{ALL_SHIRTS}?facets="), 9, json!([]), "an empty parameter is none"),
        (
            format!("{ALL_SHIRTS}?facets=spec.color,spec.size"),
            9,
            json!([color(&[("blue", 6), ("green", 3)]), facet("spec.size", &[("7", 9)], 0)]),
            "several fields in the order of the request",
        ),
        (
            format!("{ALL_SHIRTS}?facets=spec.color&facetLimit=1"),
            9,
            json!([{
                "field": "spec.color", "distinct": 2, "values": [{ "value": "blue", "count": 6 }], "other": 3,
                "absent": 0,
            }]),
            "more values than the limit",
        ),
        (
            format!("{ALL_SHIRTS}?facets=metadata.namespace&fieldSelector=spec.color%3Dgreen"),
            3,
            json!([facet("metadata.namespace", &[("a", 1), ("a-b", 1), ("ab", 1)], 0)]),
            "namespaces of a field selector, equal counts by value",
        ),
        (format!("{in_a}?facets=spec.color"), 3, json!([color(&[("blue", 2), ("green", 1)])]), "a namespace"),
        (
            format!("{ALL_SHIRTS}?facets=spec.color&labelSelector=tone%21%3Dblue"),
            3,
            json!([color(&[("green", 3)])]),
            "a label selector",
        ),
        (
            format!("{ALL_SHIRTS}?facets=spec.color&fieldSelector=spec.color%3Dpink"),
            0,
            json!([color(&[])]),
            "no object",
        ),
        (
            format!("{ALL_SHIRTS}?facets=spec.color&resourceVersion=109&resourceVersionMatch=NotOlderThan&limit=0"),
            9,
            json!([color(&[("blue", 6), ("green", 3)])]),
            "a version that is there, and no limit",
        ),
    ] {
        let answer = get_facets(&fixture, &path).await;
        assert_eq!((answer.code.as_u16(), answer.json()), (200, facets(total, &expected)), "{why}");
        assert_eq!(answer.header("content-type"), "application/json", "{why}");
    }
    let exact = format!("{ALL_SHIRTS}?facets=spec.color&resourceVersion=104&resourceVersionMatch=Exact");
    let past = get_facets(&fixture, &exact).await.json();
    assert_eq!(past["metadata"]["resourceVersion"], "104");
    assert_eq!(
        (&past["total"], &past["facets"][0]),
        (&json!(4), &color(&[("blue", 3), ("green", 1)])),
        "a past version"
    );
    let explained = get_facets(&fixture, &format!("{in_a}?explain=true")).await.explanation();
    assert_eq!((&explained["plan"], &explained["hits"]), (&json!("metadata.namespace=a (3)"), &json!(3)));
}

#[tokio::test]
async fn requests_that_are_no_facets_are_rejected_with_the_reason() {
    let fixture = Fixture::with_shirts(Settings::default());
    let page = |parameter: &str| {
        format!("the query parameter {parameter} selects a page, but Facets count all objects of a list: remove it")
    };
    let many: Vec<String> = (0..17).map(|number| format!("spec.f{number}")).collect();
    let limit = "facetLimit: must be a number from 1 to 1000".to_owned();
    for (query, message) in [
        ("facets=spec.nope", "field label not supported: spec.nope".to_owned()),
        ("facets=spec.color,", "field label not supported: ".to_owned()),
        (
            "facets=metadata.name",
            "facets: metadata.name has no counts, because nearly every object has a name of its own: use another field"
                .to_owned(),
        ),
        ("facets=spec.color,spec.color", "facets: the field \"spec.color\" is repeated".to_owned()),
        (&format!("facets={}", many.join(",")), "facets: at most 16 fields are allowed".to_owned()),
        ("facetLimit=0", limit.clone()),
        ("facetLimit=-1", limit.clone()),
        ("facetLimit=1001", limit),
        ("facetLimit=x", "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned()),
        ("limit=5", page("limit")),
        ("continue=x", page("continue")),
        ("fieldSelector=spec.nope%3D1", "field label not supported: spec.nope".to_owned()),
    ] {
        let answer = get_facets(&fixture, &format!("{ALL_SHIRTS}?{query}")).await;
        assert_eq!((answer.code.as_u16(), answer.message()), (400, message), "{query}");
    }
    let pods = get_facets(&fixture, "/api/v1/pods?facets=spec.nope").await;
    assert_eq!(pods.message(), "field label not supported: spec.nope", "in the words of a built-in kind");
    let one = "/apis/stable.example.com/v1/namespaces/a/shirts/x";
    for (path, parameter) in [
        (format!("{ALL_SHIRTS}?facets=spec.color"), "facets"),
        (format!("{ALL_SHIRTS}?facetLimit=3&watch=1"), "facetLimit"),
        (format!("{one}?facets="), "facets"),
    ] {
        let answer = fixture.get(&path).await;
        let message =
            format!("the query parameter {parameter} is only allowed in lists with the header Accept: {FACETS}");
        assert_eq!((answer.code.as_u16(), answer.message()), (400, message), "{path}");
    }
}

#[tokio::test]
async fn the_header_accept_chooses_between_facets_and_the_list() {
    let mut fixture = Fixture::with_shirts(Settings::default());
    fixture.put_pod("default", "p");
    let one = "/apis/stable.example.com/v1/namespaces/a/shirts/x".to_owned();
    let (list, watch) = (ALL_SHIRTS.to_owned(), format!("{ALL_SHIRTS}?watch=1"));
    let pods = "/api/v1/pods".to_owned();
    for (path, accept, code, kind, why) in [
        (&list, FACETS.to_owned(), 200, "Facets", "Facets alone"),
        (&pods, FACETS.to_owned(), 200, "Facets", "of a built-in kind"),
        (&list, format!("{FACETS},application/json"), 200, "Facets", "the first of equals"),
        (&list, format!("application/json,{FACETS}"), 200, "ShirtList", "the first of equals is the list"),
        (&list, format!("application/json;q=0.5,{FACETS}"), 200, "Facets", "the preferred one"),
        (&list, FACETS.replace("v1alpha1", "v2"), 406, ONLY_LISTS, "another version"),
        (&list, FACETS.replace("view.fieldcache.dev", "meta.k8s.io"), 406, ONLY_LISTS, "another group"),
        (&list, FACETS.replace("json", "vnd.kubernetes.protobuf"), 406, ONLY_LISTS, "protobuf"),
        (&list, format!("{},application/json", FACETS.replace("v1alpha1", "v2")), 200, "ShirtList", "what is left"),
        (&watch, FACETS.to_owned(), 406, ONLY_LISTS, "a watch"),
        (&one, FACETS.to_owned(), 406, ONLY_LISTS, "an object"),
        (&one, format!("{FACETS},application/json"), 200, "Shirt", "an object, where that is accepted too"),
    ] {
        let answer = fixture.get_with(path, &[("accept", &accept)]).await;
        let found = if code == 200 { answer.json()["kind"].as_str().unwrap().to_owned() } else { answer.message() };
        assert_eq!((answer.code.as_u16(), &*found), (code, kind), "{why}");
    }
    let yaml = FACETS.replace("json", "yaml");
    let answer = fixture.get_with(&format!("{ALL_SHIRTS}?facets=spec.size"), &[("accept", &yaml)]).await;
    assert!(
        answer.body.starts_with("apiVersion: view.fieldcache.dev/v1alpha1\nfacets:\n- absent: 0\n"),
        "{}",
        answer.body
    );
    let head = fixture.send(Method::HEAD, ALL_SHIRTS, &[("accept", FACETS)]).await;
    assert_eq!(head.status().as_u16(), 200);
}

#[tokio::test]
async fn values_of_a_list_count_once_for_each_object() {
    let mut fixture = extra::fixture_with(Settings::default());
    fixture.put_images_in("a", "one", &["nginx", "redis", "nginx"]);
    fixture.put_images_in("a", "two", &["redis"]);
    fixture.put_images_in("a", "none", &[]);
    // More values than are indexed.
    let many: Vec<String> = (0..70).map(|number| format!("i{number:02}")).chain(["redis".to_owned()]).collect();
    fixture.put_images_in("b", "many", &many.iter().map(String::as_str).collect::<Vec<_>>());
    let answer = get_facets(&fixture, &format!("{ALL_SHIRTS}?facets=images&facetLimit=2")).await.json();
    let expected = json!([{
        "field": "images", "distinct": 72, "values": [{ "value": "redis", "count": 3 }, { "value": "i00", "count": 1 }],
        "other": 70, "absent": 1,
    }]);
    assert_eq!((&answer["total"], &answer["facets"]), (&json!(4), &expected));
    let without = format!("{ALL_SHIRTS}?facets=images&fieldSelector=images!%3Dredis");
    let answer = get_facets(&fixture, &without).await.json();
    assert_eq!((&answer["total"], &answer["facets"]), (&json!(1), &json!([facet("images", &[], 1)])));
}

#[tokio::test]
async fn facets_through_a_view_count_what_it_shows() {
    let fixture = Fixture::with_shirts(Settings::default());
    let part = ViewPart {
        group: "stable.example.com".to_owned(),
        resource: "shirts".to_owned(),
        namespaces: vec!["a".to_owned(), "ab".to_owned()].into(),
        fields: vec![FieldExpression { key: "spec.color".to_owned(), operator: Operator::In(vec!["blue".to_owned()]) }],
        prune: Prune::new([".spec.size"]).unwrap().into(),
        ..ViewPart::default()
    };
    let definition = ViewDefinition { parts: vec![part], ..ViewDefinition::default() };
    fixture.registry.replace_views(BTreeMap::from([("window".to_owned(), Ok(definition.into()))]));
    let expected =
        json!([facet("spec.color", &[("blue", 4)], 0), facet("metadata.namespace", &[("a", 2), ("ab", 2)], 0)]);
    let shown = get_facets(&fixture, &format!("{VIEW}{ALL_SHIRTS}?facets=spec.color,metadata.namespace")).await;
    assert_eq!(shown.json(), facets(4, &expected), "{}", shown.body);
    let hidden = get_facets(&fixture, &format!("{VIEW}{ALL_SHIRTS}?facets=spec.size")).await;
    let selector = fixture.get(&format!("{VIEW}{ALL_SHIRTS}?fieldSelector=spec.size%3D7")).await;
    assert_eq!((hidden.code.as_u16(), hidden.message()), (400, selector.message()), "a hidden field does not exist");
    let elsewhere = format!("{VIEW}/apis/stable.example.com/v1/namespaces/a-b/shirts?facets=spec.color");
    let expected = facets(0, &json!([facet("spec.color", &[], 0)]));
    assert_eq!(get_facets(&fixture, &elsewhere).await.json(), expected, "a namespace outside is empty");
}

#[tokio::test(start_paused = true)]
async fn requests_for_facets_are_not_forwarded() {
    let behind = Behind::new(|_| answered(200, &json!({ "metadata": { "resourceVersion": "900" }, "items": [] })));
    let mut fixture = before(&behind, PassThrough::Read);
    fixture.put("default", "a", "blue");
    for (path, parameter, why) in [
        ("/apis/stable.example.com/v1/socks?facets=spec.color", "facets", "a resource that is not cached"),
        ("/api/v1/secrets?facetLimit=3", "facetLimit", "a built-in resource"),
        (&format!("{SHIRTS}/a?facets="), "facets", "one object, as new as the request"),
    ] {
        let answer = get_facets(&fixture, path).await;
        let message = format!(
            "the query parameter {parameter} is only supported in lists that fieldcache answers from its store, but \
             this request is forwarded to the API server: remove it"
        );
        assert_eq!((answer.code.as_u16(), answer.message()), (400, message), "{why}");
    }
    assert!(behind.lines().is_empty(), "{:?}", behind.lines());
    // The store lags behind the source, so a Strong list is forwarded.
    let list = fixture.get_with(ALL_SHIRTS, &[(CONSISTENCY_HEADER, "Strong")]).await;
    assert_eq!(list.header("fieldcache-read"), "forwarded");
    let facets = fixture.get_with(ALL_SHIRTS, &[(CONSISTENCY_HEADER, "Strong"), ("accept", FACETS)]).await;
    assert_eq!(facets.code.as_u16(), 504, "waits for the store instead: {}", facets.body);
}
