//! `sortBy`: lists and pages in every form, tokens, errors, Views, and what is not forwarded.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::pass_through::{Behind, answered, before};
use super::protobuf::{PODS, PROTOBUF, assert_same, encoded, got};
use super::{ALL_SHIRTS, Fixture, SHIRTS, extra};
use crate::extract::Prune;
use crate::registry::fieldcache_protocol::CONSISTENCY_HEADER;
use crate::registry::views::{ViewDefinition, ViewPart};
use crate::selector::{FieldExpression, Operator};
use crate::server::Settings;
use crate::server::pass_through::PassThrough;

const VIEW: &str = "/apis/view.fieldcache.dev/v1alpha1/views/window/proxy";

impl Fixture {
    /// Puts a shirt of this size; `None`: it has no size.
    fn put_size(&mut self, namespace: &str, name: &str, color: &str, size: Option<i64>) {
        let version = self.next_version().to_string();
        let shirt = json!({
            "apiVersion": "stable.example.com/v1",
            "kind": "Shirt",
            "metadata": { "name": name, "namespace": namespace, "resourceVersion": version },
            "spec": { "color": color, "size": size },
        });
        let record = self.shirts.resource.extractor.extract(Bytes::from(shirt.to_string())).unwrap();
        self.shirts.store.apply(&record);
        self.shirts.publish();
    }
}

/// Shirts whose sizes have another order as texts.
fn shirts() -> Fixture {
    let mut fixture = Fixture::new();
    let sizes = [
        ("a/x", "red", Some(10)),
        ("a/y", "blue", Some(9)),
        ("b/x", "red", None),
        ("b/z", "blue", Some(-1)),
        ("c/w", "red", Some(9)),
    ];
    for (key, color, size) in sizes {
        let (namespace, name) = key.split_once('/').unwrap();
        fixture.put_size(namespace, name, color, size);
    }
    fixture
}

