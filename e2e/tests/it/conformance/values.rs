//! What the value of a field is (G1, E1 to E3, E5, E17 to E20): queried with `=` and `!=`, from a cluster and from a folder.

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::{compare, fixtures, unique};
use serde_json::{Value, json};

use super::backend::{Backend, SOON, lists, names, query, served_file};

#[tokio::test]
async fn values_of_a_cluster() -> Result<()> {
    run(&Backend::cluster().await?).await
}

#[tokio::test]
async fn values_of_a_folder() -> Result<()> {
    let backend = Backend::folder().await?;
    run(&backend).await?;
    odd_names_walk_literally(&backend).await?;
    refused_objects_are_not_served(&backend).await
}

async fn run(backend: &Backend) -> Result<()> {
    let counts = [
        integers(backend).await.context("integers")?,
        emptiness(backend).await.context("emptiness")?,
        defaults(backend).await.context("defaults")?,
        names_and_maps(backend).await.context("names and maps")?,
        formats(backend).await.context("formats")?,
        other_versions_defaults(backend).await.context("another version's default")?,
    ];
    println!("conformance: values, {} selections, folder: {}", counts.iter().sum::<usize>(), backend.is_folder());
    Ok(())
}

/// A definition of `things` with one version, a schema of these properties below spec, and these selectable fields.
fn things(group: &str, properties: Value, fields: &[&str]) -> Value {
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": properties } } });
    of_schema(group, &schema, fields)
}

fn of_schema(group: &str, schema: &Value, fields: &[&str]) -> Value {
    let fields: Vec<Value> = fields.iter().map(|field| json!({ "jsonPath": field })).collect();
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": schema }, "selectableFields": fields,
    });
    fixtures::definition(group, "Namespaced", ("things", "thing", "Thing"), &[version], &fixtures::no_conversion())
}

fn collection(group: &str) -> String {
    format!("/apis/{group}/v1/namespaces/default/things")
}

fn thing(group: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": { "name": name, "namespace": "default" },
    });
    for (key, value) in rest.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

/// Writes the objects and sends every selector.
async fn selects(backend: &Backend, group: &str, objects: &[Value], rows: &[(&str, &[&str])]) -> Result<usize> {
    for object in objects {
        backend.put(&collection(group), object).await?;
    }
    let client = backend.client();
    let mut all: Vec<&str> = objects.iter().map(super::backend::name).collect();
    all.sort_unstable();
    lists(&client, &collection(group), &all).await?;
    for (selector, expected) in rows {
        lists(&client, &query(&collection(group), selector, "", ""), expected).await?;
        // And the complement.
        if let Some((label, value)) =
            selector.split_once('=').filter(|_| !["!=", "==", ","].iter().any(|text| selector.contains(text)))
        {
            let others: Vec<&str> = all.iter().copied().filter(|name| !expected.contains(name)).collect();
            lists(&client, &query(&collection(group), &format!("{label}!={value}"), "", ""), &others).await?;
        }
    }
    Ok(rows.len())
}

/// E1.
async fn integers(backend: &Backend) -> Result<usize> {
    let group = unique::group("integers");
    backend.define(&things(&group, json!({ "n": { "type": "integer" } }), &[".spec.n"])).await?;
    let values = [
        ("zero", json!(0)),
        ("minus", json!(-7)),
        ("beyond-doubles", json!(9_007_199_254_740_993_i64)),
        ("largest", json!(i64::MAX)),
        ("smallest", json!(i64::MIN)),
        ("one-point-zero", json!(1.0)),
        ("hundred", serde_json::from_str("1e2")?),
        ("minus-zero", serde_json::from_str("-0")?),
    ];
    let objects: Vec<Value> =
        values.iter().map(|(name, value)| thing(&group, name, json!({ "spec": { "n": value } }))).collect();
    let rows: [(&str, &[&str]); 14] = [
        ("spec.n=0", &["minus-zero", "zero"]),
        ("spec.n=-0", &[]),
        ("spec.n=00", &[]),
        ("spec.n=-7", &["minus"]),
        ("spec.n=+7", &[]),
        ("spec.n=9007199254740993", &["beyond-doubles"]),
        ("spec.n=9007199254740992", &[]),
        ("spec.n=9223372036854775807", &["largest"]),
        ("spec.n=-9223372036854775808", &["smallest"]),
        ("spec.n=1", &["one-point-zero"]),
        ("spec.n=1.0", &[]),
        ("spec.n=100", &["hundred"]),
        ("spec.n=1e2", &[]),
        ("spec.n=", &[]),
    ];
    selects(backend, &group, &objects, &rows).await
}

