//! Does a running fieldcache notice that it did not receive the truth, and not cry wolf?

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::eventually::eventually;
use e2e::faults::proxy::{Fate, Proxy};
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Endpoint, Lines, Next};
use e2e::{fixtures, objects, unique};
use serde_json::{Value, json};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(120);

/// How long objects are changed without a pause.
const CHURN: Duration = Duration::from_secs(15);

/// How long checks may be in coming: the longer one takes, on a machine that stalls for a moment, the more seldom they are.
const CHECKED: Duration = Duration::from_secs(900);

/// Shirts in a group of their own, read through a proxy by a fieldcache that checks itself every second.
struct Stage {
    source: Client,
    collection: String,
    proxy: Proxy,
    fieldcache: Fieldcache,
    metrics: Client,
    group: String,
}

async fn serve(source: &Endpoint, group: &str) -> Result<(Fieldcache, Client)> {
    let resource = format!("shirts.v1.{group}");
    let arguments = ["--server", source.base(), "--resource", &resource, "--self-check-interval", "1s"];
    let arguments = arguments.into_iter().chain(["--metrics-address", "127.0.0.1:0"]).map(str::to_owned);
    let fieldcache = Box::pin(Fieldcache::serve(arguments)).await?;
    let reported = fieldcache.process().line("the line with the address of the metrics", SOON, |line| {
        Some(line.strip_prefix("metrics: ")?.strip_suffix("/metrics")?.to_owned())
    });
    let metrics = Endpoint::plain(&reported.await?)?.client();
    Ok((fieldcache, metrics))
}

/// Checks of the group's shirts that ended with this result.
async fn checks(metrics: &Client, group: &str, result: &str) -> Result<u64> {
    let series = format!(
        "fieldcache_self_check_total{{group=\"{group}\",version=\"v1\",resource=\"shirts\",result=\"{result}\"}} "
    );
    let text = metrics.get("/metrics").await?.success()?.text();
    let value = text.lines().find_map(|line| line.strip_prefix(&series));
    value.map_or(Ok(0), |value| value.parse().with_context(|| format!("no number: {value}")))
}

impl Stage {
    async fn set() -> Result<Stage> {
        let control_plane = ControlPlane::shared().await?;
        let source = control_plane.client();
        let group = unique::group("checked");
        objects::create_definition(&source, &fixtures::shirts(&group, &fixtures::no_conversion())).await?;
        let collection = format!("/apis/{group}/v1/shirts");
        let proxy = Proxy::of_requests(control_plane.endpoint()).await?;
        let (fieldcache, metrics) = serve(proxy.endpoint(), &group).await?;
        Ok(Stage { source, collection, proxy, fieldcache, metrics, group })
    }

    fn shirt(&self, name: &str, color: &str) -> Value {
        json!({
            "apiVersion": format!("{}/v1", self.group), "kind": "Shirt", "metadata": { "name": name },
            "spec": { "color": color },
        })
    }

    async fn put(&self, name: &str, color: &str) -> Result<()> {
        let path = format!("{}/{name}", self.collection);
        if self.source.get(&path).await?.status == 404 {
            objects::create(&self.source, &self.collection, &self.shirt(name, color)).await?;
        } else {
            objects::merge(&self.source, &path, &json!({ "spec": { "color": color } })).await?;
        }
        Ok(())
    }

    async fn delete(&self, name: &str) -> Result<()> {
        objects::delete(&self.source, &format!("{}/{name}", self.collection)).await.map(|_| ())
    }

    async fn checks(&self, result: &str) -> Result<u64> {
        checks(&self.metrics, &self.group, result).await
    }

    async fn another_good_check(&self) -> Result<()> {
        let before = self.checks("ok").await?;
        eventually("another check finds nothing", CHECKED, async || {
            ensure!(self.checks("ok").await? > before, "not yet");
            Ok(())
        })
        .await
    }

    async fn listed(&self, client: &Client) -> Result<Value> {
        let mut list = client.get_json(&self.collection).await?;
        // The list's own version moves with every other resource.
        list["metadata"] = Value::Null;
        Ok(list)
    }

    /// Waits until fieldcache shows what the API server shows.
    async fn agrees(&self) -> Result<()> {
        eventually("both lists are the same", CHECKED, async || {
            let (own, truth) = (self.listed(&self.fieldcache.client()).await?, self.listed(&self.source).await?);
            ensure!(own == truth, "fieldcache has {own}\nthe API server {truth}");
            Ok(())
        })
        .await
    }

    async fn watch(&self, query: &str) -> Result<Lines> {
        self.fieldcache.client().watch(&format!("{}?watch=1{query}", self.collection)).await
    }
}

/// Reads a watch up to its ERROR event, which must be 410 Expired and the last.
async fn expires(watch: &mut Lines) -> Result<()> {
    loop {
        let event = watch.event(SOON).await?;
        if event["type"] == "ERROR" {
            let object = &event["object"];
            ensure!(object["code"] == 410 && object["reason"] == "Expired" && object["kind"] == "Status", "{event}");
            ensure!(watch.next(SOON).await? == Next::End, "something came after the ERROR");
            return Ok(());
        }
    }
}

