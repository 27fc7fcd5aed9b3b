//! How soon a change of a definition takes effect in selectors, in OpenAPI and in the SelectableResource.
//! kube-apiserver runs beside it, because its own OpenAPI and selectors follow the change too.
//!
//! A field is added and taken away in turn; each time all places are queried repeatedly until they show it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::kubectl::Kubectl;
use e2e::run_directory::RunDirectory;
use e2e::{fixtures, objects, statistics, unique};
use serde_json::{Value, json};
use tokio::time::interval;

use super::options::Options;
use super::report::{Line, Report, duration, micros};

/// The row of this file.
pub(crate) const ROWS: [&str; 1] = ["definitions"];

/// The median of all places together may be this.
const ALLOWED: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(60);
/// The time between two requests.
const STEP: Duration = Duration::from_millis(10);

/// A place where a change is to be seen.
struct Place<'a> {
    name: &'static str,
    client: &'a Client,
    path: String,
    /// Whether an answer has the field.
    shows: fn(u16, &Value) -> bool,
}

/// The row.
pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let rounds = if options.quick { 4 } else { 20 };
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let upstream = control_plane.client();
    let kubectl = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
    kubectl.succeed(&["apply", "--server-side", "-k", concat!(env!("CARGO_MANIFEST_DIR"), "/../crds")]).await?;
    let group = unique::group("defined");
    let definition = fixtures::shirts(&group, &fixtures::no_conversion());
    objects::create_definition(&upstream, &definition).await?;
    let folder = RunDirectory::create("defined")?;
    let arguments = ["--namespace", "default", "--identity", "one"].map(str::to_owned);
    let operator = Box::pin(Fieldcache::operator(control_plane.kubeconfig(), folder.path(), arguments)).await?;
    let somebody = control_plane.authority().client("somebody", Some("system:masters"))?;
    let own = operator.as_client(folder.path(), &somebody)?.client();
    let caches = "/apis/fieldcache.dev/v1alpha1/fieldcaches";
    eventually("the kind is served", SOON, async || {
        ensure!(upstream.get(caches).await?.status == 200, "not yet");
        Ok(())
    })
    .await?;
    let cache = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": format!("shirts.{group}") },
        "spec": { "group": group, "resource": "shirts", "versions": ["v1"] },
    });
    objects::create(&upstream, caches, &cache).await?;
    let selected = format!("/apis/{group}/v1/shirts?fieldSelector=spec.added%3Dx");
    let document = format!("/openapi/v3/apis/{group}/v1");
    let described = format!("/apis/fieldcache.dev/v1alpha1/selectableresources/shirts.{group}");
    let is_published: fn(u16, &Value) -> bool =
        |_, answer| answer["components"]["schemas"].to_string().contains("\"fieldPath\":\"spec.added\"");
    let is_selected: fn(u16, &Value) -> bool = |status, _| status == 200;
    let is_described: fn(u16, &Value) -> bool =
        |_, answer| answer["status"]["fieldPaths"].as_array().is_some_and(|paths| paths.contains(&json!("spec.added")));
    let places = [
        Place { name: "selectors", client: &own, path: selected.clone(), shows: is_selected },
        Place { name: "SelectableResource", client: &upstream, path: described, shows: is_described },
        Place { name: "OpenAPI", client: &own, path: document.clone(), shows: is_published },
        Place { name: "kube-apiserver's selectors", client: &upstream, path: selected, shows: is_selected },
        Place { name: "kube-apiserver's OpenAPI", client: &upstream, path: document, shows: is_published },
    ];
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/shirts.{group}");
    let mut spec = upstream.get_json(&path).await?["spec"].clone();
    let version = spec["versions"]
        .as_array_mut()
        .and_then(|versions| versions.iter_mut().find(|version| version["name"] == "v1"))
        .context("v1")?;
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["added"] = json!({ "type": "string" });
    let without = spec.clone();
    let version = spec["versions"]
        .as_array_mut()
        .and_then(|versions| versions.iter_mut().find(|version| version["name"] == "v1"))
        .context("v1")?;
    version["selectableFields"].as_array_mut().context("fields")?.push(json!({ "jsonPath": ".spec.added" }));
    let with = spec;
    objects::merge(&upstream, &path, &json!({ "spec": without })).await?;
    let mut found: Vec<Vec<Duration>> = vec![Vec::new(); places.len()];
    let mut together = Vec::new();
    for round in 0..=rounds {
        let has = round % 2 == 0;
        objects::merge(&upstream, &path, &json!({ "spec": if has { &with } else { &without } })).await?;
        let changed = Instant::now();
        let shown = futures::future::try_join_all(places.iter().map(|place| shown(place, has, changed))).await?;
        // The first finds everything cold, and the definition just changed.
        if round > 0 {
            together.extend(shown[..3].iter().max());
            found.iter_mut().zip(&shown).for_each(|(durations, took)| durations.push(*took));
        }
    }
    let half = statistics::percentile(&together, 0.5);
    let each: Vec<String> = places
        .iter()
        .zip(&found)
        .map(|(place, durations)| format!("{} {}", place.name, duration(statistics::percentile(durations, 0.5))))
        .collect();
    let line = Line::new(
        "definitions",
        format!("a changed field of a definition is followed, median of {rounds}"),
        format!("{} in all places of fieldcache; {}", duration(half), each.join(", ")),
    );
    report.add(line.target("≤ 1 s", half <= ALLOWED).figure("medianMicros", micros(half)));
    operator.process().ensure_running()
}

/// How long after the change a place shows it.
async fn shown(place: &Place<'_>, has: bool, changed: Instant) -> Result<Duration> {
    let mut steps = interval(STEP);
    loop {
        steps.tick().await;
        let answer = place.client.get(&place.path).await?;
        let body = answer.json().unwrap_or_default();
        if (place.shows)(answer.status.as_u16(), &body) == has {
            return Ok(changed.elapsed());
        }
        ensure!(changed.elapsed() < SOON, "{} does not follow: {}", place.name, answer.text());
    }
}
