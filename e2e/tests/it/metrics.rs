//! What a scraper of a running fieldcache reads: exactly the requests that were made, and what its stores hold.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Endpoint, Request};
use e2e::run_directory::RunDirectory;
use hyper::Method;

const DEADLINE: Duration = Duration::from_secs(30);

/// Series with their labels -> value.
type Series = BTreeMap<String, f64>;

fn series(text: &str) -> Result<Series> {
    let samples = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let read = samples.map(|line| {
        let (name, value) = line.rsplit_once(' ').with_context(|| format!("no sample: {line}"))?;
        Ok((name.to_owned(), value.parse().with_context(|| format!("no number: {line}"))?))
    });
    read.collect()
}

async fn scrape(metrics: &Client) -> Result<Series> {
    series(&metrics.get("/metrics").await?.success()?.text())
}

/// The series of one metric that have changed, and by how much, without the metric's name.
fn increments(metric: &str, before: &Series, after: &Series) -> BTreeMap<String, f64> {
    let changed = after.iter().filter_map(|(name, value)| {
        let labels = name.strip_prefix(metric)?;
        let increment = value - before.get(name).copied().unwrap_or(0.0);
        (labels.starts_with('{') && increment != 0.0).then(|| (labels.to_owned(), increment))
    });
    changed.collect()
}

fn kind(verb: &str, resource: &str, code: u16, path: &str, field: bool, label: bool) -> String {
    let (group, version) = match resource {
        "" => ("", ""),
        "pods" => ("", "v1"),
        _ => ("stable.example.com", "v1"),
    };
    format!(
        "{{verb=\"{verb}\",group=\"{group}\",version=\"{version}\",resource=\"{resource}\",code=\"{code}\",path=\"{path}\",\
         has_field_selector=\"{field}\",has_label_selector=\"{label}\"}}"
    )
}

fn write_folder(directory: &RunDirectory) -> Result<String> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/samples");
    for (name, path) in [("shirts-crd.yaml", "shirts-crd.yaml"), ("shirts.yaml", "objects/shirts.yaml")] {
        directory.write(name, std::fs::read_to_string(samples.join(path))?)?;
    }
    Ok(directory.path().display().to_string())
}

