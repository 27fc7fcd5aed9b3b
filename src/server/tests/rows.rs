//! Rows of tables: written in parts, the same text as at once, with bounded work.

use std::sync::Arc;

use allocation_counter::measure;
use bytes::Bytes;
use jiff::Timestamp;
use proptest::prelude::{ProptestConfig, any};
use proptest::{collection, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};

use super::{Fixture, SHIRTS, catalog, custom, pods};
use crate::crd::PrinterColumn;
use crate::json::cursor::bytes_read;
use crate::model::{Gvr, Scope, Version};
use crate::registry::Resource;
use crate::store::{HistoryLimits, Object, Store};
use crate::wire::column::MOST_VALUES;
use crate::wire::encode::{CHUNK, LONG, ListMeta, Shown, Unfinished as _, json_bytes};
use crate::wire::negotiate::Format;
use crate::wire::row::{JsonRow, Row};
use crate::wire::table;
use crate::wire::table::{Columns, Include, MOST_IN_EVENT};
use crate::wire::yaml;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// A resource whose columns show these paths.
fn wide<'p>(paths: impl IntoIterator<Item = &'p str>) -> Resource {
    let column = |path: &str| PrinterColumn {
        name: "c".to_owned(),
        kind: "string".to_owned(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        json_path: path.to_owned(),
    };
    Resource {
        printer_columns: paths.into_iter().map(column).collect(),
        ..custom("shirts", "Shirt", Scope::Namespaced, true)
    }
}

fn shirt(name: &str, spec: &Value) -> String {
    format!(
        "{{\"apiVersion\":\"stable.example.com/v1\",\"kind\":\"Shirt\",\"metadata\":{{\"name\":\"{name}\",\
         \"namespace\":\"default\",\"resourceVersion\":\"101\"}},\"spec\":{spec}}}"
    )
}

fn stored(resource: &Resource, text: String) -> Object {
    let mut store = Store::new(HistoryLimits::default());
    store.apply(&resource.extractor.extract(Bytes::from(text)).unwrap());
    let key = if resource.kind == "Pod" { "n/p" } else { "default/x" };
    store.snapshot().get(key).unwrap().clone()
}

fn meta() -> ListMeta {
    ListMeta { version: Version::new(9), continue_token: String::new(), remaining: None, shard: None }
}

/// The pieces of a table.
fn pieces(resource: &Resource, include: Include, objects: Vec<Object>, format: Format) -> Vec<Bytes> {
    let columns = Arc::new(Columns::new(resource, "v1", include));
    table::pieces(
        &columns,
        columns.envelope(&meta()),
        objects.into_iter(),
        Box::new(Some),
        format,
        Timestamp::UNIX_EPOCH,
    )
    .collect()
}

#[test]
fn a_long_row_is_written_in_short_pieces() {
    const COLUMNS: usize = 12;
    const LONGEST: usize = CHUNK + LONG + 16;
    let resource = wide([".spec.text", ".spec.list", ".spec.small"].into_iter().cycle().take(COLUMNS));
    let text = "<x>".repeat(30_000);
    let object = stored(&resource, shirt("x", &json!({"list": [{"a": text}], "small": 1, "text": text})));
    for include in [Include::None, Include::Metadata, Include::Object] {
        let pieces = pieces(&resource, include, vec![object.clone(), object.clone()], Format::Json);
        let longest = pieces.iter().map(Bytes::len).max().unwrap();
        assert!(longest <= LONGEST, "{include:?}: a piece of {longest} bytes");
        let table: Value = serde_json::from_slice(&pieces.concat()).unwrap();
        let list = format!("[{{\"a\":\"{}\"}}]", "\\u003cx\\u003e".repeat(30_000));
        for row in [&table["rows"][0], &table["rows"][1]] {
            let cells = row["cells"].as_array().unwrap();
            assert_eq!(cells.len(), COLUMNS + 1, "{include:?}");
            assert_eq!(cells[0], "x", "{include:?}");
            for cells in cells[1..].chunks(3) {
                assert!(cells[0] == *text && cells[1] == *list && cells[2] == "1", "{include:?}");
            }
            assert_eq!(row["object"].is_null(), include == Include::None);
        }
    }
}

/// Each value takes 20 bytes while the row is made, and only aggregated APIs have objects with so many.
#[test]
fn cells_of_an_object_with_very_many_values_are_empty() {
    let resource = wide([".spec.small", ".spec.list"]);
    for (values, expected) in [(MOST_VALUES - 100, json!("1")), (MOST_VALUES, Value::Null)] {
        let object = stored(&resource, shirt("x", &json!({"list": vec![0; values], "small": 1})));
        let pieces = pieces(&resource, Include::None, vec![object], Format::Json);
        let table: Value = serde_json::from_slice(&pieces.concat()).unwrap();
        let cells = &table["rows"][0]["cells"];
        assert_eq!((&cells[0], &cells[1]), (&json!("x"), &expected), "{values} values");
        assert_eq!(cells[2].is_null(), expected.is_null(), "{values} values");
    }
}

#[test]
fn a_large_definition_is_written_in_short_pieces() {
    let resource = wide(std::iter::repeat_n(".spec.small", 3_000));
    let pieces = pieces(&resource, Include::None, Vec::new(), Format::Json);
    assert!(pieces.iter().all(|piece| piece.len() <= 2 * CHUNK), "{}", pieces.len());
    let table: Value = serde_json::from_slice(&pieces.concat()).unwrap();
    assert_eq!(table["columnDefinitions"].as_array().unwrap().len(), 3_001);
}

#[test]
fn an_object_is_read_once_for_all_columns() {
    let paths: Vec<String> = (0..1_500).map(|number| format!(".spec.k{number}")).collect();
    let resource = wide(paths.iter().map(|path| &**path));
    let object = stored(&resource, shirt("x", &json!({"k7": 7, "text": "x".repeat(500_000)})));
    let columns = Arc::new(Columns::new(&resource, "v1", Include::None));
    let mut out = Vec::new();
    let (is_done, read) = bytes_read(|| {
        let mut row = JsonRow::new(Row::new(&columns, Shown::as_is(&object), Timestamp::UNIX_EPOCH));
        row.fill(usize::MAX, &mut out)
    });
    assert!(is_done && read < 2 * object.length(), "{read} bytes read of {}", object.length());
}

/// Peak memory for each byte of an object while a row of it is made. A list of numbers of one digit has most: a node for two bytes.
const MOST_MEMORY: u64 = 12;

/// The same where a column is about all elements of a list.
const MOST_MEMORY_OF_ELEMENTS: u64 = 20;

/// A list of about 1.5 MB.
fn list_of(item: &str) -> String {
    format!("[{}]", vec![item; 1_500_000 / (item.len() + 1)].join(","))
}

#[test]
fn a_row_takes_a_small_multiple_of_its_object_in_memory() {
    let of_built_in = |group: &str, plural: &str| Resource { gvr: Gvr::new(group, "v1", plural), ..pods() };
    let metadata = "\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"resourceVersion\":\"7\"}";
    let members: Vec<String> = (0..130_000).map(|number| format!("\"k{number:06}\":\"\"")).collect();
    let members = format!("{{{}}}", members.join(","));
    let mut rows = vec![
        (of_built_in("", "configmaps"), format!("{{{metadata},\"data\":{members}}}"), "counted members".to_owned()),
        (
            of_built_in("", "pods"),
            format!("{{{metadata},\"spec\":{{\"nodeSelector\":{members}}}}}"),
            "other members".to_owned(),
        ),
    ];
    let list = |item: &str| format!("[{}]", vec![item; 2_000].join(","));
    let (addresses, ports) = (list("{\"ip\":\"10.0.0.1\"}"), list("{\"port\":80}"));
    rows.push((
        of_built_in("", "endpoints"),
        format!("{{{metadata},\"subsets\":[{{\"addresses\":{addresses},\"ports\":{ports}}}]}}"),
        "each address with each port".to_owned(),
    ));
    for item in ["{\"\":0}", "{}", "[]", "0", "\"\"", "{\"\":{\"\":{}}}"] {
        let list = list_of(item);
        let mut row = |resource: Resource, members: String, what: &str| {
            rows.push((resource, format!("{{{metadata},{members}}}"), format!("{what} of {item}")));
        };
        row(wide([".spec.x", ".status.phase"]), format!("\"spec\":{{\"list\":{list}}}"), "a list that no column shows");
        row(
            wide([".status.conditions[?(@.type==\"Ready\")].status"]),
            format!("\"status\":{{\"conditions\":{list}}}"),
            "a list that is searched",
        );
        row(wide([".spec.list[*].x"]), format!("\"spec\":{{\"list\":{list}}}"), "elements");
        row(of_built_in("apps", "controllerrevisions"), format!("\"data\":{list},\"revision\":1"), "data");
        row(of_built_in("", "pods"), format!("\"status\":{{\"containerStatuses\":{list}}}"), "container statuses");
        row(of_built_in("networking.k8s.io", "ingresses"), format!("\"spec\":{{\"rules\":{list}}}"), "rules");
    }
    let mut wrong = Vec::new();
    for (resource, text, what) in rows {
        let length = text.len() as u64;
        let mut store = Store::new(HistoryLimits::default());
        store.apply(&resource.extractor.extract(Bytes::from(text)).unwrap());
        let object = store.snapshot().get("n/p").unwrap().clone();
        let columns = Arc::new(Columns::new(&resource, "v1", Include::None));
        let mut out = Vec::with_capacity(CHUNK);
        let measured = measure(|| {
            let mut row = JsonRow::new(Row::new(&columns, Shown::as_is(&object), Timestamp::UNIX_EPOCH));
            row.fill(usize::MAX, &mut out);
        });
        let kind = &resource.gvr.resource;
        let times = measured.bytes_max.div_ceil(length);
        let is_about_elements = resource.printer_columns.iter().any(|column| column.json_path.contains("[*]"));
        if times > if is_about_elements { MOST_MEMORY_OF_ELEMENTS } else { MOST_MEMORY } {
            wrong.push(format!("{kind}: {what}: {times} times its {length} bytes"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_same_long_value_is_printed_once_for_columns_side_by_side() {
    let resource = wide(std::iter::repeat_n(".spec.list", 20));
    let object = stored(&resource, shirt("x", &json!({"list": vec![json!({"a": 1}); 20_000]})));
    let columns = Arc::new(Columns::new(&resource, "v1", Include::None));
    let mut out = Vec::new();
    let ((), read) = bytes_read(|| {
        let mut row = JsonRow::new(Row::new(&columns, Shown::as_is(&object), Timestamp::UNIX_EPOCH));
        while !row.fill(usize::MAX, &mut out) {}
    });
    assert!(read < 3 * object.length(), "{read} bytes read of {}", object.length());
}

#[test]
fn a_piece_is_the_work_of_few_objects() {
    let resource = wide([".spec.nothing"]);
    let object = stored(&resource, shirt("x", &json!({"text": "x".repeat(400_000)})));
    let pieces = pieces(&resource, Include::None, vec![object; 12], Format::Json);
    assert!(pieces.len() >= 4, "{} pieces", pieces.len());
}

#[test]
fn paths_beyond_a_bound_are_not_read() {
    let long = format!(".spec.text{}", "[*]".repeat(30_000));
    let paths = [".spec.text", &long, ".spec.text", &long, ".spec.text"];
    let resource = wide(paths);
    let object = stored(&resource, shirt("x", &json!({"text": "t"})));
    let table: Value =
        serde_json::from_slice(&pieces(&resource, Include::None, vec![object], Format::Json).concat()).unwrap();
    assert_eq!(table["rows"][0]["cells"], json!(["x", "t", null, "t", null, null]));
    assert_eq!(table["columnDefinitions"].as_array().unwrap().len(), 6, "the columns are there");
}

#[tokio::test(start_paused = true)]
async fn an_event_with_a_longer_row_ends_the_watch() {
    let mut fixture = Fixture::new();
    let columns = MOST_IN_EVENT / 1_000_000 + 2;
    fixture.shirts.resource = Arc::new(wide(std::iter::repeat_n(".spec.text", columns)));
    fixture.registry.replace(catalog(&[&fixture.shirts, &fixture.hats, &fixture.pods]), |_| None);
    let put = |fixture: &mut Fixture, length: usize| {
        let version = fixture.next_version();
        let text = shirt("x", &json!({"text": "x".repeat(length)})).replace("\"101\"", &format!("\"{version}\""));
        let record = fixture.shirts.resource.extractor.extract(Bytes::from(text)).unwrap();
        fixture.shirts.store.apply(&record);
        fixture.shirts.publish();
    };
    put(&mut fixture, 10);
    for include in ["Metadata", "Object"] {
        let path = format!("{SHIRTS}?watch=1&includeObject={include}");
        let mut watched = fixture.watch_with(&path, &[("accept", TABLE)]).await;
        let first = watched.next().await.unwrap();
        assert_eq!((&first["type"], &first["object"]["kind"]), (&json!("ADDED"), &json!("Table")), "{include}");
        put(&mut fixture, 1_000_000);
        for (mut watched, why) in
            [(watched, "a change"), (fixture.watch_with(&path, &[("accept", TABLE)]).await, "an initial event")]
        {
            let event = watched.next().await.unwrap();
            let status = &event["object"];
            assert_eq!((&event["type"], &status["code"]), (&json!("ERROR"), &json!(413)), "{include}: {why}");
            let message = status["message"].as_str().unwrap();
            assert!(message.contains("\"default/x\"") && message.contains("without as=Table"), "{message}");
            watched.expect_end(why).await;
        }
        put(&mut fixture, 10);
    }
}

#[test]
fn a_row_of_a_built_in_kind_has_kind_and_version_in_its_object() {
    let resource = pods();
    let text = "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"resourceVersion\":\"7\"},\"status\":{\"phase\":\"Failed\"}}";
    let object = stored(&resource, text.to_owned());
    for format in [Format::Json, Format::Yaml] {
        let text = pieces(&resource, Include::Object, vec![object.clone()], format).concat();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("Completed") || !text.contains("conditions"), "{text}");
        assert!(
            text.contains("\"object\":{\"kind\":\"Pod\",") || text.contains("object:\n    apiVersion: v1\n"),
            "{text}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_table_in_parts_is_the_table_at_once(
        texts in collection::vec(any::<String>(), 0..4),
        repeat in 1_usize..600,
        most in 100_usize..20_000,
        nothing in any::<bool>(),
    ) {
        let resource = wide([".spec.texts[0]", ".spec.texts", ".spec", ".metadata", ".spec.none", ".spec.texts[-1]"]);
        let texts: Vec<String> = texts.iter().map(|text| text.repeat(repeat)).collect();
        let spec = json!({ "texts": texts });
        let object = stored(&resource, shirt("x", &spec));
        let include = if nothing { Include::None } else { Include::Object };
        let columns = Arc::new(Columns::new(&resource, "v1", include));
        let row = || JsonRow::new(Row::new(&columns, Shown::as_is(&object), Timestamp::UNIX_EPOCH));
        let (mut whole, mut at_once) = (Vec::new(), row());
        while !at_once.fill(usize::MAX, &mut whole) {}
        let (mut parts, mut row) = (Vec::new(), row());
        loop {
            let mut part = Vec::new();
            let is_done = row.fill(most, &mut part);
            // A sign that this source has not escaped takes seven bytes in a text within a text.
            prop_assert!(part.len() <= most + 7 * LONG + 16);
            parts.extend(part);
            if is_done { break }
        }
        prop_assert_eq!(&parts, &whole);
        // What a naive reader shows.
        let read: Value = serde_json::from_slice(&whole).unwrap();
        let print = |value: &Value| String::from_utf8(json_bytes(value)).unwrap();
        let cells = json!([
            "x", texts.first(), print(&spec["texts"]), print(&spec),
            "{\"name\":\"x\",\"namespace\":\"default\",\"resourceVersion\":\"101\"}", null, texts.last(),
        ]);
        prop_assert_eq!(&read["cells"], &cells);
        let json = pieces(&resource, include, vec![object.clone(), object.clone()], Format::Json).concat();
        let yaml = pieces(&resource, include, vec![object.clone(), object], Format::Yaml).concat();
        prop_assert_eq!(String::from_utf8(yaml).unwrap(), String::from_utf8(yaml::from_json(&json)).unwrap());
    }
}
