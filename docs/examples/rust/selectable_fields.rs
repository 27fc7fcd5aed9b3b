//! Lists the selectable fields of a kind, and the objects with given values of these fields:
//!
//! ```console
//! $ cargo run -p e2e --example selectable-fields -- URL GROUP/VERSION KIND [FIELD=VALUE...]
//! $ cargo run -p e2e --example selectable-fields -- http://127.0.0.1:8181 stable.example.com/v1 Shirt spec.color=blue
//! ```
//!
//! The fields come from the OpenAPI v3 document of a fieldcache server. A misspelt field is an error before the list
//! request. It shows no credentials, as `fieldcache serve` needs none. `../README.md` says what to change for a View.

#![expect(clippy::print_stdout, reason = "its output is for people")]

use anyhow::{Context, Result, anyhow, bail};
use http::Request;
use kube::api::{Api, DynamicObject, GroupVersionKind, ListParams};
use kube::core::GroupVersion;
use kube::{Client, Config, ResourceExt, discovery};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, group_version, kind, terms @ ..] = arguments.as_slice() else {
        bail!("usage: selectable-fields URL GROUP/VERSION KIND [FIELD=VALUE...]");
    };
    let client = Client::try_from(Config::new(url.parse()?))?;
    let kind = group_version.parse::<GroupVersion>()?.with_kind(kind);
    // One line, as the other two examples print it: `:#` joins an error and its causes.
    run(client, &kind, terms).await.map_err(|error| anyhow!("{} {}: {error:#}", kind.api_version(), kind.kind))
}

async fn run(client: Client, kind: &GroupVersionKind, terms: &[String]) -> Result<()> {
    let root = if kind.group.is_empty() { "api" } else { "apis" };
    let request = Request::get(format!("/openapi/v3/{root}/{}", kind.api_version())).body(Vec::new())?;
    let document: Value = client.request(request).await?;
    let selectable = selectable_fields(&document, kind)?;
    println!("selectable: {}", known(&selectable));
    let selector = field_selector(&selectable, terms)?;
    println!("selector: {selector}");
    let (resource, _) = discovery::pinned_kind(&client, kind).await?;
    let objects: Api<DynamicObject> = Api::all_with(client, &resource);
    for object in objects.list(&ListParams::default().fields(&selector)).await? {
        let namespace = object.namespace().map(|namespace| namespace + "/");
        println!("{}{}", namespace.unwrap_or_default(), object.name_any());
    }
    Ok(())
}

/// The selectable fields of a kind in the document of its group and version.
fn selectable_fields<'a>(document: &'a Value, kind: &GroupVersionKind) -> Result<Vec<&'a str>> {
    let wanted = json!({ "group": kind.group, "version": kind.version, "kind": kind.kind });
    let has_kind = |schema: &&Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|kinds| kinds.contains(&wanted))
    };
    let schemas = document["components"]["schemas"].as_object().context("its OpenAPI document has no schemas")?;
    let schema = schemas.values().find(has_kind).context("its OpenAPI document has no schema of this kind")?;
    let fields = schema["x-kubernetes-selectable-fields"].as_array().into_iter().flatten();
    Ok(fields.filter_map(|field| field["fieldPath"].as_str()).collect())
}

/// The selector of FIELD=VALUE terms, all of whose fields must be selectable.
fn field_selector(selectable: &[&str], terms: &[String]) -> Result<String> {
    let mut selectors = Vec::new();
    for term in terms {
        let Some((field, value)) = term.split_once('=').filter(|(field, _)| selectable.contains(field)) else {
            let what = "not FIELD=VALUE with a selectable field; these are selectable";
            bail!("argument \"{term}\": {what}: {}", known(selectable));
        };
        // These three characters have a meaning in selectors.
        let value = value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
        selectors.push(format!("{field}={value}"));
    }
    Ok(selectors.join(","))
}

fn known(selectable: &[&str]) -> String {
    if selectable.is_empty() { "none".to_owned() } else { selectable.join(", ") }
}