#[tokio::test]
async fn a_scrape_counts_exactly_the_requests_that_were_made() -> Result<()> {
    let directory = RunDirectory::create("metrics")?;
    let folder = write_folder(&directory)?;
    let arguments = ["--dir", &folder, "--metrics-address", "127.0.0.1:0"].map(str::to_owned);
    let fieldcache = Box::pin(Fieldcache::serve(arguments)).await?;
    let reported = fieldcache.process().line("the line with the address of the metrics", DEADLINE, |line| {
        Some(line.strip_prefix("metrics: ")?.strip_suffix("/metrics")?.to_owned())
    });
    let metrics = Endpoint::plain(&reported.await?)?.client();
    let client = fieldcache.client();
    let shirts = "/apis/stable.example.com/v1/shirts";

    // One request of each kind comes before, so that what is counted is not only what is new.
    client.get_json(shirts).await?;
    let before = scrape(&metrics).await?;
    let all = client.get_json(shirts).await?;
    let objects = all["items"].as_array().context("items")?.len();
    ensure!(objects > 0, "the samples have shirts");
    for _ in 0..3 {
        client.get_json(&format!("{shirts}?fieldSelector=spec.color%3Dblue")).await?;
    }
    let none = client.get_json(&format!("{shirts}?fieldSelector=spec.color%3Dno-such-color")).await?;
    ensure!(none["items"].as_array().is_some_and(Vec::is_empty), "nothing is found: {none}");
    let refused = client.get(&format!("{shirts}?fieldSelector=spec.no-such-field%3Dx")).await?;
    ensure!(refused.status == 400, "{}", refused.text());
    let missing = client.get("/apis/stable.example.com/v1/namespaces/default/shirts/no-such-shirt").await?;
    ensure!(missing.status == 404, "{}", missing.text());
    let created = Request::new(Method::POST, "/api/v1/namespaces/default/pods").json(&serde_json::json!({}));
    ensure!(client.send(created).await?.status == 405, "nothing is written");
    client.get_json("/api/v1/pods?labelSelector=app%3Dnone").await?;
    ensure!(client.get("/apis/no.such.group/v1/things/token-of-somebody").await?.status == 404, "no such path");
    client.get("/readyz").await?.success()?;
    let mut watch = client.watch(&format!("{shirts}?watch=1&fieldSelector=spec.color%3Dblue")).await?;
    watch.event(DEADLINE).await?;

    let expected: BTreeMap<String, f64> = [
        (kind("LIST", "shirts", 200, "scan", false, false), 1.0),
        (kind("LIST", "shirts", 200, "index", true, false), 4.0),
        (kind("LIST", "shirts", 400, "", true, false), 1.0),
        (kind("GET", "shirts", 404, "index", false, false), 1.0),
        (kind("POST", "pods", 405, "", false, false), 1.0),
        (kind("LIST", "pods", 200, "index", false, true), 1.0),
        (kind("GET", "", 404, "", false, false), 1.0),
        (kind("GET", "", 200, "", false, false), 1.0),
    ]
    .into();
    let during = scrape(&metrics).await?;
    for metric in ["fieldcache_request_total", "fieldcache_request_duration_seconds_count"] {
        let reported = increments(metric, &before, &during);
        ensure!(reported == expected, "{metric}: {reported:#?}\nexpected {expected:#?}");
    }
    let store = |name: &str| {
        format!("fieldcache_store_{name}{{group=\"stable.example.com\",version=\"v1\",resource=\"shirts\"}}")
    };
    for (name, wanted) in
        [("objects", objects as f64), ("open_watches", 1.0), ("unreadable_objects", 0.0), ("relists_total", 0.0)]
    {
        let reported = during.get(&store(name));
        ensure!(reported == Some(&wanted), "{name}: {reported:?}, expected {wanted}");
    }

    drop(watch);
    let counted = eventually("the end of the watch is counted", DEADLINE, async || {
        let after = scrape(&metrics).await?;
        let reported = increments("fieldcache_request_total", &during, &after);
        ensure!(!reported.is_empty(), "nothing yet");
        Ok((reported, after))
    });
    let (reported, after) = counted.await?;
    let expected = BTreeMap::from([(kind("WATCH", "shirts", 200, "index", true, false), 1.0)]);
    ensure!(reported == expected, "{reported:#?}\nexpected {expected:#?}");
    ensure!(after.get(&store("open_watches")) == Some(&0.0), "the watch is closed");

    let names: Vec<&str> = after.keys().map(String::as_str).collect();
    for series in
        ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"]
    {
        ensure!(after.get(series).is_some_and(|value| *value > 0.0), "{series}: {:?}", after.get(series));
    }
    ensure!(
        names.iter().any(|name| name.contains("index=\"field\",field=\"spec.color\"")),
        "a field's index: {names:#?}"
    );
    ensure!(!names.iter().any(|name| name.contains("token-of-somebody") || name.contains("no-such")), "{names:#?}");
    for (path, code) in [("/", 404), ("/api/v1/pods", 404), ("/metrics", 200)] {
        ensure!(metrics.get(path).await?.status == code, "{path} beside the metrics");
    }
    ensure!(client.get("/metrics").await?.status == 404, "metrics are at their own address only");
    Ok(())
}

#[tokio::test]
async fn explain_leaves_the_body_unchanged() -> Result<()> {
    let directory = RunDirectory::create("explain")?;
    let folder = write_folder(&directory)?;
    let fieldcache = Box::pin(Fieldcache::serve_folder(Path::new(&folder))).await?;
    let client = fieldcache.client();
    let shirts = "/apis/stable.example.com/v1/shirts";
    for (query, path) in
        [("", "scan"), ("fieldSelector=spec.color%3Dblue", "index"), ("fieldSelector=spec.color%3Dnone", "index")]
    {
        let plain = client.get(&format!("{shirts}?{query}")).await?.success()?;
        ensure!(plain.header("fieldcache-explain").is_none(), "{query}: no client requested");
        let explained = client.get(&format!("{shirts}?explain=true&{query}")).await?.success()?;
        ensure!(explained.body == plain.body, "{query}: the body is another one");
        let header = explained.header("fieldcache-explain").with_context(|| format!("{query}: no header"))?;
        let reported: serde_json::Value = serde_json::from_str(header)?;
        let items = plain.json()?["items"].as_array().context("items")?.len();
        ensure!(reported["hits"] == items && reported["path"] == path, "{query}: {reported}, {items} items");
        ensure!(
            reported["microseconds"].is_u64() && reported["candidates"].is_u64() && reported["bytes"].is_u64(),
            "{reported}"
        );
        if !query.is_empty() {
            ensure!(reported["plan"].as_str().is_some_and(|plan| plan.starts_with("spec.color=")), "{reported}");
        }
    }
    Ok(())
}
