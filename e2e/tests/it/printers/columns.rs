//! Cells of a CustomResourceDefinition's columns: every type of column over values that are not of that type, or odd ones of it.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::fieldcache::Fieldcache;
use e2e::{fixtures, objects};
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::dice::Dice;
use super::{AT_ONCE, SEED, compare, follow, watches};

const GROUP: &str = "columns.example.com";
const TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "date"];

/// Where columns look. `v` is any value, `items` a list of such, `rows` a list of objects that hold some.
const PATHS: [&str; 36] = [
    ".spec.v",
    ".spec['v']",
    ".spec.v.deep",
    ".spec.v[0]",
    ".spec.v[*]",
    ".spec.v[?(@.a==1)]",
    ".spec.items[0]",
    ".spec.items[1]",
    ".spec.items[-1]",
    ".spec.items[*]",
    ".spec.items[1:]",
    ".spec.items[0:2]",
    ".spec.items[*][0]",
    ".spec.items[*].deep",
    ".spec.rows[*].v",
    ".spec.rows[0].v",
    ".spec.rows[?(@.kind==\"a\")].v",
    ".spec.rows[?(@.kind!='a')].v",
    ".spec.rows[?(@.n==2)].v",
    ".spec.rows[?(@.n>1)].v",
    ".spec.rows[?(@.n<=@.m)].v",
    ".spec.rows[?(@.n==1.5)].v",
    ".spec.rows[?(@.flag==true)].v",
    ".spec.rows[?(@.v)].kind",
    ".spec.items[-1:]",
    ".spec.items[-2:]",
    ".spec.items[::2]",
    ".spec.items[0,1]",
    ".spec.items[1,0]",
    ".spec['none','v']",
    ".spec.rows[*]['n','v']",
    ".spec.rows..v",
    ".spec..kind",
    ".spec.rows[?(@.kind)].n}{.spec.rows",
    ".spec.rows[?(@[0])].n",
    // Not valid: this column is not shown.
    ".spec[\"v\"]",
];

/// As JSON: numbers at the bounds of Go's types, texts that are nearly dates, and what no column is meant for.
const VALUES: [&str; 81] = [
    "null",
    "true",
    "false",
    "\"\"",
    "\"true\"",
    "\"7\"",
    "\"a<b>&\\u2028\"",
    "0",
    "1",
    "-1",
    "-0",
    "-0.0",
    "1.0",
    "1e2",
    "1.5",
    "-1.5",
    "0.1",
    "0.30000000000000004",
    "99999.5",
    "999999.5",
    "1234567.5",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "1e16",
    "1.5e16",
    "1e18",
    "1e19",
    "1e20",
    "123456789012345678901",
    "1e21",
    "1.5e22",
    "1e23",
    "1e300",
    "1.7976931348623157e308",
    "-1.7976931348623157e308",
    "1e-4",
    "1e-5",
    "1e-6",
    "1e-7",
    "9.5e-7",
    "2.2250738585072014e-308",
    "5e-324",
    "8.533e-45",
    "0.1234567890123456789",
    "[]",
    "{}",
    "[1,null,\"<\",1e21]",
    "[[\"deep\"]]",
    "{\"deep\":1e-7,\"a\":1}",
    "{\"deep\":\"2020-01-01T00:00:00Z\"}",
    "[{\"a\":1},{\"a\":2}]",
    "[{\"a\":1},{}]",
    "\"null\"",
    "\"0001-01-01T00:00:00Z\"",
    "\"0001-01-01T01:00:00+01:00\"",
    "\"0000-01-01T00:00:00Z\"",
    "\"9999-12-31T23:59:59Z\"",
    "\"1600-02-29T00:00:00Z\"",
    "\"2020-01-01T00:00:00Z\"",
    "\"2020-01-01T00:00:00+00:00\"",
    "\"2020-01-01T00:00:00-23:59\"",
    "\"2020-01-01T00:00:00+24:60\"",
    "\"2020-01-01T00:00:00+25:00\"",
    "\"2020-01-01T00:00:00+0100\"",
    "\"2020-01-01T0:00:00Z\"",
    "\"2020-01-01T00:00:00.5Z\"",
    "\"2020-01-01T00:00:00,123456789123Z\"",
    "\"2020-01-01T00:00:00.Z\"",
    "\"2020-01-01t00:00:00z\"",
    "\"2020-01-01 00:00:00Z\"",
    "\"2020-01-01T00:00:00\"",
    "\"2020-01-01\"",
    "\"2020-12-31T23:59:60Z\"",
    "\"2021-02-29T00:00:00Z\"",
    "\"2020-01-01T24:00:00Z\"",
];

