//! Media types, Tables, PartialObjectMetadata, cells.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ALL_SHIRTS, Fixture, SHIRTS, pods};
use crate::crd::PrinterColumn;
use crate::model::{Gvr, Version};
use crate::registry::Resource;
use crate::server::Settings;
use crate::store::{HistoryLimits, Store};
use crate::wire::column::{ColumnKind, cell, write_cell};
use crate::wire::encode::{ListMeta, Shown, Unfinished as _, json_bytes};
use crate::wire::row::{JsonRow, Row};
use crate::wire::table::{Columns, Include};

const KUBECTL: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
    application/json";

const PODS: &str = "/api/v1/namespaces/a/pods";

#[tokio::test]
async fn media_types_are_agreed_on() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    let object = format!("{SHIRTS}/x");
    for (accept, path, code, kind, why) in [
        ("", SHIRTS, 200, "ShirtList", "none"),
        ("*/*", SHIRTS, 200, "ShirtList", "anything"),
        ("application/*", SHIRTS, 200, "ShirtList", "any application"),
        ("application/json;charset=utf-8", SHIRTS, 200, "ShirtList", "an ignored parameter"),
        ("application/vnd.kubernetes.protobuf, */*", SHIRTS, 200, "ShirtList", "controller-runtime"),
        ("application/json;stream=watch", SHIRTS, 200, "ShirtList", "the stream of watches"),
        ("application/json;stream=other", SHIRTS, 406, "Status", "another stream"),
        ("text/html", SHIRTS, 406, "Status", "a browser's only wish"),
        (KUBECTL, SHIRTS, 200, "Table", "kubectl"),
        (KUBECTL, &*object, 200, "Table", "kubectl, single"),
        (
            "application/json;as=Table;v=v1;g=other,application/json",
            SHIRTS,
            200,
            "ShirtList",
            "a foreign form falls through",
        ),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", SHIRTS, 406, "Status", "an unknown version"),
        ("application/json;q=0.1,application/json;as=Table;v=v1;g=meta.k8s.io", SHIRTS, 200, "Table", "by quality"),
        (
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            SHIRTS,
            200,
            "PartialObjectMetadataList",
            "metadata",
        ),
        (
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            &*object,
            200,
            "PartialObjectMetadata",
            "single",
        ),
        ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", SHIRTS, 406, "Status", "the wrong form"),
        (
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            &*object,
            500,
            "Status",
            "the wrong form, single",
        ),
        ("application/json;g=meta.k8s.io;v=v1", SHIRTS, 406, "Status", "a group and a version of no form"),
        ("*", PODS, 406, "Status", "the router of built-in paths knows one wildcard"),
        ("application/*", PODS, 406, "Status", "and not this one"),
        ("application/*", SHIRTS, 200, "ShirtList", "custom resources have no router"),
        ("text/html, */*;q=0.1", PODS, 200, "PodList", "the one that it knows"),
    ] {
        let answer = fixture.get_with(path, &[("accept", accept)]).await;
        assert_eq!((answer.code.as_u16(), &answer.json()["kind"]), (code, &json!(kind)), "{why}: {}", answer.body);
        assert_eq!(answer.header("content-type"), "application/json", "{why}");
    }
    let refused = fixture.get_with(SHIRTS, &[("accept", "text/html")]).await;
    let message = "only the following media types are accepted: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf";
    assert_eq!((&*refused.message(), &refused.json()["reason"]), (message, &json!("NotAcceptable")));
    assert!(refused.body.starts_with("{\n  \"kind\""), "what cannot be agreed on is said to a person");
    let routed = fixture.get_with(PODS, &[("accept", "text/html")]).await;
    let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf, application/json;stream=watch, \
                   application/vnd.kubernetes.protobuf;stream=watch";
    assert_eq!((&*routed.message(), &routed.json()["details"]), (message, &json!({})));
    let watched = fixture.get_with(&format!("{SHIRTS}?watch=1"), &[("accept", "text/html")]).await;
    assert!(watched.body.starts_with("{\n  \"kind\""), "that of a watch, too");
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let wrong = fixture.get_with(SHIRTS, &[("accept", accept)]).await.message();
    let message =
        "you requested PartialObjectMetadata, but the requested object is a list (*unstructured.UnstructuredList)";
    assert_eq!(wrong, message);
}

