//! Hostile request bodies: what they take is measured by the operating system, is bounded, and is returned. Anchors and aliases in YAML
//! are taken as a real kube-apiserver takes them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use e2e::accounting;
use e2e::control_plane::ControlPlane;
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Answer, Client, Request};
use futures::future::try_join_all;
use http::Method;

use super::super::manifests::repository;

const REVIEWS: &str = "/apis/view.fieldcache.dev/v1alpha1/placementreviews";
const YAML: &str = "application/yaml";
const JSON: &str = "application/json";

/// Near the largest body.
const SIZE: usize = 3_000_000;

/// Bodies at a time.
const AT_ONCE: usize = 8;

/// What the server may take beside what it has when idle. Four bodies are parsed at a time, each within 16 MiB for its values and 25 MiB
/// for its tokens, and eight are in memory. The rest is what earlier bodies took and the allocator has not returned yet.
const MOST: u64 = 384 << 20;

/// The allocator returns memory some ten seconds after it was freed.
const RETURNED: Duration = Duration::from_secs(90);

fn request(path: &str, media_type: &str, body: impl Into<Bytes>) -> Request {
    let request = Request::new(Method::POST, path).header("content-type", media_type);
    Request { body: body.into(), ..request }
}

/// Repeated until the body is of [`SIZE`], between these.
fn filled(start: &str, piece: &str, end: &str) -> String {
    format!("{start}{}{end}", piece.repeat((SIZE - start.len() - end.len()) / piece.len()))
}