#[tokio::test]
async fn a_source_that_hides_a_change_is_found_out() -> Result<()> {
    let stage = Box::pin(Stage::set()).await?;
    for name in ["a", "b", "c", "d"] {
        stage.put(name, "blue").await?;
    }
    stage.agrees().await?;
    stage.another_good_check().await?;
    ensure!(stage.checks("mismatch").await? == 0, "nothing is wrong yet");

    for (round, kind) in ["ADDED", "MODIFIED", "DELETED"].into_iter().enumerate() {
        let mut open = stage.watch("&allowWatchBookmarks=true").await?;
        let mut selected = stage.watch("&fieldSelector=spec.color%3Dnone&resourceVersion=0").await?;
        let reported = stage.fieldcache.client().get_json(&stage.collection).await?;
        let version = reported["metadata"]["resourceVersion"].as_str().context("a list has a version")?.to_owned();
        let meant = format!("\"type\":\"{kind}\"");
        stage.proxy.tamper_once(&stage.collection, Fate::Dropped, move |line| line.contains(&meant));
        match kind {
            "ADDED" => stage.put("hidden", "red").await?,
            "MODIFIED" => stage.put("b", "red").await?,
            _ => stage.delete("c").await?,
        }
        // Only when something later was reported is the store wrong instead of behind.
        let later = if kind == "MODIFIED" { stage.delete("d").await } else { stage.put("a", kind).await };
        later?;
        let found = eventually("a check finds it", CHECKED, async || {
            let mismatches = stage.checks("mismatch").await?;
            ensure!(mismatches > round as u64, "not yet");
            Ok(mismatches)
        });
        ensure!(found.await? == round as u64 + 1, "{kind}: found once");
        ensure!(stage.proxy.tampered() == round as u64 + 1, "{kind}: one line was dropped");
        expires(&mut open).await.with_context(|| format!("{kind}: the open watch"))?;
        expires(&mut selected).await.with_context(|| format!("{kind}: a watch that received nothing"))?;
        stage.agrees().await.context(kind)?;
        let mut resumed = stage.watch(&format!("&resourceVersion={version}")).await?;
        expires(&mut resumed).await.with_context(|| format!("{kind}: resuming from before"))?;
        stage.another_good_check().await.context(kind)?;
        ensure!(stage.checks("mismatch").await? == round as u64 + 1, "{kind}: the new store is correct");
        stage.proxy.honest();
    }
    Ok(())
}

#[tokio::test]
async fn a_source_that_changes_what_it_says_is_found_out() -> Result<()> {
    let stage = Box::pin(Stage::set()).await?;
    stage.put("a", "blue").await?;
    stage.agrees().await?;
    stage.proxy.tamper(&stage.collection, |line| {
        if line.contains("\"name\":\"ghost\"") {
            Fate::Changed(line.replace("\"name\":\"ghost\"", "\"name\":\"other\""))
        } else {
            Fate::Kept
        }
    });
    stage.put("ghost", "red").await?;
    eventually("a check finds it", CHECKED, async || {
        ensure!(stage.checks("mismatch").await? > 0, "not yet");
        Ok(())
    })
    .await?;
    stage.proxy.honest();
    // The relist was read through the same liar, so another one may be needed.
    stage.agrees().await
}

#[tokio::test]
async fn honest_churn_is_never_a_mismatch() -> Result<()> {
    let stage = Box::pin(Stage::set()).await?;
    for number in 0..60 {
        stage.put(&format!("s{number:02}"), "blue").await?;
    }
    let (second, second_metrics) = serve(stage.fieldcache.endpoint(), &stage.group).await?;
    stage.another_good_check().await?;
    let mut watch = stage.watch("&resourceVersion=0").await?;
    let is_enough = AtomicBool::new(false);
    let churn = async |worker: usize| -> Result<u64> {
        let mut writes = 0;
        while !is_enough.load(Ordering::Relaxed) {
            let number = (writes as usize * 7 + worker) % 60;
            let name = format!("s{number:02}");
            // Each worker has objects of its own, so that no write meets one that is gone.
            if number % 3 == worker {
                if writes % 5 == 0 && stage.source.get(&format!("{}/{name}", stage.collection)).await?.status == 200 {
                    stage.delete(&name).await?;
                } else {
                    stage.put(&name, &format!("color{writes}")).await?;
                }
            }
            writes += 1;
        }
        Ok(writes)
    };
    let before = [stage.checks("ok").await?, checks(&second_metrics, &stage.group, "ok").await?];
    // Checks come the more seldom the longer one takes.
    let enough = async {
        let begun = std::time::Instant::now();
        let checked = eventually("four checks of each store in the churn", CHECKED, async || {
            let good = [stage.checks("ok").await?, checks(&second_metrics, &stage.group, "ok").await?];
            ensure!(
                begun.elapsed() > CHURN && good[0] > before[0] + 3 && good[1] > before[1] + 3,
                "{before:?}, {good:?}"
            );
            Ok(())
        })
        .await;
        is_enough.store(true, Ordering::Relaxed);
        checked
    };
    let (first, next, last, checked) = tokio::join!(churn(0), churn(1), churn(2), enough);
    let writes = first? + next? + last?;
    checked?;
    stage.agrees().await?;
    stage.another_good_check().await?;
    for (name, metrics) in [("of the API server", &stage.metrics), ("of a fieldcache", &second_metrics)] {
        let counts = [
            checks(metrics, &stage.group, "ok").await?,
            checks(metrics, &stage.group, "mismatch").await?,
            checks(metrics, &stage.group, "skipped").await?,
            checks(metrics, &stage.group, "failed").await?,
        ];
        println!("copy {name}: {writes} turns of churn; checks ok, mismatch, skipped, failed: {counts:?}");
        ensure!(counts[1] == 0 && counts[3] == 0, "copy {name}: {counts:?}");
    }
    drop(second);
    // The watch lived through all of it.
    stage.put("s00", "last").await?;
    let goes_on = async {
        loop {
            let event = watch.event(SOON).await?;
            ensure!(event["type"] != "ERROR", "{event}");
            if event["object"]["spec"]["color"] == "last" {
                return Ok(());
            }
        }
    };
    timeout(SOON, goes_on).await.context("the watch does not come to the end of the churn")?
}