#[tokio::test]
async fn tables_have_the_columns_of_the_crd() {
    let fixture = Fixture::with_shirts(Settings::default());
    let table = fixture.get_with(&format!("{ALL_SHIRTS}?limit=2"), &[("accept", KUBECTL)]).await.json();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(
        (&table["metadata"]["resourceVersion"], &table["metadata"]["remainingItemCount"]),
        (&json!("109"), &json!(7))
    );
    assert!(table["metadata"]["continue"].is_string());
    let columns = table["columnDefinitions"].as_array().unwrap();
    let names: Vec<&str> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Name", "Color", "Size", "Age"]);
    assert_eq!(columns[0]["format"], "name");
    assert_eq!(
        columns[2],
        json!({
            "name": "Size", "type": "integer", "format": "", "priority": 1,
            "description": "Custom resource definition column (in JSONPath format): .spec.size",
        })
    );
    assert_eq!(table["rows"][1]["cells"], json!(["x-y", "green", 7, "10m"]));
    let object = &table["rows"][1]["object"];
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1")));
    assert_eq!((&object["metadata"]["labels"]["tone"], object.get("spec")), (&json!("green"), None));
    for (include, expected) in
        [("None", json!(null)), ("Object", json!("Shirt")), ("Metadata", json!("PartialObjectMetadata"))]
    {
        let path = format!("{ALL_SHIRTS}?includeObject={include}");
        let object = fixture.get_with(&path, &[("accept", KUBECTL)]).await.json()["rows"][0]["object"].clone();
        assert_eq!(if object.is_null() { object } else { object["kind"].clone() }, expected, "{include}");
    }
    let bogus = fixture.get_with(&format!("{ALL_SHIRTS}?includeObject=Bogus"), &[("accept", KUBECTL)]).await;
    let message = "Unable to convert to Table as requested: includeObject: Invalid value: \"Bogus\": \
                   must be 'Metadata', 'Object', 'None', or empty";
    assert_eq!((bogus.code.as_u16(), &*bogus.message()), (400, message));
    assert_eq!(fixture.get(&format!("{ALL_SHIRTS}?includeObject=Bogus")).await.code, 200, "no table, no matter");
}

#[tokio::test]
async fn tables_of_definitions_without_columns_show_name_and_age() {
    let mut fixture = Fixture::new();
    fixture.put_hat("top");
    fixture.put_pod("default", "p");
    let hats = fixture.get_with("/apis/stable.example.com/v1/hats", &[("accept", KUBECTL)]).await.json();
    assert_eq!(hats["columnDefinitions"][1]["name"], "Age");
    assert_eq!(hats["rows"][0]["cells"], json!(["top", null]));
    let pods = fixture.get_with("/api/v1/pods", &[("accept", KUBECTL)]).await.json();
    let cells = json!(["p", "0/0", "Running", "0", "10m", "<none>", "n1", "<none>", "<none>"]);
    assert_eq!(pods["rows"][0]["cells"], cells, "built-in kinds have printers");
    let single = fixture.get_with("/api/v1/namespaces/default/pods/p", &[("accept", KUBECTL)]).await.json();
    assert_eq!((&single["rows"], &single["columnDefinitions"]), (&pods["rows"], &pods["columnDefinitions"]));
    let empty = fixture.get_with(SHIRTS, &[("accept", KUBECTL)]).await.json();
    assert_eq!(empty["rows"], json!([]));
}

