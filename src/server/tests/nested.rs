//! Objects that nest as deep as an API server stores, in every form of a response.

use bytes::Bytes;
use proptest::prelude::{Just, Strategy, any, prop};
use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Map, Value, json};

use super::placement_review::REVIEWS;
use super::{Fixture, SHIRTS};
use crate::manifest::yaml::{Syntax, documents};
use crate::placement::{Node, Pod};
use crate::wire::column::{ColumnKind, write_cell};
use crate::wire::encode::json_bytes;
use crate::wire::indent::DEEPEST;
use crate::wire::yaml;
use fieldcache_testing::nested::{self, MAX_LEVELS, Nested, Nesting, on_worker_stack};

/// Runs a request on a thread with the stack of a worker.
fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> T {
    on_worker_stack(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future))
}

#[test]
fn nested_objects_are_served_in_every_form() {
    for shape in [Nesting::Lists, Nesting::Maps, Nesting::Mixed(vec![true, false])] {
        for depth in [100, 124, 125, 126, 127, 128, 1000, MAX_LEVELS - 1] {
            let why = format!("{shape:?} {depth}");
            let mut fixture = block_on(async { Fixture::new() });
            let nested = Nested::new(depth, shape.clone()).text();
            let object = format!(
                "{{\"apiVersion\":\"stable.example.com/v1\",\"kind\":\"Shirt\",\"metadata\":{{\"name\":\"x\",\
                 \"namespace\":\"default\",\"resourceVersion\":\"101\"}},\"spec\":{{\"color\":\"blue\"}},\"status\":{nested}}}"
            );
            let plan = fixture.shirts.resource.extractor.clone();
            let record = on_worker_stack(|| plan.extract(Bytes::from(object.clone()))).unwrap();
            fixture.shirts.store.apply(&record);
            fixture.shirts.publish();
            let single = format!("{SHIRTS}/x");
            let get = |path: &str, accept: &str| block_on(fixture.get_with(path, &[("accept", accept)]));

            assert!(get(&single, "application/json").body == format!("{object}\n"), "{why}: JSON");
            assert!(get(SHIRTS, "application/json").body.contains(&object), "{why}: a list in JSON");

            let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
            for path in [&*single, SHIRTS] {
                let table: Value = serde_json::from_str(&get(path, table).body).unwrap();
                assert_eq!(table["rows"][0]["cells"], json!(["x", "blue", null, null]), "{why}: a table of {path}");
            }
            for path in [&*single, SHIRTS] {
                let yaml = get(path, "application/yaml");
                assert_eq!(yaml.header("content-type"), "application/yaml", "{why}");
                assert!(yaml.body.starts_with("apiVersion: "), "{why}: {path} is not YAML: {:.80}", yaml.body);
                assert!(yaml.body.len() < 20 * object.len() + 64 * 1024, "{why}: {} bytes of YAML", yaml.body.len());
            }
        }
    }
}

#[test]
fn cells_of_nested_values_fit_the_stack_of_a_worker() {
    for shape in [Nesting::Lists, Nesting::Maps, Nesting::Mixed(vec![true, false])] {
        let json = Nested::new(MAX_LEVELS, shape.clone()).text();
        let is_whole = on_worker_stack(|| {
            let mut written = Vec::new();
            write_cell(ColumnKind::String, json.as_bytes(), jiff::Timestamp::UNIX_EPOCH, &mut written);
            written == json_bytes(&json!(json))
        });
        assert!(is_whole, "{shape:?}");
    }
}

#[test]
fn nested_bodies_are_rejected() {
    for shape in [Nesting::Lists, Nesting::Maps, Nesting::Mixed(vec![true, false])] {
        for depth in [128, 1000, MAX_LEVELS, 100_000] {
            let nested = Nested::new(depth, shape.clone()).text();
            for kind in ["application/json", "application/yaml"] {
                let review = "\"apiVersion\":\"view.fieldcache.dev/v1alpha1\",\"kind\":\"PlacementReview\"";
                let body = format!("{{{review},\"spec\":{{\"pod\":{{\"spec\":{nested}}}}}}}");
                let fixture = block_on(async { Fixture::new() });
                let request =
                    http::Request::post(REVIEWS).header("host", "127.0.0.1:8181").header("content-type", kind);
                let answer = block_on(fixture.server.answer(request.body(body).unwrap()));
                assert!(answer.status().is_client_error(), "{shape:?} {depth} {kind}: {}", answer.status());
            }
        }
    }
}