/// E2 and G1.
async fn emptiness(backend: &Backend) -> Result<usize> {
    let group = unique::group("emptiness");
    let properties = json!({
        "foo": { "type": "string", "nullable": true },
        "flag": { "type": "boolean", "nullable": true },
        "child": { "type": "object", "nullable": true, "properties": { "name": { "type": "string" } } },
    });
    backend.define(&things(&group, properties, &[".spec.foo", ".spec.flag", ".spec.child.name"])).await?;
    let objects = [
        thing(&group, "absent", json!({ "spec": {} })),
        thing(&group, "empty", json!({ "spec": { "foo": "" } })),
        thing(&group, "no-spec", json!({})),
        thing(&group, "null", json!({ "spec": { "foo": null, "flag": null, "child": null } })),
        thing(&group, "set", json!({ "spec": { "foo": "x", "flag": true, "child": { "name": "inner" } } })),
        thing(&group, "words", json!({ "spec": { "foo": "<nil>", "flag": false, "child": {} } })),
        thing(&group, "odd", json!({ "spec": { "foo": "a,b=c\\d\n e" } })),
    ];
    let rows: [(&str, &[&str]); 17] = [
        ("spec.foo=", &["absent", "empty", "no-spec", "null"]),
        ("spec.foo!=", &["odd", "set", "words"]),
        ("spec.foo=x", &["set"]),
        ("spec.foo!=x", &["absent", "empty", "no-spec", "null", "odd", "words"]),
        ("spec.foo==x", &["set"]),
        ("spec.foo=X", &[]),
        ("spec.foo= x", &[]),
        ("spec.foo=null", &[]),
        ("spec.foo=<nil>", &["words"]),
        ("spec.foo=a\\,b\\=c\\\\d\n e", &["odd"]),
        ("spec.flag=true", &["set"]),
        ("spec.flag=false", &["words"]),
        ("spec.flag=True", &[]),
        ("spec.flag=", &["absent", "empty", "no-spec", "null", "odd"]),
        ("spec.child.name=inner", &["set"]),
        ("spec.child.name=", &["absent", "empty", "no-spec", "null", "odd", "words"]),
        ("spec.foo!=x,spec.foo!=", &["odd", "words"]),
    ];
    selects(backend, &group, &objects, &rows).await
}

