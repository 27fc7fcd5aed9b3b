//! Updates: a list that was too long already may stay as it is.
//!
//! No API server accepts the creation of such a list. So the test writes it to etcd, like a list that is older than the
//! limit. `fieldcache check` sees no stored object; what is compared here is the library's validation of an update.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::control_plane::ControlPlane;
use e2e::eventually::eventually;
use e2e::http::{Client, Request};
use e2e::objects::{self, DEFINITIONS};
use e2e::{compare, fixtures, unique};
use fieldcache::crd::Crd;
use fieldcache::extract::validation::validate;
use http::Method;
use serde_json::{Value, json};

use super::case::{field, version};
use super::is_older;

/// Fields of the stored versions, fields of the new ones, and whether the new definition passes.
struct Row {
    title: &'static str,
    stored: Vec<Vec<String>>,
    new: Vec<Vec<String>>,
    /// The schemas of the versions differ, so that each list is validated on its own.
    own_schemas: bool,
    /// The server refuses what it means to tolerate.
    upstream_forgets: bool,
    /// The update changes the schema too.
    new_schema: bool,
    is_accepted: bool,
}

#[tokio::test]
async fn updates_are_validated_as_by_kube_apiserver() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let client = control_plane.client();
    let etcd = control_plane.etcd_endpoint()?.client();
    let from =
        |first: usize, count: usize| (first..first + count).map(|index| format!(".f{index}")).collect::<Vec<_>>();
    let row = |title, stored: &[Vec<String>], new: &[Vec<String>], own_schemas, is_accepted| Row {
        title,
        stored: stored.to_vec(),
        new: new.to_vec(),
        own_schemas,
        upstream_forgets: false,
        new_schema: false,
        is_accepted,
    };
    let one =
        |title, stored: Vec<String>, new: Vec<String>, is_accepted| row(title, &[stored], &[new], false, is_accepted);
    let two = |title, stored: [Vec<String>; 2], new: [Vec<String>; 2], is_accepted| {
        row(title, &stored, &new, true, is_accepted)
    };
    let tolerated = |title, list: &[String], versions: usize, new_schema, is_accepted| {
        let lists = vec![list.to_vec(); versions];
        Row { upstream_forgets: true, new_schema, ..row(title, &lists, &lists, false, is_accepted) }
    };
    let nine_and_bad = [from(0, 9), vec![".nosuch".to_owned()]].concat();
    let rows = [
        tolerated("hoisted, the same nine", &from(0, 9), 1, false, true),
        tolerated("hoisted, the same nine, another schema", &from(0, 9), 1, true, true),
        tolerated("two equal versions, the same nine", &from(0, 9), 2, false, true),
        tolerated("the same but wrong otherwise", &nine_and_bad, 1, false, false),
        one("hoisted, nine others", from(0, 9), from(1, 9), false),
        one("hoisted, another order", from(0, 9), from(0, 9).into_iter().rev().collect(), false),
        one("hoisted, one more", from(0, 9), from(0, 10), false),
        one("hoisted, one less but still too many", from(0, 10), from(0, 9), false),
        one("hoisted, eight now", from(0, 9), from(0, 8), true),
        one("hoisted, eight before", from(0, 8), from(0, 9), false),
        two("per version, the same", [from(0, 9), from(0, 2)], [from(0, 9), from(0, 2)], true),
        two("per version, only the other changes", [from(0, 9), from(0, 2)], [from(0, 9), from(0, 3)], true),
        two("per version, nine others", [from(0, 9), from(0, 2)], [from(1, 9), from(0, 2)], false),
        two("per version, the other is too long now", [from(0, 9), from(0, 2)], [from(0, 9), from(1, 9)], false),
        two("per version, both too long and the same", [from(0, 9), from(1, 9)], [from(0, 9), from(1, 9)], true),
    ];
    let mut faults = Vec::new();
    for row in &rows {
        if let Err(error) = judged_alike(&client, &etcd, row).await {
            faults.push(format!("{}: {error:#}", row.title));
        }
    }
    ensure!(faults.is_empty(), "{} of {} disagree:\n{}", faults.len(), rows.len(), faults.join("\n"));
    let forgotten = rows.iter().filter(|row| row.upstream_forgets).count();
    println!("check agreement: {} updates of CRDs, {forgotten} upstream defects", rows.len());
    Ok(())
}