#[test]
fn pods_and_nodes_are_read_whatever_nests_beside_their_fields() {
    for shape in [Nesting::Lists, Nesting::Maps] {
        for depth in [128, 1000, MAX_LEVELS - 2] {
            let nested = Nested::new(depth, shape.clone()).text();
            let object = format!(
                "{{\"metadata\":{{\"name\":\"x\",\"namespace\":\"n\",\"managedFields\":{nested}}},\"spec\":{{\"novelty\":{nested}}},\"novelty\":{nested}}}"
            );
            let read =
                on_worker_stack(|| (Pod::read(object.as_bytes()).is_ok(), Node::read(object.as_bytes()).is_ok()));
            assert_eq!(read, (true, true), "{shape:?} {depth}");
        }
    }
}

/// Reads YAML of one value in many containers, and writes it as JSON. Only the innermost line can be in flow style.
fn chain(yaml: &str) -> String {
    let (mut opening, mut closing, mut innermost) = (String::new(), Vec::new(), "");
    for line in yaml.lines() {
        let mut rest = line.trim_start_matches(' ');
        while let Some(item) = rest.strip_prefix("- ") {
            opening.push('[');
            closing.push("]");
            rest = item.trim_start_matches(' ');
        }
        if let Some(value) = rest.strip_prefix("a:") {
            opening.push_str("{\"a\":");
            closing.push("}");
            rest = value.trim_start_matches(' ');
        }
        innermost = rest;
    }
    closing.reverse();
    format!("{opening}{}{}", innermost.replace(": ", ":"), closing.concat())
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,4}",
        "[ -~]{0,12}",
        "[a-c:#'\"\\- \n]{0,12}",
        any::<String>(),
        prop::sample::select(vec![
            "\u{85}",
            "a\u{7f}b",
            "\u{feff}x",
            "a\u{2028}b",
            "\u{80}",
            "😀",
            "~",
            "null",
            "1e3",
            "x\n y\n\n"
        ])
        .prop_map(str::to_owned),
        "[a-z]{2000}",
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        texts().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inside| {
        prop_oneof![
            prop::collection::vec(inside.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(texts(), inside, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn yaml_of_nested_values_is_the_same_value(nested in nested::values(MAX_LEVELS, &["a"])) {
        let nested = Nested { sibling_every: 0, leaf: "1", ..nested };
        let json = nested.text();
        let yaml = on_worker_stack(|| yaml::from_json(json.as_bytes()));
        let yaml = String::from_utf8(yaml).unwrap();
        prop_assert!(!yaml.starts_with(['{', '[']), "the outer levels are in block style");
        prop_assert!(chain(&yaml) == json, "{:?}", nested);
        prop_assert!(yaml.len() <= 12 * json.len() + 64 * 1024, "{} of {}", yaml.len(), json.len());
    }

    #[test]
    fn yaml_is_bounded_however_wide_the_inside_is(nested in nested::values(400, &["a"]), width in 1..5000usize) {
        let leaf: String = format!("[{}1]", "1,".repeat(width));
        let json = Nested { sibling_every: 0, leaf: "L", ..nested }.text().replace('L', &leaf);
        let yaml = on_worker_stack(|| yaml::from_json(json.as_bytes()));
        prop_assert!(yaml.len() <= (2 * DEEPEST + 4) * json.len(), "{} of {}", yaml.len(), json.len());
    }

    #[test]
    fn yaml_reads_back(value in values(), is_deep in any::<bool>()) {
        let value = if is_deep { (0..60).fold(json!([value, "s"]), |value, _| json!([value])) } else { value };
        let json = json!({"kind": "K", "value": value}).to_string();
        let yaml = yaml::from_json(json.as_bytes());
        let (found, broken) = documents(&yaml, Syntax::Yaml);
        prop_assert!(broken.is_empty(), "{:?} in {}", broken, String::from_utf8_lossy(&yaml));
        prop_assert_eq!(&found[0].value, &serde_json::from_str::<Value>(&json).unwrap(), "{}", String::from_utf8_lossy(&yaml));
        let mut flow = b"kind: K\nvalue: ".to_vec();
        crate::yaml::kubectl::write_flow(value.to_string().as_bytes(), &mut flow);
        if value.is_object() || value.is_array() {
            let (found, broken) = documents(&flow, Syntax::Yaml);
            prop_assert!(broken.is_empty(), "{:?} in {}", broken, String::from_utf8_lossy(&flow));
            prop_assert_eq!(&found[0].value["value"], &value, "{}", String::from_utf8_lossy(&flow));
        }
    }
}
