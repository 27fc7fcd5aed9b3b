//! `?explain=true`: the header beside an unchanged body, on every kind of answer.

use http::{Method, Response};
use serde_json::{Value, json};

use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::query::{Explanation, PlanStep};
use crate::server::{Settings, explain};
use crate::wire::body::Body;

/// One object's JSON in the fixture of nine shirts: names of one letter more or less, numbers of three digits.
fn bytes_of(fixture: &Fixture, keys: &[&str]) -> u64 {
    let snapshot = fixture.shirts.store.snapshot();
    keys.iter().map(|key| snapshot.get(key).unwrap().length() as u64).sum()
}

#[tokio::test]
async fn the_header_has_the_plan_and_the_body_is_the_same() {
    let fixture = Fixture::with_shirts(Settings::default());
    let everything = fixture.shirts.store.snapshot().json_bytes();
    let green = bytes_of(&fixture, &["a/x-y", "a-b/x-y", "ab/x-y"]);
    let one = bytes_of(&fixture, &["a/x"]);
    for (path, query, expected, why) in [
        (
            ALL_SHIRTS,
            "fieldSelector=spec.color%3Dgreen",
            json!({"plan": "spec.color=green (3)", "path": "index", "candidates": 3, "hits": 3, "bytes": green}),
            "a field",
        ),
        (
            ALL_SHIRTS,
            "fieldSelector=spec.color%3Dpink",
            json!({"plan": "spec.color=pink (0)", "path": "index", "candidates": 0, "hits": 0, "bytes": 0}),
            "nothing found",
        ),
        (
            ALL_SHIRTS,
            "labelSelector=tone%21%3Dblue%2Ctone",
            json!({"plan": "tone (9) & tone!=blue (less 6)", "path": "index", "candidates": 9, "hits": 3, "bytes": green}),
            "labels",
        ),
        (
            ALL_SHIRTS,
            "",
            json!({"plan": "everything", "path": "scan", "candidates": 9, "hits": 9, "bytes": everything}),
            "everything",
        ),
        (
            "/apis/stable.example.com/v1/namespaces/a/shirts",
            "",
            json!({"plan": "metadata.namespace=a (3)", "path": "index", "candidates": 3, "hits": 3}),
            "a namespace, whose bytes have not been added up",
        ),
        (
            ALL_SHIRTS,
            "fieldSelector=spec.color%3Dgreen&limit=1",
            json!({"plan": "spec.color=green (3)", "path": "index", "candidates": 3, "hits": 3, "bytes": green}),
            "all hits, whatever the page",
        ),
        (
            ALL_SHIRTS,
            "fieldSelector=spec.color%3Dgr%C3%BCn",
            json!({"plan": "spec.color=grün (0)", "path": "index", "candidates": 0, "hits": 0, "bytes": 0}),
            "text beyond ASCII",
        ),
        (
            "/apis/stable.example.com/v1/namespaces/a/shirts/x",
            "",
            json!({"plan": "name a/x (1)", "path": "index", "candidates": 1, "hits": 1, "bytes": one}),
            "one object",
        ),
    ] {
        let plain = fixture.get(&format!("{path}?{query}")).await;
        assert!(!plain.headers.contains_key("fieldcache-explain"), "{why}: not requested");
        for (value, is_asked) in [("true", true), ("1", true), ("", true), ("false", false), ("0", false)] {
            let answer = fixture.get(&format!("{path}?explain={value}&{query}")).await;
            assert_eq!(answer.code, 200, "{why}");
            assert_eq!(answer.body, plain.body, "{why}: the body is what it is without");
            let name = |answer: &super::Answer| -> Vec<String> {
                let names = answer.headers.keys().map(|name| name.as_str().to_owned());
                names.filter(|name| name != "fieldcache-explain").collect()
            };
            assert_eq!(name(&answer), name(&plain), "{why}: so are the other headers");
            if is_asked {
                assert_eq!(answer.explanation(), expected, "{why}");
            } else {
                assert!(!answer.headers.contains_key("fieldcache-explain"), "{why}: explain={value}");
            }
        }
    }
    let refused = fixture.get(&format!("{ALL_SHIRTS}?fieldSelector=spec.none%3Dx&explain=true")).await;
    assert_eq!((refused.code.as_u16(), refused.header("fieldcache-explain")), (400, ""), "nothing was planned");
}

#[tokio::test]
async fn a_watch_explains_its_initial_events() {
    let fixture = Fixture::with_shirts(Settings::default());
    let green = bytes_of(&fixture, &["a/x-y", "a-b/x-y", "ab/x-y"]);
    let expected = json!({"plan": "spec.color=green (3)", "path": "index", "candidates": 3, "hits": 3, "bytes": green});
    for (query, is_explained, why) in [
        ("", true, "from the state as it is"),
        ("&resourceVersion=0", true, "from any state"),
        (
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=105",
            true,
            "a state that is there",
        ),
        ("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999", false, "a state to wait for"),
        ("&resourceVersion=105", false, "no initial events"),
    ] {
        let path = format!("{ALL_SHIRTS}?watch=1&explain=true&fieldSelector=spec.color%3Dgreen{query}");
        let response = fixture.send(Method::GET, &path, &[]).await;
        assert_eq!(response.status(), 200, "{why}");
        let header = response.headers().get("fieldcache-explain").map(|value| value.to_str().unwrap().to_owned());
        let explanation = header.map(|text| {
            let mut explanation: Value = serde_json::from_str(&text).unwrap();
            let tree = explanation.as_object_mut().unwrap().remove("tree");
            assert_eq!(tree, Some(json!({"step": "spec.color=green", "finds": 3, "left": 3})), "{why}");
            explanation
        });
        assert_eq!(
            explanation,
            is_explained.then(|| expected.clone()),
            "{why}: no time, since nothing has been collected yet"
        );
    }
}