/// E3.
async fn defaults(backend: &Backend) -> Result<usize> {
    let group = unique::group("defaults");
    let fields = [".spec.later", ".spec.size", ".spec.tag", ".spec.child.color", ".spec.plain"];
    let properties = |with_default: bool| {
        let mut properties = json!({
            "later": { "type": "string" },
            "other": { "type": "string" },
            "size": { "type": "string", "default": "M" },
            "tag": { "type": "string", "nullable": true, "default": "none" },
            "plain": { "type": "string" },
            "child": { "type": "object", "properties": { "color": { "type": "string", "default": "blue" } } },
        });
        if with_default {
            properties["later"]["default"] = "now".into();
        }
        properties
    };
    backend.define(&things(&group, properties(false), &fields)).await?;
    let objects = [
        thing(&group, "bare", json!({ "spec": {} })),
        thing(&group, "child", json!({ "spec": { "child": {} } })),
        thing(&group, "nulls", json!({ "spec": { "size": null, "tag": null, "plain": null } })),
        thing(&group, "without", json!({})),
    ];
    let rows: [(&str, &[&str]); 7] = [
        ("spec.size=M", &["bare", "child", "nulls"]),
        ("spec.tag=none", &["bare", "child"]),
        ("spec.tag=", &["nulls", "without"]),
        ("spec.plain=", &["bare", "child", "nulls", "without"]),
        ("spec.child.color=blue", &["child"]),
        ("spec.child.color=", &["bare", "nulls", "without"]),
        ("spec.later=", &["bare", "child", "nulls", "without"]),
    ];
    let requested = selects(backend, &group, &objects, &rows).await?;

    // A default that comes later is given to objects that are older, without a write to them.
    backend.put(e2e::objects::DEFINITIONS, &things(&group, properties(true), &fields)).await?;
    let client = backend.client();
    lists(&client, &query(&collection(&group), "spec.later=now", "", ""), &["bare", "child", "nulls"]).await?;
    lists(&client, &query(&collection(&group), "spec.later=", "", ""), &["without"]).await?;

    // Also one of a field that no client selects: what is served is what the server would serve.
    let mut unselected = properties(true);
    unselected["other"]["default"] = "given".into();
    backend.put(e2e::objects::DEFINITIONS, &things(&group, unselected, &fields)).await?;
    eventually("the new default is served", SOON, async || {
        let bare = client.get_json(&format!("{}/bare", collection(&group))).await?;
        ensure!(bare["spec"]["other"] == "given", "it is {}", bare["spec"]);
        if let Backend::Cluster { writer, .. } = backend {
            let theirs = writer.get_json(&collection(&group)).await?;
            let ours = client.get_json(&collection(&group)).await?;
            compare::equal("kube-apiserver", &theirs["items"], "fieldcache", &ours["items"])?;
        }
        Ok(())
    })
    .await?;
    Ok(requested + 2)
}

/// E17 as far as API servers can evaluate the names, E18, E19.
async fn names_and_maps(backend: &Backend) -> Result<usize> {
    let group = unique::group("names");
    let odd = ["a-b", "a/b", "a_b", "3", "é", "\"x\"", "it's", "a;b", "#", "-"];
    let mut properties = json!({ "m": { "type": "object", "additionalProperties": { "type": "string" } } });
    let mut object = json!({ "m": { "foo": "bar" } });
    for name in odd {
        properties[name] = json!({ "type": "string" });
        object[name] = name.into();
    }
    let schema = json!({ "type": "object", "properties": {
        "apiVersion": { "type": "string" }, "kind": { "type": "string" },
        "spec": { "type": "object", "properties": properties },
    } });
    let mut requested = 0;
    // Eight at a time.
    for chunk in [&odd[..5], &odd[5..]] {
        let paths: Vec<String> = chunk.iter().map(|name| format!(".spec.{name}")).collect();
        let mut fields: Vec<&str> = paths.iter().map(String::as_str).collect();
        fields.extend([".spec.m.foo", ".kind", ".apiVersion"]);
        backend.define(&of_schema(&group, &schema, &fields)).await?;
        let rows: Vec<String> = chunk.iter().map(|name| format!("spec.{name}={name}")).collect();
        let api_version = format!("apiVersion={group}/v1");
        let full: &[&str] = &["full"];
        let mut rows: Vec<(&str, &[&str])> = rows.iter().map(|row| (row.as_str(), full)).collect();
        rows.extend([
            ("spec.m.foo=bar", full),
            ("spec.m.foo=", &["none"]),
            ("kind=Thing", &["full", "none"]),
            ("kind=thing", &[]),
            (&api_version, &["full", "none"]),
        ]);
        let objects = [thing(&group, "full", json!({ "spec": object })), thing(&group, "none", json!({}))];
        eventually("the new fields are selectable", SOON, async || {
            backend.client().get_json(&query(&collection(&group), rows[0].0, "", "")).await
        })
        .await?;
        requested += selects(backend, &group, &objects, &rows).await?;
    }
    Ok(requested)
}