fn hostile() -> Vec<(&'static str, &'static str, String)> {
    let anchors: String = (0..95).map(|index| format!("&a{index} [")).collect();
    let laughs: String = (1..40).map(|level| format!("    a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1)).collect();
    vec![
        (
            "nested anchors",
            YAML,
            filled(&format!("spec: {{pod: {{a: {anchors}"), "[],", &format!("{}}}}}", "]".repeat(95))),
        ),
        (
            "nested anchors in few bytes",
            YAML,
            format!("spec: {{pod: {{a: {anchors}{}{}}}}}", "[],".repeat(20_000), "]".repeat(95)),
        ),
        (
            "nested anchors of a block",
            YAML,
            filled(&format!("spec:\n  pod:\n    a: &a\n    - &b {anchors}{}\n", "]".repeat(95)), "    - &c -\n", ""),
        ),
        ("aliases of aliases", YAML, format!("spec:\n  pod:\n    a0: &a0 x\n{laughs}")),
        ("aliases", YAML, filled("spec:\n  pod:\n    a: &a [0, 0, 0, 0, 0, 0]\n    b:\n", "    - *a\n", "")),
        ("commas", YAML, filled("spec: {pod: [", ",", "]}")),
        ("brackets", YAML, filled("", "[", "")),
        ("dashes", YAML, filled("", "- ", "x")),
        ("question marks", YAML, filled("", "? ", "x")),
        ("members", YAML, filled("spec:\n  pod:\n", "    a: \n", "")),
        ("documents", YAML, filled("", "---\na: 1\n", "")),
        ("errors", YAML, filled("", "---\n]\n", "")),
        ("tags", YAML, filled("", "%TAG !a! x\n", "---\na: 1\n")),
        ("comments", YAML, filled("", "#\n", "a: 1\n")),
        ("a text", YAML, filled("spec: \"", "x", "\"")),
        ("lists", JSON, filled("{\"spec\":{\"pod\":{\"a\":[", "[],", "0]}}}")),
        ("objects", JSON, filled("{\"spec\":{\"pod\":{\"a\":[", "{\"\":0},", "0]}}}")),
        ("nested lists", JSON, filled("{\"spec\":{\"pod\":{\"a\":[", "[[[[0]]]],", "0]}}}")),
        ("numbers", JSON, filled("{\"spec\":{\"pod\":{\"a\":[", "0,", "0]}}}")),
        ("deep lists", JSON, filled("", "[", "")),
        ("many documents", JSON, filled("", "{}", "")),
        ("wrong premises", JSON, filled("{\"spec\":{\"whatIf\":{\"taints\":[", "{},", "{}]}}}")),
        (
            "unknown fields",
            JSON,
            format!("{{\"spec\":{{{}\"pod\":{{}}}}}}", (0..250_000).map(|i| format!("\"{i}\":0,")).collect::<String>()),
        ),
    ]
}

async fn idle(client: &Client, process: u32) -> Result<u64> {
    for _ in 0..20 {
        client.get("/api/v1/pods").await?.success()?;
    }
    accounting::resident_bytes(process)
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bodies_take_bounded_memory_and_return_it() -> Result<()> {
    let fieldcache = Box::pin(Fieldcache::serve_folder(&repository("manifests/placement/disktype")?)).await?;
    let (client, process) = (fieldcache.client(), fieldcache.process().id());
    let before = idle(&client, process).await?;
    let mut highest = before;
    for (name, media_type, body) in hostile() {
        let body = Bytes::from(body);
        let sent = (0..AT_ONCE).map(|_| client.send(request(REVIEWS, media_type, body.clone())));
        for answer in try_join_all(sent).await.with_context(|| name)? {
            ensure!(answer.status.is_client_error(), "{name}: {answer:?}");
            ensure!(answer.body.len() < 100 << 10, "{name}: {} bytes of answer", answer.body.len());
        }
        let peak = accounting::peak_resident_bytes(process)?;
        println!("{name}: {} bytes, peak {} MiB", body.len(), peak >> 20);
        highest = highest.max(peak);
        ensure!(peak < before + MOST, "{name}: {before} bytes became {peak}");
        fieldcache.process().ensure_running()?;
    }
    let after = eventually("memory is returned", RETURNED, async || {
        let after = accounting::resident_bytes(process)?;
        ensure!(after < before + before / 10 + (4 << 20), "{before} bytes before, {highest} at most, {after} now");
        Ok(after)
    })
    .await?;
    println!("resident: {before} bytes before, {highest} at most, {after} after");
    Ok(())
}

fn is_accepted(answer: &Answer) -> Result<bool> {
    match answer.status.as_u16() {
        201 => Ok(true),
        400 => Ok(false),
        _ => anyhow::bail!("{answer:?}"),
    }
}

#[tokio::test]
async fn anchors_and_aliases_of_yaml_bodies_are_taken_as_kube_apiserver_takes_them() -> Result<()> {
    let source = ControlPlane::shared().await?.client();
    let fieldcache = Box::pin(Fieldcache::serve_folder(&repository("manifests/placement/disktype")?)).await?;
    let client = fieldcache.client();
    let anchors: String = (0..95).map(|index| format!("&a{index} [")).collect();
    let chain = |levels: usize, aliases: usize| -> String {
        let level =
            |level: usize| format!("a{level}: &a{level} [{}]", vec![format!("*a{}", level - 1); aliases].join(", "));
        let levels: Vec<String> = (1..levels).map(level).collect();
        format!("{{a0: &a0 [x, x], {}}}", levels.join(", "))
    };
    let repeated = |length: usize, aliases: usize| -> String {
        format!("[&a [{}], {}]", vec!["0"; length].join(", "), vec!["*a"; aliases].join(", "))
    };
    let excessive = "document contains excessive aliasing";
    for (extra, accepted, message) in [
        ("[&a {b: 1}, *a, *a]".to_owned(), true, ""),
        ("[&a {b: 1}, {<<: *a, c: 2}]".to_owned(), true, ""),
        (format!("{anchors}1, 2{}", "]".repeat(95)), true, ""),
        (chain(5, 3), true, ""),
        (repeated(10, 50), true, ""),
        // 99 of 100 nodes may come from aliases, and here more do.
        (repeated(300, 300), false, excessive),
        (chain(12, 9), false, excessive),
        (chain(40, 2), false, excessive),
        ("[*a]".to_owned(), false, ""),
        ("&a [*a]".to_owned(), false, ""),
    ] {
        let shown = &extra[..extra.len().min(80)];
        let object = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{generateName: a-}}\nextra: {extra}\n");
        let path = "/api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation=Ignore";
        let upstream = source.send(request(path, YAML, object)).await?;
        let pod =
            format!("{{extra: {extra}, spec: {{containers: [{{name: main, image: registry.example.com/main}}]}}}}");
        let path = format!("{REVIEWS}?fieldValidation=Ignore");
        let answer = client.send(request(&path, YAML, format!("spec: {{pod: {pod}}}\n"))).await?;
        ensure!(is_accepted(&upstream)? == accepted, "kube-apiserver, {shown}: {upstream:?}");
        ensure!(is_accepted(&answer)? == accepted, "fieldcache, {shown}: {answer:?}");
        for answer in [upstream, answer] {
            ensure!(answer.text().contains(message), "{shown}: {answer:?}");
        }
    }
    Ok(())
}
