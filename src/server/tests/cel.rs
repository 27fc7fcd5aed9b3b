//! `celSelector` of lists.

use std::collections::BTreeMap;

use super::facets::FACETS;
use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::extract::Prune;
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
        // An object without the member is no match. It is counted if it was evaluated, which the index may make needless.
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
            failed => assert!(
                warning.contains(&format!("celSelector failed for {failed} objects")),
                "{expression}: {warning}"
            ),
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
    assert!(counted.header("warning").contains("failed for 1 objects"), "{}", counted.header("warning"));
    let failing = format!("{ALL_SHIRTS}{}", query("{'a': true}[self.spec.color + '\\r\\n']"));
    let warning = fixture.get(&failing).await.header("warning").to_owned();
    assert!(warning.contains("celSelector failed for 5 objects"), "control characters in an error: {warning}");
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
            "the query parameter celSelector is only supported in lists: use labelSelector and fieldSelector",
        ),
    ] {
        let answer = fixture.get(&format!("{path}{}", query(expression))).await;
        assert_eq!(answer.code.as_u16(), 400, "{expression}");
        assert!(answer.message().starts_with(message), "{expression}: {}", answer.message());
    }
    let watch = fixture.get(&format!("{SHIRTS}{}&watch=1", query("true"))).await;
    assert_eq!(watch.code.as_u16(), 400);
    assert!(watch.message().contains("celSelector is only supported in lists"), "{}", watch.message());
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

/// An expression would read what the View hides.
#[tokio::test]
async fn views_reject_expressions() {
    let fixture = fixture();
    let part = ViewPart {
        group: "stable.example.com".to_owned(),
        resource: "shirts".to_owned(),
        prune: Prune::new([".spec.size"]).unwrap().into(),
        ..ViewPart::default()
    };
    let definition = ViewDefinition { parts: vec![part], ..ViewDefinition::default() };
    fixture.registry.replace_views(BTreeMap::from([("window".to_owned(), Ok(definition.into()))]));
    let view = "/apis/view.fieldcache.dev/v1alpha1/views/window/proxy";
    for accept in ["application/json", FACETS] {
        let path = format!("{view}{ALL_SHIRTS}{}", query("self.spec.size == 9"));
        let answer = fixture.get_with(&path, &[("accept", accept)]).await;
        let expected = (400, "celSelector is not supported in a View: use another selector".to_owned());
        assert_eq!((answer.code.as_u16(), answer.message()), expected, "{accept}");
    }
    // Without managed fields, but outside of a View.
    let path = format!("{ALL_SHIRTS}{}", query("self.spec.size == 9"));
    let dropped = fixture.get_with(&path, &[("accept", "application/json;drop=metadata.managedFields")]).await;
    assert_eq!(dropped.names(), ["a/x"]);
}
