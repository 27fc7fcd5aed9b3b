//! `celSelector` of lists and watches, at the root and in Views.

use std::collections::BTreeMap;

use super::facets::FACETS;
use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::extract::Prune;
use serde_json::Value;

use crate::registry::view_namespaces::ViewNamespaces;
use crate::registry::views::{ViewDefinition, ViewPart};

/// The query of an expression.
fn query(expression: &str) -> String {
    let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("?celSelector={encoded}")
}

/// Shirts `a/x` to `b/z` by color and size; `none` has no size.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.put_sized("a", "x", "blue", Some(9));
    fixture.put_sized("a", "y", "green", Some(10));
    fixture.put_sized("a", "none", "blue", None);
    fixture.put_sized("b", "x", "", Some(200));
    fixture.put_sized("b", "z", "red", Some(-3));
    fixture
}

#[tokio::test]
async fn lists_are_selected_by_expressions() {
    let fixture = fixture();
    for (expression, expected, failed) in [
        ("self.spec.color == 'blue'", &["a/none", "a/x"][..], 0),
        ("self.spec.color in ['blue', 'red']", &["a/none", "a/x", "b/z"], 0),
        ("self.spec.color == 'blue' || self.spec.color == 'red'", &["a/none", "a/x", "b/z"], 0),
        ("self.spec.color.startsWith('gr')", &["a/y"], 0),
        ("!(self.spec.color in ['blue', 'red'])", &["a/y", "b/x"], 0),
        ("has(self.spec.size) && self.spec.size >= 10", &["a/y", "b/x"], 0),
        // An object without the member is no match. It is counted if it was evaluated, which the index may make
        // needless.
        ("self.spec.size >= 10", &["a/y", "b/x"], 0),
        ("self.spec.size + 1 > 10", &["a/y", "b/x"], 1),
        // By the schema a size cannot be null, so the index knows that it is absent.
        ("self.spec.size != 9", &["a/y", "b/x", "b/z"], 0),
        ("self.metadata.namespace == 'b' && self.metadata.name == 'x'", &["b/x"], 0),
        ("self.metadata.name.endsWith('e')", &["a/none"], 0),
        ("true", &["a/none", "a/x", "a/y", "b/x", "b/z"], 0),
        ("false", &[], 0),
    ] {
        let answer = fixture.get(&format!("{ALL_SHIRTS}{}", query(expression))).await;
        assert_eq!(
            (answer.code.as_u16(), answer.names()),
            (200, expected.iter().map(|name| (*name).to_owned()).collect()),
            "{expression}"
        );
        let warning = answer.header("warning");
        match failed {
            0 => assert_eq!(warning, "", "{expression}"),
            failed => {
                assert!(warning.contains(&format!("celSelector failed for {failed} of ")), "{expression}: {warning}")
            }
        }
    }
}

#[tokio::test]
async fn expressions_work_with_selectors_pages_and_counts() {
    let fixture = fixture();
    let joined = format!("{ALL_SHIRTS}{}&fieldSelector=spec.color%3Dblue", query("has(self.spec.size)"));
    assert_eq!(fixture.get(&joined).await.names(), ["a/x"]);
    let page = fixture.get(&format!("{ALL_SHIRTS}{}&limit=1", query("self.spec.color == 'blue'"))).await.json();
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    let next = page["metadata"]["continue"].as_str().unwrap();
    let next =
        fixture.get(&format!("{ALL_SHIRTS}{}&limit=1&continue={next}", query("self.spec.color == 'blue'"))).await;
    assert_eq!(next.names(), ["a/x"]);
    let counted = format!("{ALL_SHIRTS}{}", query("self.spec.size + 0 > 0"));
    let counted = fixture.get_with(&counted, &[("accept", FACETS)]).await;
    assert_eq!(counted.json()["total"], 3);
    assert!(counted.header("warning").contains("failed for 1 of 5 evaluated objects"), "{}", counted.header("warning"));
    let failing = format!("{ALL_SHIRTS}{}", query("{'a': true}[self.spec.color + '\\r\\n']"));
    let warning = fixture.get(&failing).await.header("warning").to_owned();
    assert!(warning.contains("celSelector failed for 5 of "), "control characters in an error: {warning}");
    let sorted = format!("{ALL_SHIRTS}{}&sortBy=-spec.size", query("has(self.spec.size) && self.spec.size > 0"));
    assert_eq!(fixture.get(&sorted).await.names(), ["b/x", "a/y", "a/x"]);
}

