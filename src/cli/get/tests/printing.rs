//! Tables and histograms as texts.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::facets::{self, Facets};
use super::super::table::{Alignment, Table, TableOptions};
use super::parsed;

/// A Table with the rows of two objects.
fn table() -> Table {
    let column = |name: &str, priority: i64| json!({"name": name, "type": "string", "format": if name == "Name" { "name" } else { "" }, "priority": priority});
    let row = |cells: Value, metadata: Value| json!({"cells": cells, "object": {"metadata": metadata}});
    let table = json!({
        "columnDefinitions": [column("Name", 0), column("Up", 0), column("IP", 1), column("Age", 0)],
        "rows": [
            row(json!(["a", true, "10.0.0.1", "5m"]), json!({"namespace": "n", "labels": {"b": "2", "a/c": "1"}})),
            row(json!(["größer\nb", 7, null, "\u{1b}[31m"]), json!({"namespace": "longer"})),
            row(json!(["c"]), Value::Null),
        ],
    });
    Table::deserialize(table).unwrap()
}

#[test]
fn tables_are_those_of_kubectl() {
    let usual = TableOptions::default();
    for (options, expected, why) in [
        (
            usual.clone(),
            "NAME        UP     AGE\na           true   5m\ngrößer...   7      ^[[31m\nc                  \n",
            "first lines of cells, without controls; a column is at least six wide",
        ),
        (
            TableOptions { is_wide: true, ..usual.clone() },
            "NAME        UP     IP         AGE\na           true   10.0.0.1   5m\ngrößer...   7                 ^[[31m\nc                             \n",
            "wide",
        ),
        (
            TableOptions {
                has_namespace: true,
                labels: vec!["a/c".to_owned()],
                has_all_labels: true,
                name_prefix: "pod/".to_owned(),
                ..usual
            },
            "NAMESPACE   NAME            UP     AGE      C     LABELS\nn           pod/a           true   5m       1     a/c=1,b=2\nlonger      pod/größer...   7      ^[[31m         <none>\n            pod/c                                 <none>\n",
            "namespace, kind and labels",
        ),
    ] {
        let table = table();
        let mut rows = vec![table.headers(&options)];
        rows.extend(table.cells(&options));
        assert_eq!(Alignment::default().print(&rows), expected, "{why}");
    }
}

#[test]
fn an_empty_list_of_a_table_may_be_null() {
    let table = Table::deserialize(json!({"columnDefinitions": null, "rows": null})).unwrap();
    assert_eq!((table.len(), table.headers(&TableOptions::default()).len()), (0, 0));
    let table =
        Table::deserialize(json!({"columnDefinitions": [{"name": "Name"}], "rows": [{"cells": null}]})).unwrap();
    assert_eq!(table.cells(&TableOptions::default()), [[""]], "a row without cells");
}

#[test]
fn later_pages_are_at_least_as_wide() {
    let mut alignment = Alignment::default();
    let row = |cells: [&str; 2]| vec![cells.map(str::to_owned).to_vec()];
    assert_eq!(alignment.print(&row(["longest", "x"])), "longest   x\n");
    assert_eq!(alignment.print(&row(["a", "x"])), "a         x\n");
    assert_eq!(alignment.print(&row(["even longer", "x"])), "even longer   x\n");
    assert_eq!(alignment.width(), 14);
}

#[test]
fn bars_are_scaled_to_the_line() {
    let facet = |values: &[(&str, u64)], distinct: u64, rest: [u64; 3]| {
        let values: Vec<Value> = values.iter().map(|(value, count)| json!({"value": value, "count": count})).collect();
        let [other, absent, unknown] = rest;
        json!({"field": "spec.color", "distinct": distinct, "values": values, "other": other, "absent": absent, "unknown": unknown})
    };
    for (facet, width, options, expected, why) in [
        (
            facet(&[("blue", 1000), ("a", 1)], 2, [0; 3]),
            Some(40),
            &[][..],
            "spec.color   COUNT\nblue         1000    ###################\na            1       #\n\ntotal: 9\n",
            "the longest bar fills the line, and the shortest has one character",
        ),
        (
            facet(&[("b", 2)], 12, [4, 1, 3]),
            Some(42),
            &[],
            "spec.color          COUNT\nb                   2       #######\n<11 other values>   4       ##############\n<none>              1       ###\n<unknown>           3       ##########\n\ntotal: 9\n",
            "the rest of the objects",
        ),
        (
            facet(&[("b", 2)], 2, [1, 0, 0]),
            Some(0),
            &["--no-headers"],
            "b                 2     ##########\n<1 other value>   1     #####\n\ntotal: 9\n",
            "no headers, and a line without space",
        ),
        (
            facet(&[("blue", 3)], 1, [0; 3]),
            None,
            &[],
            "spec.color   COUNT\nblue         3\n\ntotal: 9\n",
            "no terminal",
        ),
        (facet(&[], 0, [0; 3]), Some(40), &[], "spec.color   COUNT\n\ntotal: 9\n", "no values"),
        (
            facet(&[("\u{1b}[2J\nx", 1)], 1, [0; 3]),
            Some(40),
            &["--no-headers"],
            "^[[2J...   1     #######################\n\ntotal: 9\n",
            "a value that controls a terminal",
        ),
        (facet(&[("a,b=c\\d", 1)], 1, [0; 3]), Some(40), &["-o", "name"], "spec.color=a\\,b\\=c\\\\d\n", "a selector"),
    ] {
        let found = json!({"kind": "Facets", "total": 9, "facets": [facet]});
        let arguments = parsed(&[&["shirts", "--facets", "spec.color"], options].concat()).unwrap();
        let facets = Facets::deserialize(&found).unwrap();
        assert_eq!(facets::text(&found, &facets, &arguments, width), expected, "{why}");
    }
}