/// One of the values, or a number of many digits.
fn value(dice: &mut Dice) -> Value {
    let text = match dice.below(4) {
        0 => {
            let (digits, exponent) = (dice.below(usize::MAX >> 12), dice.below(60));
            format!("{}.{digits}e{}", dice.below(10), i64::try_from(exponent).unwrap_or(0) - 30)
        }
        1 => return json!(dice.moment()),
        _ => return parsed(VALUES[dice.below(VALUES.len())]),
    };
    parsed(&text)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

fn row(dice: &mut Dice) -> Value {
    let mut row = json!({});
    // Mostly there, so that filters do not fail on most lists.
    for (member, least) in [("kind", 92), ("n", 92), ("m", 92), ("flag", 92), ("v", 80)] {
        if !dice.chance(least) {
            continue;
        }
        row[member] = match member {
            "kind" => json!(dice.pick(&["a", "b"])),
            "n" | "m" if dice.chance(8) => json!(1.5),
            "n" | "m" => json!(dice.below(4)),
            "flag" => json!(dice.chance(50)),
            _ => value(dice),
        };
    }
    row
}

fn definition() -> Value {
    let columns = PATHS.iter().enumerate().flat_map(|(place, path)| {
        TYPES.iter().map(move |kind| json!({ "name": format!("{kind}-{place}"), "type": kind, "jsonPath": path }))
    });
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        } } },
        "additionalPrinterColumns": columns.collect::<Vec<Value>>(),
    });
    fixtures::definition(GROUP, "Cluster", ("oddities", "oddity", "Oddity"), &[version], &fixtures::no_conversion())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cells_of_odd_values_are_those_of_kube_apiserver() -> Result<()> {
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let writer = control_plane.client();
    objects::create_definition(&writer, &definition()).await?;
    let collection = format!("/apis/{GROUP}/v1/oddities");
    let mut dice = Dice::new(SEED);
    let drafts: Vec<Value> = (0..VALUES.len() * 3)
        .map(|index| {
            // Each value once where every type of column sees it, and beside it what chance brings.
            let v = VALUES.get(index).map_or_else(|| value(&mut dice), |text| parsed(text));
            let (items, rows) = (dice.list(4, |dice, _| value(dice)), dice.list(4, |dice, _| row(dice)));
            json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "Oddity", "metadata": { "name": format!("o{index}") },
                "spec": { "v": v, "items": items, "rows": rows },
            })
        })
        .collect();
    let made: Vec<Result<Value>> = stream::iter(&drafts)
        .map(|draft| objects::create(&writer, &collection, draft))
        .buffered(AT_ONCE)
        .collect()
        .await;
    for one in made {
        one?;
    }
    let fieldcache = Fieldcache::serve_cluster(control_plane.kubeconfig(), &[]).await?;
    let ours = fieldcache.client();
    follow(&writer, &ours, &collection).await?;
    let mut seen = compare::tables(&writer, &ours, &collection).await?;
    for index in (0..drafts.len()).step_by(9) {
        seen.add(compare::tables(&writer, &ours, &format!("{collection}/o{index}")).await?);
    }
    let events = watches(&writer, &ours, &collection).await?;
    println!("columns: {} rows, {} cells compared; {events} watch events", seen.rows, seen.cells);
    // A column that is always empty compares nothing.
    let empty: BTreeSet<&str> = seen
        .values
        .iter()
        .filter(|((path, _), values)| *path == collection && values.len() < 2)
        .map(|((_, column), _)| column.as_str())
        .collect();
    ensure!(empty.len() * 5 <= TYPES.len() * PATHS.len(), "columns that always show the same: {empty:?}");
    ensure!(events > drafts.len(), "{events}");
    Ok(())
}