async fn judged_alike(client: &Client, etcd: &Client, row: &Row) -> Result<()> {
    let group = unique::group("ratcheting");
    let definition = |lists: &[Vec<String>], new_schema: bool| {
        let versions = lists.iter().enumerate().map(|(index, list)| {
            let name = format!("v{}", index + 1);
            let mut properties = json!({});
            for index in 0..12 {
                properties[format!("f{index}")] = json!({ "type": "string" });
            }
            let mut schema = json!({ "type": "object", "properties": properties });
            if row.own_schemas {
                schema["description"] = name.clone().into();
            }
            if new_schema {
                schema["properties"]["another"] = json!({ "type": "string" });
            }
            let fields: Vec<Value> = list.iter().map(|path| field(path)).collect();
            version(&name, index == 0, Some(&schema), &fields)
        });
        let versions: Vec<Value> = versions.collect();
        fixtures::definition(&group, "Namespaced", ("things", "thing", "Thing"), &versions, &fixtures::no_conversion())
    };
    let without_fields: Vec<Vec<String>> = row.stored.iter().map(|_| Vec::new()).collect();
    objects::create(client, DEFINITIONS, &definition(&without_fields, false)).await?;
    let path = format!("{DEFINITIONS}/things.{group}");
    let stored = definition(&row.stored, false);
    write_stored(client, etcd, &path, &stored).await?;

    // Controllers write conditions meanwhile, which makes our copy too old to be replaced.
    let requested = eventually("the update is judged", Duration::from_secs(20), async || {
        let old = client.get_json(&path).await?;
        let mut new = old.clone();
        new["spec"]["versions"] = definition(&row.new, row.new_schema)["spec"]["versions"].clone();
        let answer = client.send(Request::new(Method::PUT, format!("{path}?dryRun=All")).json(&new)).await?;
        match answer.status.as_u16() {
            200 => Ok((old, new, json!([]))),
            422 => Ok((old, new, answer.json()?["details"]["causes"].clone())),
            _ => anyhow::bail!("{}: {}", answer.status, answer.text()),
        }
    });
    let (old, new, theirs) = requested.await?;
    let validation = validate(&Crd::read(&new)?, Some(&Crd::read(&old)?));
    let ours = validation
        .causes
        .iter()
        .map(|cause| json!({ "reason": cause.reason, "field": cause.field, "message": cause.message }));
    let ours: Value = ours.collect();
    // findTooManySelectableFieldsAllowed intends to permit a list at the top level as well, and upstream's unit test of
    // the function permits it. A real server rejects it all the same. It is validated here as it is meant.
    let too_many_at_the_top =
        |cause: &Value| cause["reason"] == "FieldValueTooMany" && cause["field"] == "spec.selectableFields";
    if is_older()? {
        // No list is tolerated there, wherever it is: what else is wrong is compared.
        let too_many = |cause: &&Value| cause["reason"] == "FieldValueTooMany";
        let rest = |causes: &Value| -> Value {
            causes.as_array().into_iter().flatten().filter(|cause| !too_many(cause)).cloned().collect()
        };
        compare::equal("kube-apiserver", &rest(&theirs), "judge", &rest(&ours))?;
    } else if row.upstream_forgets {
        let theirs = theirs.as_array().context("causes are a list")?;
        ensure!(theirs.iter().any(too_many_at_the_top), "accepted upstream: mended there?");
        let rest = theirs.iter().filter(|cause| !too_many_at_the_top(cause)).cloned().collect();
        compare::equal("kube-apiserver", &rest, "judge", &ours)?;
    } else {
        compare::equal("kube-apiserver", &theirs, "judge", &ours)?;
    }
    ensure!(validation.is_accepted() == row.is_accepted, "accepted: {}", validation.is_accepted());
    objects::delete(client, &path).await?;
    Ok(())
}

/// Replaces the versions of a stored definition behind the server's back, and waits until it sees them.
async fn write_stored(client: &Client, etcd: &Client, path: &str, definition: &Value) -> Result<()> {
    let name = definition["metadata"]["name"].as_str().context("a definition has a name")?;
    let key = BASE64_STANDARD.encode(format!("/registry/apiextensions.k8s.io/customresourcedefinitions/{name}"));
    let call_etcd = async |call: &str, body: &Value| -> Result<Value> {
        etcd.send(Request::new(Method::POST, format!("/v3/kv/{call}")).json(body)).await?.success()?.json()
    };
    // The server writes conditions to a new definition; what it writes after us would undo ours, so both is repeated.
    let seen = eventually("the server sees what was written to etcd", Duration::from_secs(20), async || {
        let current = client.get_json(path).await?;
        if current["spec"]["versions"] == definition["spec"]["versions"] {
            return Ok(());
        }
        let found = call_etcd("range", &json!({ "key": key })).await?;
        let value = BASE64_STANDARD.decode(found["kvs"][0]["value"].as_str().context("no such key")?)?;
        let mut stored: Value = serde_json::from_slice(&value).context("etcd holds no JSON")?;
        stored["spec"]["versions"] = definition["spec"]["versions"].clone();
        call_etcd("put", &json!({ "key": key, "value": BASE64_STANDARD.encode(stored.to_string()) })).await?;
        anyhow::bail!("not yet")
    });
    seen.await
}