#[test]
fn a_row_of_a_built_in_kind_is_what_its_printer_says() {
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    let stored = |resource: &Resource, status: &str, precedence: u64| {
        let text = format!(
            "{{\"metadata\":{{\"name\":\"o{precedence}\",\"namespace\":\"n\",\"resourceVersion\":\"{precedence}\"}},\
             \"spec\":{{\"matchingPrecedence\":{precedence}}},\"status\":{status}}}"
        );
        let mut store = Store::new(HistoryLimits::default());
        store.apply(&resource.extractor.extract(Bytes::from(text)).unwrap());
        store.snapshot().get(&format!("n/o{precedence}")).unwrap().clone()
    };
    let resource = pods();
    let object = stored(&resource, "{\"phase\":\"Succeeded\"}", 7);
    let mut row = Vec::new();
    let columns = Arc::new(Columns::new(&resource, "v1", Include::None));
    assert!(JsonRow::new(Row::new(&columns, Shown::as_is(&object), now)).fill(usize::MAX, &mut row));
    assert_eq!(
        String::from_utf8(row).unwrap(),
        "{\"cells\":[\"o7\",\"0/0\",\"Succeeded\",\"0\",\"\\u003cunknown\\u003e\",\"\\u003cnone\\u003e\",\
         \"\\u003cnone\\u003e\",\"\\u003cnone\\u003e\",\"\\u003cnone\\u003e\"],\"conditions\":[{\"type\":\"Completed\",\
         \"status\":\"True\",\"reason\":\"Succeeded\",\"message\":\"The pod has completed successfully.\"}],\"object\":null}"
    );
    let mut bookmark = Vec::new();
    columns.write_bookmark(Version::new(9), b"{}", now, false, &mut bookmark);
    let bookmark: Value = serde_json::from_slice(&bookmark).unwrap();
    let cells = bookmark["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..3], [json!(""), json!("0/0"), json!("")], "an empty object is printed");

    let of_group = |group: &str, resource: &str| Resource { gvr: Gvr::new(group, "v1", resource), ..pods() };
    let meta = ListMeta { version: Version::new(9), continue_token: String::new(), remaining: None, shard: None };
    let foreign = Columns::new(&of_group("metrics.example.com", "nodes"), "v1", Include::None).envelope(&meta);
    let head = String::from_utf8(foreign.head).unwrap();
    assert!(head.contains("\"name\":\"Age\"") && !head.contains("Roles"), "a group of its own, not core: {head}");

    let schemas = of_group("flowcontrol.apiserver.k8s.io", "flowschemas");
    let objects = [9, 3, 5].map(|precedence| stored(&schemas, "null", precedence));
    let sorted = Columns::new(&schemas, "v1", Include::None).sorted(&mut objects.into_iter()).unwrap();
    let names: Vec<&str> = sorted.iter().map(|object| object.name()).collect();
    assert_eq!(names, ["o3", "o5", "o9"], "in the order in which they are tried");
    assert!(columns.sorted(&mut std::iter::empty()).is_none(), "others are streamed");
}

#[tokio::test]
async fn metadata_lists_leave_an_empty_continue_out() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let list = fixture.get_with(SHIRTS, &[("accept", accept)]).await.json();
    assert_eq!(list["metadata"], json!({"resourceVersion": "101"}));
    let item = &list["items"][0];
    assert_eq!((&item["kind"], &item["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("x")));
}

#[test]
fn cells_are_typed() {
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    for (kind, value, expected) in [
        ("string", json!("a<b"), json!("a<b")),
        ("string", json!(7), json!("7")),
        ("string", json!(1.5), json!("1.5")),
        ("string", json!(1_500_000.0), json!("1.5e+06")),
        ("string", json!(0.00001), json!("1e-05")),
        ("string", json!(true), json!("true")),
        ("string", json!({"b": [1, "<"], "a": null}), json!("{\"a\":null,\"b\":[1,\"\\u003c\"]}")),
        ("integer", json!(7), json!(7)),
        ("integer", json!(7.9), json!(7)),
        ("integer", json!("7"), json!(null)),
        ("integer", json!(-7.9), json!(-7)),
        ("integer", json!(1e20), json!(i64::MIN)),
        ("integer", json!(u64::MAX), json!(i64::MIN)),
        ("integer", json!(-1e20), json!(i64::MIN)),
        ("string", json!(u64::MAX), json!("1.8446744073709552e+19")),
        ("string", json!([1e21, 1e20, 1e-7, 0.1]), json!("[1e+21,100000000000000000000,1e-7,0.1]")),
        ("number", json!(1.5), json!(1.5)),
        ("number", json!(7), json!(7.0)),
        ("number", json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992.0)),
        ("boolean", json!(false), json!(false)),
        ("boolean", json!("true"), json!(null)),
        ("date", json!("2026-01-01T00:00:00Z"), json!("10m")),
        ("date", json!("2026-01-01T00:10:01.5Z"), json!("0s")),
        ("date", json!("2026-01-01T00:10:02Z"), json!("<invalid>")),
        ("date", json!("soon"), json!("<invalid>")),
        ("date", json!(""), json!("<unknown>")),
        ("date", json!("null"), json!("<unknown>")),
        ("date", json!("0001-01-01T00:00:00Z"), json!("<unknown>")),
        ("date", json!("0001-01-01T01:00:00+01:00"), json!("<unknown>")),
        ("date", json!("2026-01-01t00:00:00z"), json!("<invalid>")),
        ("date", json!("2026-01-01 00:00:00Z"), json!("<invalid>")),
        ("date", json!("2026-01-01T00:00:00+0000"), json!("<invalid>")),
        ("date", json!("2025-12-31T23:59:60Z"), json!("<invalid>")),
        ("date", json!("2025-02-29T00:00:00Z"), json!("<invalid>")),
        ("date", json!("2026-01-01T00:00:00"), json!("<invalid>")),
        ("date", json!("2026-01-01T0:00:00Z"), json!("10m")),
        ("date", json!("2026-01-01T00:00:00,5Z"), json!("9m59s")),
        ("date", json!("2026-01-02T00:00:00+24:00"), json!("10m")),
        ("date", json!("2026-01-01T00:00:00.1234567891Z"), json!("9m59s")),
        ("date", json!(7), json!(null)),
    ] {
        assert_eq!(cell(ColumnKind::from_name(kind), &value, now), expected, "{kind} {value}");
        let mut written = Vec::new();
        write_cell(ColumnKind::from_name(kind), &serde_json::to_vec(&value).unwrap(), now, &mut written);
        assert_eq!(written, json_bytes(&expected), "{kind} {value}, from its text");
    }
}

#[tokio::test]
async fn values_that_stand_in_a_path_are_shown_by_their_type_in_go() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    let object = fixture.shirts.store.snapshot().get("default/x").unwrap().clone();
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    let none = json!(null);
    for (path, cells) in [
        (
            "'2026-01-01T00:00:00Z'",
            [json!("2026-01-01T00:00:00Z"), none.clone(), none.clone(), none.clone(), json!("10m")],
        ),
        (
            "'\\xff\\xe2\\x82'",
            [json!("\u{fffd}\u{fffd}\u{fffd}"), none.clone(), none.clone(), none.clone(), json!("<invalid>")],
        ),
        ("7", [json!("7"), none.clone(), none.clone(), none.clone(), none.clone()]),
        ("7.", [json!("7"), json!(7), json!(7), none.clone(), none.clone()]),
        ("true", [json!("true"), none.clone(), none.clone(), json!(true), none.clone()]),
        (".spec.color.*", [json!("98"), none.clone(), none.clone(), none.clone(), none.clone()]),
        (".spec.none", [none.clone(), none.clone(), none.clone(), none.clone(), none.clone()]),
    ] {
        let columns = ["string", "integer", "number", "boolean", "date"].map(|kind| column(kind, kind, path));
        let resource = Resource { printer_columns: columns.into(), ..(*fixture.shirts.resource).clone() };
        let columns = Arc::new(Columns::new(&resource, "v1", Include::None));
        let mut row = Vec::new();
        assert!(JsonRow::new(Row::new(&columns, Shown::as_is(&object), now)).fill(1 << 16, &mut row));
        let row: Value = serde_json::from_slice(&row).unwrap();
        assert_eq!(row["cells"].as_array().unwrap()[1..], cells, "{path}");
    }
}

fn column(name: &str, kind: &str, json_path: &str) -> PrinterColumn {
    PrinterColumn {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: "password".to_owned(),
        description: "A word.".to_owned(),
        priority: 7,
        json_path: json_path.to_owned(),
    }
}

#[tokio::test]
async fn columns_end_before_the_first_whose_path_is_not_valid() {
    let fixture = Fixture::with_shirts(Settings::default());
    let paths = |paths: &[(&str, &str)]| -> Vec<PrinterColumn> {
        paths.iter().map(|(name, path)| column(name, "string", path)).collect()
    };
    for (columns, names) in [
        (paths(&[("a", ".spec.color"), ("b", ".spec[0:1]"), ("c", "..color")]), &["Name", "a", "b", "c"][..]),
        (paths(&[("a", ".spec.color"), ("b", ".spec[\"color\"]"), ("c", ".spec")]), &["Name", "a"]),
        (paths(&[("b", ".spec[")]), &["Name"]),
        (Vec::new(), &["Name", "Age"]),
    ] {
        let resource = Resource { printer_columns: columns.into(), ..(*fixture.shirts.resource).clone() };
        let meta = ListMeta { version: Version::new(1), continue_token: String::new(), remaining: None, shard: None };
        let head = Columns::new(&resource, "v1", Include::None).envelope(&meta).head;
        let table: Value = serde_json::from_slice(&[&head[..], b"]}"].concat()).unwrap();
        let definitions = table["columnDefinitions"].as_array().unwrap();
        let shown: Vec<&str> = definitions.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(shown, names);
        if let Some(first) = definitions.get(1).filter(|one| one["name"] == "a") {
            let whole =
                json!({"name": "a", "type": "string", "format": "password", "description": "A word.", "priority": 7});
            assert_eq!(*first, whole);
        }
    }
}