/// E17, the names that API servers fail on: a folder shows that they are plain keys here.
async fn odd_names_walk_literally(backend: &Backend) -> Result<()> {
    let names = ["a b", "a$b", "a@b", "a{b", "*", "a}b", "a\\b", "x\ty"];
    let group = unique::group("odd");
    let mut properties = json!({});
    let mut object = json!({});
    for name in names {
        properties[name] = json!({ "type": "string" });
        object[name] = format!("{name}'s").into();
    }
    let paths: Vec<String> = names.iter().map(|name| format!(".spec.{name}")).collect();
    let fields: Vec<&str> = paths.iter().map(String::as_str).collect();
    backend.define(&things(&group, properties, &fields)).await?;
    let selectors: Vec<String> =
        names.iter().map(|name| format!("spec.{name}={name}'s").replace("=a\\b", "=a\\\\b")).collect();
    let full: &[&str] = &["full"];
    let rows: Vec<(&str, &[&str])> = selectors.iter().map(|selector| (selector.as_str(), full)).collect();
    let objects = [thing(&group, "full", json!({ "spec": object })), thing(&group, "none", json!({}))];
    selects(backend, &group, &objects, &rows).await?;
    Ok(())
}

/// What kube-apiserver would refuse is reported and not served, and takes nothing else down.
async fn refused_objects_are_not_served(backend: &Backend) -> Result<()> {
    let group = unique::group("refused");
    let properties = json!({ "n": { "type": "integer" }, "size": { "type": "string", "enum": ["S", "M"] } });
    backend.define(&things(&group, properties, &[".spec.n", ".spec.size"])).await?;
    backend.put(&collection(&group), &thing(&group, "right", json!({ "spec": { "n": 1 } }))).await?;
    lists(&backend.client(), &collection(&group), &["right"]).await?;
    let wrong = [
        ("beyond", json!({ "n": 9_223_372_036_854_775_808_u64 })),
        ("fraction", json!({ "n": 1.5 })),
        ("text", json!({ "n": "1" })),
        ("no-size", json!({ "size": "XXL" })),
    ];
    for (name, spec) in &wrong {
        let document = thing(&group, name, json!({ "spec": spec })).to_string();
        std::fs::write(served_file(backend, &format!("wrong-{name}.json"))?, document)?;
    }
    for (name, _) in &wrong {
        let file = format!("wrong-{name}.json");
        eventually(&format!("{file} is reported"), SOON, async || {
            let reported = backend.fieldcache().process().stderr()?;
            ensure!(reported.contains(&file), "reported: {reported}");
            Ok(())
        })
        .await?;
    }
    let list = backend.client().get_json(&collection(&group)).await?;
    ensure!(names(&list) == ["right"], "{:?}", names(&list));
    Ok(())
}