#[tokio::test]
async fn a_page_of_the_past_explains_the_past() {
    let mut fixture = Fixture::new();
    let version = fixture.put("default", "x", "blue");
    fixture.put("default", "y", "blue");
    let path = format!("{SHIRTS}?resourceVersion={version}&resourceVersionMatch=Exact&fieldSelector=spec.color%3Dblue");
    let answer = fixture.get(&format!("{path}&explain=true")).await;
    assert_eq!(answer.names(), ["default/x"]);
    let explanation = answer.explanation();
    assert_eq!((&explanation["hits"], explanation.get("bytes")), (&json!(1), None), "{explanation}");
}

#[tokio::test]
async fn the_tree_has_each_step_of_a_query() {
    let fixture = Fixture::with_shirts(Settings::default());
    let shown = |step: &str, finds: u64, left: u64| json!({"step": step, "finds": finds, "left": left});
    let green = shown("spec.color=green", 3, 3);
    let cel = "self.spec.color == 'green' && self.metadata.name.size() == 3";
    let encoded = "self.spec.color%20%3D%3D%20%27green%27%20%26%26%20self.metadata.name.size()%20%3D%3D%203";
    for (query, accept, expected, why) in [
        ("", "", shown("everything", 9, 9), "a list"),
        ("fieldSelector=spec.color%3Dgreen", "", green.clone(), "a field"),
        (
            "fieldSelector=spec.color%3Dgreen&labelSelector=tone%3Dblue",
            "",
            json!({"step": "all of", "left": 0, "steps": [
                green,
                {"step": "test of objects", "tests": 3, "left": 0, "steps": [{"step": "tone=blue", "finds": 6}]},
            ]}),
            "a field and a label",
        ),
        (
            "fieldSelector=spec.color%3Dgreen&sortBy=-metadata.name",
            "",
            json!({"step": "sort by -metadata.name", "left": 3, "steps": [green]}),
            "a sorted list",
        ),
        (
            "facets=spec.color&fieldSelector=spec.color%3Dgreen",
            "application/json;as=Facets;v=v1alpha1;g=view.fieldcache.dev",
            json!({"step": "count the values of spec.color", "left": 3, "steps": [green]}),
            "facets",
        ),
        (
            &*format!("celSelector={encoded}"),
            "",
            json!({"step": "all of", "left": 3, "steps": [shown("everything", 9, 9), {
                "step": format!("celSelector={cel}"), "left": 3, "steps": [
                    {"step": "candidates by the index", "left": 3, "steps": [green]},
                    {"step": "evaluation", "evaluates": 3, "failed": 0, "left": 3},
                ],
            }]}),
            "an expression of which the index knows a part",
        ),
    ] {
        let path = format!("{ALL_SHIRTS}?explain=true&{query}");
        let answer = match accept {
            "" => fixture.get(&path).await,
            accept => fixture.get_with(&path, &[("accept", accept)]).await,
        };
        assert_eq!(answer.code, 200, "{why}: {}", answer.body);
        assert_eq!(answer.plan_tree(), expected, "{why}");
    }
}

#[test]
fn a_long_tree_lacks_steps_and_counts_them() {
    let leaf = |text: &str| PlanStep { text: text.to_owned(), estimate: None, left: None, inner: Vec::new() };
    for (count, whole) in [(10, true), (100, false)] {
        let inner: Vec<PlanStep> = (0..count).map(|index| leaf(&format!("{index:0100}"))).collect();
        let tree = PlanStep { inner, ..leaf("all of") };
        let explanation = Explanation { tree, ..Explanation::one_object("a/x", None, None) };
        let mut response = Response::new(Body::empty());
        explain::add_explain_header(&mut response, &explanation, None);
        let header = response.headers().get("fieldcache-explain").unwrap().to_str().unwrap();
        let tree = serde_json::from_str::<Value>(header).unwrap()["tree"].take();
        let shown = tree["steps"].as_array().unwrap().len();
        let omitted = tree["omitted"].as_u64().unwrap_or_default() as usize;
        assert_eq!((shown + omitted, omitted == 0), (count, whole), "{tree}");
        assert!(header.len() < 4096, "{}", header.len());
    }
}

#[test]
fn long_plans_are_cut_between_letters() {
    let explanation = |plan: String| {
        let explanation = Explanation { plan, ..Explanation::one_object("a/x", None, None) };
        let mut response = Response::new(Body::empty());
        explain::add_explain_header(&mut response, &explanation, None);
        let header = response.headers().get("fieldcache-explain").unwrap().to_str().unwrap().to_owned();
        serde_json::from_str::<Value>(&header).unwrap()["plan"].as_str().unwrap().to_owned()
    };
    assert_eq!(explanation("p".repeat(2048)), "p".repeat(2048), "the longest that is whole");
    assert_eq!(explanation("p".repeat(2049)), format!("{}...", "p".repeat(2048)), "one longer");
    assert_eq!(explanation(format!("p{}", "ü".repeat(2048))), format!("p{}...", "ü".repeat(1023)), "no half letter");
    let awkward = "\"quoted\" \\ new\nline \u{7f} 💡";
    assert_eq!(explanation(awkward.to_owned()), awkward, "whatever a value holds");
}