#[tokio::test]
async fn lists_are_sorted_by_fields_and_ties_by_key() {
    let fixture = shirts();
    for (query, expected, why) in [
        ("sortBy=spec.size", "b/x b/z a/y c/w a/x", "integers in their order, after the one without a value"),
        ("sortBy=-spec.size", "a/x a/y c/w b/z b/x", "in reverse, but for ties"),
        ("sortBy=spec.color", "a/y b/z a/x b/x c/w", "texts"),
        ("sortBy=spec.color,-spec.size", "a/y b/z a/x c/w b/x", "two fields"),
        ("sortBy=spec.color,-metadata.name", "b/z a/y a/x b/x c/w", "names"),
        ("sortBy=metadata.name", "c/w a/x b/x a/y b/z", "names of all namespaces"),
        ("sortBy=-metadata.namespace,metadata.name", "c/w b/x b/z a/x a/y", "namespaces"),
        ("sortBy=-spec.size&fieldSelector=spec.color%3Dred", "a/x c/w b/x", "a selection"),
        ("sortBy=", "a/x a/y b/x b/z c/w", "no order"),
        ("sortBy=spec.size&resourceVersion=103&resourceVersionMatch=Exact", "b/x a/y a/x", "a past version"),
    ] {
        let list = fixture.get(&format!("{ALL_SHIRTS}?{query}")).await;
        assert_eq!(list.names().join(" "), expected, "{why}");
        // The same in pages.
        let (mut joined, mut token) = (Vec::new(), String::new());
        for _ in 0..5 {
            // A token has a version of its own.
            let query = if token.is_empty() { query } else { query.split("&resourceVersion").next().unwrap() };
            let page = fixture.get(&format!("{ALL_SHIRTS}?{query}&limit=2&continue={token}")).await;
            joined.extend(page.names());
            let metadata = page.json()["metadata"].clone();
            token = metadata["continue"].as_str().unwrap().to_owned();
            if !token.is_empty() {
                let left = expected.split(' ').count() - joined.len();
                assert_eq!(metadata["remainingItemCount"], left, "{why}");
            }
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(joined.join(" "), expected, "{why}");
    }
    let in_a = fixture.get("/apis/stable.example.com/v1/namespaces/a/shirts?sortBy=-metadata.name").await;
    assert_eq!(in_a.names(), ["a/y", "a/x"], "names of one namespace");
}

#[tokio::test]
async fn pages_of_a_sorted_list_show_one_version_while_the_store_changes() {
    let mut fixture = shirts();
    let (mut joined, mut token) = (Vec::new(), String::new());
    for number in 0..5 {
        let page = fixture.get(&format!("{ALL_SHIRTS}?sortBy=spec.size&limit=1&continue={token}")).await;
        assert_eq!(page.json()["metadata"]["resourceVersion"], "105");
        joined.extend(page.names());
        token = page.json()["metadata"]["continue"].as_str().unwrap().to_owned();
        // The object of the token goes to the end, and others come everywhere.
        let last = joined.last().unwrap().clone();
        let (namespace, name) = last.split_once('/').unwrap();
        fixture.put_size(namespace, name, "red", Some(100));
        fixture.put_size("a", &format!("new-{number}"), "red", Some(number));
    }
    assert_eq!((joined.join(" "), &*token), ("b/x b/z a/y c/w a/x".to_owned(), ""));
}

#[tokio::test]
async fn every_form_of_a_list_is_sorted() {
    let mut fixture = shirts();
    let path = format!("{ALL_SHIRTS}?sortBy=-spec.size&limit=2");
    let table = fixture.get_with(&path, &[("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")]).await.json();
    let rows: Vec<&Value> = table["rows"].as_array().unwrap().iter().map(|row| &row["cells"][0]).collect();
    assert_eq!(rows, ["x", "y"], "a Table");
    let partial = [("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")];
    assert_eq!(fixture.get_with(&path, &partial).await.names(), ["a/x", "a/y"], "metadata");
    let yaml = fixture.get_with(&path, &[("accept", "application/yaml")]).await.body;
    let names: Vec<&str> =
        yaml.lines().filter_map(|line| line.strip_prefix("    name: ")).map(|name| name.trim_matches('"')).collect();
    assert_eq!(names, ["x", "y"], "YAML");
    for name in ["p1", "p2", "p3"] {
        fixture.put_pod("default", name);
    }
    let sorted = format!("{PODS}?sortBy=-metadata.name");
    let list = fixture.get(&sorted).await;
    assert_eq!(list.names(), ["default/p3", "default/p2", "default/p1"]);
    let (code, content_type, bytes) = got(&fixture, &sorted, PROTOBUF).await;
    assert_eq!((code, &*content_type), (200, PROTOBUF));
    assert_same(&bytes, &encoded(list.body.as_bytes()), "protobuf");
}

/// A token with one member changed.
fn altered(token: &str, name: &str, value: Value) -> String {
    let mut document: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
    document[name] = value;
    URL_SAFE_NO_PAD.encode(document.to_string())
}

#[tokio::test]
async fn orders_and_tokens_that_do_not_fit_are_rejected_with_the_reason() {
    let mut fixture = shirts();
    let of = |message: &str| format!("sortBy: {message}; use a field that field selectors accept");
    let page = fixture.get(&format!("{ALL_SHIRTS}?sortBy=spec.size&limit=1")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    let plain = fixture.get(&format!("{ALL_SHIRTS}?limit=1")).await.json();
    let plain = plain["metadata"]["continue"].as_str().unwrap().to_owned();
    let of_another = |text: &str| {
        format!(
            "invalid continue token: it is not from this list with sortBy={text}, or its last object is no longer in the \
             list: start a new list without the continue parameter"
        )
    };
    let only_lists = "the query parameter sortBy is only allowed in lists of objects: remove it".to_owned();
    let many = ["spec.size"; 9].join(",").replacen("spec.size", "metadata.name", 1);
    for (query, message) in [
        ("?sortBy=spec.nope".to_owned(), of("field label not supported: spec.nope")),
        ("?sortBy=Color".to_owned(), of("field label not supported: Color")),
        ("?sortBy=spec.size,".to_owned(), of("field label not supported: ")),
        ("?sortBy=--spec.size".to_owned(), of("field label not supported: -spec.size")),
        (format!("?sortBy={many}"), "sortBy: the field \"spec.size\" is repeated".to_owned()),
        ("?sortBy=spec.size,-spec.size".to_owned(), "sortBy: the field \"spec.size\" is repeated".to_owned()),
        (format!("?sortBy=-spec.size&limit=1&continue={token}"), of_another("-spec.size")),
        (format!("?sortBy=spec.size&limit=1&continue={plain}"), of_another("spec.size")),
        ("?sortBy=spec.size&continue=x".to_owned(), of_another("spec.size")),
        (format!("?sortBy=spec.size&continue={}", altered(&token, "after", json!("a/none"))), of_another("spec.size")),
        (format!("?sortBy=spec.size&fieldSelector=spec.color%3Dblue&continue={token}"), of_another("spec.size")),
        (format!("?sortBy=spec.size&continue={}", altered(&token, "rv", json!(0))), of_another("spec.size")),
        (format!("?sortBy=spec.size&continue={}", altered(&token, "v", json!("x"))), of_another("spec.size")),
        (
            format!("?limit=1&continue={token}"),
            "invalid continue token: continue key is not valid: server does not recognize this encoded version \
             view.fieldcache.dev/v1alpha1"
                .to_owned(),
        ),
        ("?sortBy=spec.size&watch=1".to_owned(), only_lists.clone()),
        ("/x?sortBy=spec.size".to_owned(), only_lists.clone()),
    ] {
        let path = if query.starts_with('/') { "/apis/stable.example.com/v1/namespaces/a/shirts" } else { ALL_SHIRTS };
        let answer = fixture.get(&format!("{path}{query}")).await;
        assert_eq!((answer.code.as_u16(), answer.message()), (400, message), "{query}");
    }
    let facets = [("accept", "application/json;as=Facets;g=view.fieldcache.dev;v=v1alpha1")];
    assert_eq!(fixture.get_with(&format!("{ALL_SHIRTS}?sortBy=spec.size"), &facets).await.message(), only_lists);
    // A version that history no longer has.
    let gone = altered(&token, "rv", json!(7));
    fixture.put_size("a", "late", "red", Some(1));
    let expired = fixture.get(&format!("{ALL_SHIRTS}?sortBy=spec.size&limit=1&continue={gone}")).await;
    assert_eq!(
        (expired.code.as_u16(), &expired.json()["metadata"]["continue"]),
        (410, &Value::Null),
        "{}",
        expired.body
    );
    let images = extra::fixture_with(Settings::default());
    let answer = images.get(&format!("{ALL_SHIRTS}?sortBy=images")).await;
    let message = "sortBy: the field \"images\" can have several values: sort by a field with one value";
    assert_eq!((answer.code.as_u16(), &*answer.message()), (400, message));
}

#[tokio::test]
async fn a_sorted_list_through_a_view_reveals_nothing_that_is_hidden() {
    let fixture = shirts();
    let part = ViewPart {
        group: "stable.example.com".to_owned(),
        resource: "shirts".to_owned(),
        fields: vec![FieldExpression { key: "spec.color".to_owned(), operator: Operator::In(vec!["red".to_owned()]) }],
        prune: Prune::new([".spec.size"]).unwrap().into(),
        ..ViewPart::default()
    };
    let definition = ViewDefinition { parts: vec![part], ..ViewDefinition::default() };
    fixture.registry.replace_views(BTreeMap::from([("window".to_owned(), Ok(definition.into()))]));
    let hidden = fixture.get(&format!("{VIEW}{ALL_SHIRTS}?sortBy=spec.size")).await;
    let nowhere = fixture.get(&format!("{VIEW}{ALL_SHIRTS}?sortBy=spec.nope")).await.message();
    assert_eq!((hidden.code.as_u16(), hidden.message()), (400, nowhere.replace("nope", "size")), "a hidden field");
    let page = fixture.get(&format!("{VIEW}{ALL_SHIRTS}?sortBy=-metadata.name&limit=1")).await;
    assert_eq!((page.names(), &page.json()["metadata"]["remainingItemCount"]), (vec!["a/x".to_owned()], &json!(2)));
    let token = page.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let next =
        async |token: String| fixture.get(&format!("{VIEW}{ALL_SHIRTS}?sortBy=-metadata.name&continue={token}")).await;
    assert_eq!(next(token.clone()).await.names(), ["b/x", "c/w"]);
    let (of_hidden, of_none) = (altered(&token, "after", json!("b/z")), altered(&token, "after", json!("b/none")));
    let (of_hidden, of_none) = (next(of_hidden).await, next(of_none).await);
    assert_eq!((of_hidden.code.as_u16(), of_hidden.body), (400, of_none.body), "a hidden object is no position");
}

#[tokio::test(start_paused = true)]
async fn sorted_lists_are_not_forwarded() {
    let behind = Behind::new(|_| answered(200, &json!({ "metadata": { "resourceVersion": "900" }, "items": [] })));
    let mut fixture = before(&behind, PassThrough::Read);
    fixture.put("default", "a", "blue");
    for path in ["/apis/stable.example.com/v1/socks?sortBy=spec.color", &format!("{SHIRTS}/a?sortBy=metadata.name")] {
        let answer = fixture.get(path).await;
        assert_eq!(answer.code.as_u16(), 400, "{path}");
        assert!(answer.message().starts_with("the query parameter sortBy is only supported in lists"), "{path}");
    }
    assert!(behind.lines().is_empty(), "{:?}", behind.lines());
    // The store lags behind the source.
    let strong = [(CONSISTENCY_HEADER, "Strong")];
    assert_eq!(fixture.get_with(ALL_SHIRTS, &strong).await.header("fieldcache-read"), "forwarded");
    let sorted = fixture.get_with(&format!("{ALL_SHIRTS}?sortBy=spec.color"), &strong).await;
    assert_eq!(sorted.code.as_u16(), 504, "waits for the store instead: {}", sorted.body);
}