/// E20.
async fn formats(backend: &Backend) -> Result<usize> {
    let group = unique::group("formats");
    let properties = json!({
        "at": { "type": "string", "format": "date-time" },
        "day": { "type": "string", "format": "date" },
        "for": { "type": "string", "format": "duration", "default": "5m" },
        "bytes": { "type": "string", "format": "byte" },
        "uuid": { "type": "string", "format": "uuid" },
        "small": { "type": "integer", "format": "int32", "default": 3 },
        "port": { "type": "string", "format": "int-or-string" },
        "name": { "type": "string", "enum": ["a", "b"], "default": "a" },
    });
    let fields =
        [".spec.at", ".spec.day", ".spec.for", ".spec.bytes", ".spec.uuid", ".spec.small", ".spec.port", ".spec.name"];
    backend.define(&things(&group, properties, &fields)).await?;
    let labelled = |name: &str, team: &str, spec: Value| {
        let mut object = thing(&group, name, json!({ "spec": spec }));
        object["metadata"]["labels"] = json!({ "team": team });
        object
    };
    let uuid = "3F2504E0-4F89-11D3-9A0C-0305E82C3301";
    let full = json!({
        "at": "2026-01-02T03:04:05.000Z", "day": "2026-01-02", "for": "1h0m0s", "bytes": "aGVsbG8=", "uuid": uuid,
        "small": 4, "port": "http", "name": "b",
    });
    let objects =
        [labelled("bare", "red", json!({})), labelled("full", "red", full.clone()), labelled("more", "blue", full)];
    let by_uuid = format!("spec.uuid={uuid}");
    let both: &[&str] = &["full", "more"];
    let rows: [(&str, &[&str]); 14] = [
        ("spec.at=2026-01-02T03:04:05.000Z", both),
        ("spec.at=2026-01-02T03:04:05Z", &[]),
        ("spec.day=2026-01-02", both),
        ("spec.for=1h0m0s", both),
        ("spec.for=1h", &[]),
        ("spec.for=5m", &["bare"]),
        ("spec.bytes=aGVsbG8=", &[]),
        ("spec.bytes=aGVsbG8\\=", both),
        (&by_uuid, both),
        ("spec.small=3", &["bare"]),
        ("spec.small=4", both),
        ("spec.port=http", both),
        ("spec.name=a", &["bare"]),
        ("spec.name=b", both),
    ];
    // The row with an unescaped `=` is refused, not empty.
    let answered: Vec<(&str, &[&str])> = rows.into_iter().filter(|(row, _)| *row != "spec.bytes=aGVsbG8=").collect();
    let requested = selects(backend, &group, &objects, &answered).await?;
    let client = backend.client();
    let unescaped = query(&collection(&group), "spec.bytes=aGVsbG8=", "", "");
    super::backend::refused(&client, &unescaped, 400, "invalid field selector: unescaped character in value: 61")
        .await?;

    // int-or-string has no type: no field can be selectable, but objects that have it can be selected.
    let together = [
        ("spec.for=1h0m0s", "team=red", vec!["full"]),
        ("spec.for=5m", "team=red", vec!["bare"]),
        ("spec.for=5m", "team=blue", vec![]),
        ("spec.name!=a", "team in (red,blue)", vec!["full", "more"]),
        ("spec.small=3,spec.name=a", "team", vec!["bare"]),
        ("spec.port=http", "team notin (red)", vec!["more"]),
    ];
    for (field, label, expected) in &together {
        lists(&client, &query(&collection(&group), field, label, ""), expected).await?;
    }
    let mut watch = client.watch(&query(&collection(&group), "spec.for=5m", "team=red", "&watch=1")).await?;
    super::backend::follows(&mut watch, &[("ADDED", "bare")]).await?;
    backend.put(&collection(&group), &labelled("bare", "red", json!({ "for": "6m" }))).await?;
    super::backend::follows(&mut watch, &[("DELETED", "bare")]).await?;
    backend.put(&collection(&group), &labelled("more", "red", json!({}))).await?;
    super::backend::follows(&mut watch, &[("ADDED", "more")]).await?;
    backend.put(&collection(&group), &labelled("more", "blue", json!({}))).await?;
    super::backend::follows(&mut watch, &[("DELETED", "more")]).await?;
    Ok(requested + together.len())
}

/// E5: without a webhook, an object seen in another version has the defaults of its own version only.
async fn other_versions_defaults(backend: &Backend) -> Result<usize> {
    let group = unique::group("versions");
    let version = |name: &str, is_stored: bool, default: Option<&str>| {
        let mut y = json!({ "type": "string", "description": format!("y of {name}") });
        if let Some(default) = default {
            y["default"] = default.into();
        }
        json!({
            "name": name, "served": true, "storage": is_stored,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object", "properties": {
                "x": { "type": "string" }, "y": y,
            } } } } },
            "selectableFields": if is_stored { json!([{ "jsonPath": ".spec.x" }]) } else { json!([{ "jsonPath": ".spec.y" }]) },
        })
    };
    let versions = [version("v1", true, None), version("v2", false, Some("given"))];
    let names = ("things", "thing", "Thing");
    backend.define(&fixtures::definition(&group, "Namespaced", names, &versions, &fixtures::no_conversion())).await?;
    backend.put(&collection(&group), &thing(&group, "old", json!({ "spec": { "x": "1" } }))).await?;
    let client = backend.client();
    let second = format!("/apis/{group}/v2/namespaces/default/things");
    lists(&client, &second, &["old"]).await?;
    lists(&client, &query(&second, "spec.y=", "", ""), &["old"]).await?;
    lists(&client, &query(&second, "spec.y=given", "", ""), &[]).await?;
    lists(&client, &query(&collection(&group), "spec.x=1", "", ""), &["old"]).await?;
    Ok(3)
}