#[tokio::test]
async fn an_expression_that_cannot_be_used_is_rejected() {
    let fixture = fixture();
    for (path, expression, message) in [
        (ALL_SHIRTS, "self.spec.color ==", "celSelector: ERROR: <input>:1:"),
        (
            ALL_SHIRTS,
            "self.spec.colour == 'blue'",
            "celSelector: ERROR: <input>:1:10: undefined field 'colour', did you mean 'color'?",
        ),
        (
            ALL_SHIRTS,
            "self.spec.size == 'S'",
            "celSelector: ERROR: <input>:1:16: found no matching overload for '_==_'",
        ),
        (ALL_SHIRTS, "other.spec", "celSelector: ERROR: <input>:1:1: undeclared reference to 'other'"),
        (ALL_SHIRTS, "self.spec.color.nope('x')", "celSelector: ERROR: <input>:1:"),
        (ALL_SHIRTS, "1 + 1", "celSelector: ERROR: <input>:1:"),
        (
            "/apis/stable.example.com/v1/namespaces/a/shirts/x",
            "true",
            "the query parameter celSelector is only supported in lists and watches: remove it",
        ),
    ] {
        let answer = fixture.get(&format!("{path}{}", query(expression))).await;
        assert_eq!(answer.code.as_u16(), 400, "{expression}");
        assert!(answer.message().starts_with(message), "{expression}: {}", answer.message());
    }
    let watch = fixture.get(&format!("{SHIRTS}{}&watch=1", query("self.spec.colour == 'blue'"))).await;
    assert_eq!(watch.code.as_u16(), 400);
    assert!(watch.message().contains("did you mean 'color'?"), "{}", watch.message());
}

#[tokio::test]
async fn an_expensive_expression_names_its_part_and_the_remedy() {
    let fixture = fixture();
    let nested = "[1,2,3,4,5,6,7,8,9,10]";
    let macros = (0..7).fold("true".to_owned(), |inner, level| format!("{nested}.all(v{level}, {inner})"));
    for (expression, start, remedy) in [
        // Before the evaluation of any object.
        (
            &*format!("self.spec.color.size() == 9 && {macros}"),
            "celSelector: the estimated cost of [1,2,3,4,5,6,7,8,9,10].all(v6, [1,2,3,4,... is ",
            "above the limit of 1000000",
        ),
        // Larger than estimated. A slow machine reaches the limit of time first.
        (
            "self.spec.size == 9 && lists.range(self.spec.size * 1000).all(v, lists.range(1000).all(w, v + w >= 0))",
            "celSelector: a/x: the evaluation ",
            "select fewer objects",
        ),
    ] {
        let answer = fixture.get(&format!("{ALL_SHIRTS}{}", query(expression))).await;
        assert_eq!(answer.code.as_u16(), 400, "{expression}");
        let message = answer.message();
        assert!(message.starts_with(start) && message.contains(remedy), "{message}");
    }
    // The index finds all objects, so that nothing is evaluated.
    let many = vec!["self.spec.color == 'blue'"; 300].join(" || ");
    assert_eq!(fixture.get(&format!("{ALL_SHIRTS}{}", query(&many))).await.names(), ["a/none", "a/x"]);
}

/// The type, namespace and name of an event.
fn in_short(event: Option<Value>) -> String {
    let Some(event) = event else { return "the end".to_owned() };
    let metadata = &event["object"]["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}/{}", text(&event["type"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

#[tokio::test(start_paused = true)]
async fn watches_are_selected_by_expressions() {
    for expression in [
        "has(self.spec.size) && self.spec.size > 9",
        // Nothing of this is in an index.
        "self.spec.size + 0 > 9",
        "self.metadata.namespace == 'a' && self.spec.size * 2 > 18 || self.metadata.name == 'x' && self.spec.size > 9",
    ] {
        let mut fixture = fixture();
        let path = format!(
            "{ALL_SHIRTS}{}&watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            query(expression)
        );
        let mut watch = fixture.watch(&path).await;
        let first = [in_short(watch.next().await), in_short(watch.next().await)];
        assert_eq!(first, ["ADDED a/y", "ADDED b/x"], "{expression}");
        fixture.put_sized("a", "y", "red", Some(11));
        assert_eq!(in_short(watch.next().await), "MODIFIED a/y", "{expression}");
        // It leaves the selection, and enters it again.
        fixture.put_sized("a", "y", "red", Some(8));
        assert_eq!(in_short(watch.next().await), "DELETED a/y", "{expression}");
        fixture.put_sized("a", "y", "red", Some(7));
        fixture.put_sized("a", "y", "red", Some(12));
        assert_eq!(in_short(watch.next().await), "ADDED a/y", "{expression}");
        // The expression fails for an object without a size.
        fixture.put_sized("a", "y", "red", None);
        assert_eq!(in_short(watch.next().await), "DELETED a/y", "{expression}");
        fixture.put_sized("a", "none", "red", None);
        let version = fixture.delete("b", "x");
        assert_eq!(in_short(watch.next().await), "DELETED b/x", "{expression}");
        watch.expect_silence().await;
        // From history.
        let resumed = format!("{ALL_SHIRTS}{}&watch=1&resourceVersion={}", query(expression), version - 2);
        let mut resumed = fixture.watch(&resumed).await;
        assert_eq!(in_short(resumed.next().await), "DELETED b/x", "{expression}");
        resumed.expect_silence().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_evaluates_costly_expressions_in_long_turns_and_ends_above_the_limit() {
    let mut fixture = fixture();
    let list = fixture.get(&format!("{ALL_SHIRTS}?limit=1")).await.json();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    fixture.put_sized("a", "x", "blue", Some(9));
    fixture.put_sized("a", "y", "green", Some(10));
    let costly = "lists.range(self.spec.size * 1000).all(v, v * 2 >= 0 && v * 3 >= 0 && v * 5 >= 0)";
    let path = format!(
        "{ALL_SHIRTS}{}&watch=1&resourceVersion={version}",
        query(&format!("has(self.spec.size) && self.spec.size > 0 && {costly}"))
    );
    let mut watch = fixture.watch(&path).await;
    // In history, and then in the mailbox.
    for expected in ["MODIFIED a/x", "MODIFIED a/y"] {
        assert_eq!(in_short(watch.next().await), expected);
    }
    fixture.put_sized("a", "w", "red", Some(20));
    assert_eq!(in_short(watch.next().await), "ADDED a/w");
    fixture.put_sized("a", "v", "red", Some(10_000));
    let error = watch.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&"ERROR".into(), &400.into()), "{error}");
    let message = error["object"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("celSelector: a/v: the evaluation ") && message.contains("select fewer objects"),
        "{message}"
    );
    watch.expect_end("after the error").await;
    // A list fails for the same object, and so do initial events.
    let path = path
        .replace(&format!("&resourceVersion={version}"), "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let error = fixture.watch(&path).await.next().await.unwrap();
    assert_eq!(error["object"]["code"], 400, "{error}");
}

const VIEW: &str = "/apis/view.fieldcache.dev/v1alpha1/views/window/proxy";

/// Serves a View of the shirts of namespace `a` without their sizes.
fn serve_view(fixture: &Fixture) {
    let part = ViewPart {
        group: "stable.example.com".to_owned(),
        resource: "shirts".to_owned(),
        namespaces: ViewNamespaces::Named(vec!["a".to_owned()]),
        prune: Prune::new([".spec.size"]).unwrap().into(),
        ..ViewPart::default()
    };
    let definition = ViewDefinition { parts: vec![part], ..ViewDefinition::default() };
    fixture.registry.replace_views(BTreeMap::from([("window".to_owned(), Ok(definition.into()))]));
}

/// An expression sees what the View shows. What is hidden changes neither the result nor the warning.
#[tokio::test]
async fn expressions_in_a_view_see_what_it_shows() {
    let mut answers: Vec<Vec<String>> = Vec::new();
    for (size, others) in [(Some(9), 1), (Some(123_456_789), 40), (None, 3)] {
        let mut fixture = fixture();
        fixture.put_sized("a", "x", "blue", size);
        for number in 0..others {
            fixture.put_sized("b", &format!("n{number}"), "blue", Some(number));
        }
        serve_view(&fixture);
        let mut of_this = Vec::new();
        for expression in [
            "self.spec.color == 'blue'",
            "self.spec.size == 9",
            "has(self.spec.size)",
            "self.spec.size == 9 || self.metadata.name == 'y'",
            "!has(self.spec.size) && self.spec.color.size() == 4",
            "self.spec.colour == 'blue'",
            "string(self.spec) == ''",
            "self.metadata.namespace == 'b'",
            "self.spec.all(key, lists.range(9000).all(v, lists.range(9000).all(w, v + w >= 0)))",
        ] {
            for accept in ["application/json", FACETS] {
                let path = format!("{VIEW}{ALL_SHIRTS}{}", query(expression));
                let answer = fixture.get_with(&path, &[("accept", accept)]).await;
                let shown = match accept {
                    FACETS if answer.code.as_u16() == 200 => answer.json()["total"].to_string(),
                    _ if answer.code.as_u16() == 200 => answer.names().join(" "),
                    _ => answer.message(),
                };
                of_this.push(format!("{expression}: {} {shown} {}", answer.code, answer.header("warning")));
            }
        }
        answers.push(of_this);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
    let found = |start: &str| answers[0].iter().find(|line| line.starts_with(start)).unwrap().clone();
    assert!(found("self.spec.color == 'blue'").ends_with("200 OK a/none a/x "), "{:?}", answers[0]);
    assert!(found("self.spec.size == 9:").contains("celSelector failed for 3 of "), "{:?}", answers[0]);
    assert!(found("has(self.spec.size)").ends_with("200 OK  "), "{:?}", answers[0]);
    assert!(found("self.spec.size == 9 ||").contains("200 OK a/y "), "{:?}", answers[0]);
    assert!(found("!has(self.spec.size)").ends_with("200 OK a/none a/x "), "{:?}", answers[0]);
    assert!(found("self.spec.all").contains("400 Bad Request"), "{:?}", answers[0]);
}

#[tokio::test(start_paused = true)]
async fn watches_of_a_view_with_expressions_see_what_it_shows() {
    let mut fixture = fixture();
    serve_view(&fixture);
    let watch_of = |expression: &str| {
        format!(
            "{VIEW}{ALL_SHIRTS}{}&watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            query(expression)
        )
    };
    let mut hidden = fixture.watch(&watch_of("self.spec.size > 0")).await;
    let mut without = fixture.watch(&watch_of("!has(self.spec.size) && self.spec.color == 'green'")).await;
    let mut at_root = fixture
        .watch(&format!(
            "{ALL_SHIRTS}{}&watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            query("!has(self.spec.size) && self.spec.color == 'green'")
        ))
        .await;
    assert_eq!(in_short(without.next().await), "ADDED a/y");
    at_root.expect_silence().await;
    fixture.put_sized("a", "z", "green", Some(5));
    assert_eq!(in_short(without.next().await), "ADDED a/z");
    fixture.put_sized("a", "z", "green", Some(6));
    fixture.put_sized("b", "z", "green", Some(6));
    without.expect_silence().await;
    hidden.expect_silence().await;
    // The same text at the root, where the size is not hidden.
    fixture.put_sized("a", "z", "green", None);
    assert_eq!(in_short(at_root.next().await), "ADDED a/z");
    fixture.put_sized("a", "z", "red", None);
    assert_eq!(in_short(without.next().await), "DELETED a/z");
    assert_eq!(in_short(at_root.next().await), "DELETED a/z");
}

#[tokio::test]
async fn expressions_work_without_managed_fields() {
    let fixture = fixture();
    let path = format!("{ALL_SHIRTS}{}", query("self.spec.size == 9"));
    let dropped = fixture.get_with(&path, &[("accept", "application/json;drop=metadata.managedFields")]).await;
    assert_eq!(dropped.names(), ["a/x"]);
}
