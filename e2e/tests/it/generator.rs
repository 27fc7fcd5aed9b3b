//! The load source of the benchmarks, and what the benchmarks measure with: a figure is worth as much as these.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::corpus::pods::Pods;
use e2e::corpus::shirts::Shirts;
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::generator::objects::{Change, prepare};
use e2e::generator::{Beside, Corpus, Generator, serve};
use e2e::http::{Client, Endpoint, Lines, Next, Request};
use e2e::process::{Invocation, Process};
use e2e::run_directory::RunDirectory;
use e2e::{accounting, compare, statistics};
use http::Method;
use serde_json::Value;
use tokio::net::TcpListener;

const SOON: Duration = Duration::from_secs(20);

/// A generator in this process, for as long as the runtime of the test lives.
async fn shirts(count: u64) -> Result<(Shirts, Client, String)> {
    let shirts = Shirts { count, ..Shirts::default() };
    let generator = Arc::new(Generator::prepare(&Corpus::Shirts(shirts.clone()), Beside { small: 2, copies: 0 })?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let main = generator.main.clone();
    tokio::spawn(serve::serve(generator, listener));
    tokio::spawn(async move { main.run().await });
    Ok((shirts, Endpoint::plain(&address)?.client(), address))
}

async fn command(client: &Client, command: &str) -> Result<Value> {
    client.send(Request::new(Method::POST, format!("/generator/{command}"))).await?.success()?.json()
}

async fn streaming_list(client: &Client, path: &str) -> Result<Lines> {
    client.watch(&format!("{path}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true")).await
}

fn version(object: &Value) -> Result<u64> {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).context("no version")
}

#[test]
fn a_change_touches_what_it_promises_and_carries_the_time() -> Result<()> {
    let corpora: [(&str, Change, Value, &[&str]); 2] = [
        (
            "shirt",
            Change::SHIRT,
            Shirts::default().stored(77),
            &[".metadata.resourceVersion", ".spec.order", ".status.observedGeneration", ".status.phase"],
        ),
        (
            "Pod",
            Change::POD,
            Pods::default().stored(77),
            &[
                ".metadata.annotations[\"kubectl.kubernetes.io/restartedAt\"]",
                ".metadata.resourceVersion",
                ".spec.nodeName",
                ".status.phase",
            ],
        ),
    ];
    for (name, change, object, touched) in corpora {
        let before = serde_json::to_vec(&object)?;
        assert_eq!(change.sent_at(&before), None, "{name}: no command sent the first state");
        let mut after = Vec::new();
        // Two of three successive changes have another phase than the object began with.
        let changed = (0..3).find_map(|turn| {
            after.clear();
            change.apply(&before, 5_000_000_000 + turn, 1_790_000_000_123_456_789, &mut after).ok()?;
            let changed: Value = serde_json::from_slice(&after).ok()?;
            (changed["status"]["phase"] != object["status"]["phase"]).then_some(changed)
        });
        let changed = changed.with_context(|| format!("{name}: no change of the phase"))?;
        let paths: Vec<String> =
            compare::differences(&object, &changed).into_iter().map(|difference| difference.path).collect();
        assert_eq!(paths, touched, "{name}");
        assert_eq!(change.sent_at(&after), Some(1_790_000_000_123_456_789), "{name}");
        assert!(version(&changed)? >= 5_000_000_000, "{name}");
    }
    Change::SHIRT.apply(b"{}", 1, 1, &mut Vec::new()).expect_err("an object without the members");
    Ok(())
}

#[test]
fn prepared_objects_are_those_of_the_corpus_in_their_order() -> Result<()> {
    let shirts = Shirts { count: 7, ..Shirts::default() };
    for count in [0, 1, 2, 7] {
        let objects = prepare(count, |index| shirts.stored(index))?;
        assert_eq!(objects.len() as u64, count, "as many as requested");
        for (index, object) in objects.iter().enumerate() {
            let object: Value = serde_json::from_slice(object)?;
            compare::equal("prepared", &object, "corpus", &shirts.stored(index as u64))?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_streaming_list_sends_every_object_then_its_end_then_changes_in_order() -> Result<()> {
    let (corpus, client, _) = shirts(50).await?;
    let mut watch = streaming_list(&client, &corpus.everywhere()).await?;
    for index in 0..50 {
        let event = watch.event(SOON).await?;
        assert_eq!(event["type"], "ADDED");
        compare::equal("event", &event["object"], "corpus", &corpus.stored(index))?;
    }
    let end = watch.event(SOON).await?;
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let listed_at = version(&end["object"])?;

    let burst = command(&client, "burst?events=120").await?;
    assert_eq!(burst["version"], listed_at + 120);
    let mut states = std::collections::BTreeMap::new();
    for number in 1..=120 {
        let event = watch.event(SOON).await?;
        assert_eq!((&event["type"], version(&event["object"])?), (&"MODIFIED".into(), listed_at + number));
        states.insert(event["object"]["metadata"]["name"].to_string(), event["object"].clone());
    }
    assert_eq!(states.len(), 50, "120 changes meet all of 50 objects");
    let list = client.get_json(&corpus.everywhere()).await?;
    assert_eq!(version(&list)?, listed_at + 120);
    for object in list["items"].as_array().context("no items")? {
        compare::equal("listed", object, "event", &states[&object["metadata"]["name"].to_string()])?;
    }

    let resumed = format!("{}?watch=1&resourceVersion={}", corpus.everywhere(), listed_at + 118);
    let mut resumed = client.watch(&resumed).await?;
    for number in [119, 120] {
        assert_eq!(version(&resumed.event(SOON).await?["object"])?, listed_at + number, "a watch from a version");
    }
    Ok(())
}

#[tokio::test]
async fn a_rate_is_kept_and_churn_deletes_and_creates_in_turn() -> Result<()> {
    let (corpus, client, _) = shirts(30).await?;
    let from = client.get_json("/generator/state").await?["version"].as_u64().context("no version")?;
    let mut watch = client.watch(&format!("{}?watch=1&resourceVersion={from}", corpus.everywhere())).await?;
    command(&client, "rate?updates=0&churn=500").await?;
    let mut absent = None;
    for number in 0..20 {
        let event = watch.event(SOON).await?;
        let name = event["object"]["metadata"]["name"].clone();
        let expected = if number % 2 == 0 { "DELETED" } else { "ADDED" };
        assert_eq!(event["type"], expected, "event {number}");
        match absent.take() {
            None => absent = Some(name),
            Some(deleted) => assert_eq!(name, deleted, "what was deleted comes back"),
        }
    }
    command(&client, "rate?updates=0&churn=0").await?;
    let sent = async || client.get_json("/generator/state").await?["sent"].as_u64().context("no count");
    let (before, began) = (sent().await?, std::time::Instant::now());
    command(&client, "rate?updates=1000").await?;
    eventually("200 updates are sent", SOON, async || {
        ensure!(sent().await? >= before + 200, "not yet");
        Ok(())
    })
    .await?;
    // No rate is exceeded; how far a busy machine stays below is not this test's.
    let made = sent().await? - before;
    let most = began.elapsed().as_secs_f64() * 1000.0 + 2.0;
    assert!(made as f64 <= most, "{made} of {most}");
    Ok(())
}

#[tokio::test]
async fn watchers_that_were_ended_and_versions_that_are_forgotten_must_list() -> Result<()> {
    let (corpus, client, _) = shirts(10).await?;
    let from = client.get_json("/generator/state").await?["version"].as_u64().context("no version")?;
    let mut watch = client.watch(&format!("{}?watch=1&resourceVersion={from}", corpus.everywhere())).await?;
    let ended = command(&client, "relist?changed=1").await?;
    assert_eq!((&ended["ended"], &ended["version"]), (&1.into(), &(from + 11).into()));
    let event = watch.event(SOON).await?;
    assert_eq!((&event["type"], &event["object"]["code"]), (&"ERROR".into(), &410.into()));
    assert_eq!(watch.next(SOON).await?, Next::End, "the watch is over");
    let mut late = client.watch(&format!("{}?watch=1&resourceVersion={from}", corpus.everywhere())).await?;
    assert_eq!(late.event(SOON).await?["object"]["code"], 410, "a version before the end");
    let mut again = streaming_list(&client, &corpus.everywhere()).await?;
    for _ in 0..10 {
        assert!(version(&again.event(SOON).await?["object"])? > from, "every object has changed");
    }
    assert_eq!(version(&again.event(SOON).await?["object"])?, from + 11);
    Ok(())
}

#[tokio::test]
async fn fieldcache_follows_the_generator() -> Result<()> {
    let (corpus, client, address) = shirts(300).await?;
    let fieldcache = Fieldcache::serve(["--server".to_owned(), address]).await?;
    let own = fieldcache.client();
    let everywhere = corpus.everywhere();
    let same = async || {
        let held = client.get_json(&everywhere).await?;
        let mut served = own.get_json(&everywhere).await?;
        let mut held_items = held["items"].clone();
        for items in [&mut held_items, &mut served["items"]] {
            let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            items.as_array_mut().context("no items")?.sort_by_key(name);
        }
        compare::equal("held", &held_items, "served", &served["items"])
    };
    eventually("the first list is served", SOON, same).await?;
    command(&client, "burst?events=500").await?;
    eventually("changes are served", SOON, same).await?;
    command(&client, "relist?changed=1").await?;
    eventually("the second list is served", SOON, same).await?;
    command(&client, "burst?events=10").await?;
    eventually("changes after it are served", SOON, same).await?;
    let small = own.get_json("/apis/small.example.com/v1/smalls001?fieldSelector=spec.color%3Dblue").await?;
    assert_eq!(small["items"].as_array().map(Vec::len), Some(3), "a small resource");
    Ok(())
}

#[test]
fn medians_and_percentiles_are_those_of_the_books() {
    for (values, expected) in
        [(&[][..], 0.0), (&[3.0][..], 3.0), (&[5.0, 1.0, 3.0][..], 3.0), (&[4.0, 1.0, 3.0, 2.0][..], 2.5)]
    {
        assert!((statistics::median(values) - expected).abs() < 1e-12, "the median of {values:?}");
    }
    let hundred: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
    for (share, expected) in [(0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100), (0.0, 1)] {
        assert_eq!(statistics::percentile(&hundred, share), Duration::from_millis(expected), "percentile {share}");
    }
    assert_eq!(statistics::percentile(&[], 0.99), Duration::ZERO, "of nothing");
    assert_eq!(statistics::percentile(&[Duration::from_secs(1)], 0.01), Duration::from_secs(1), "of one");
}

#[test]
fn cpu_is_read_behind_any_name() -> Result<()> {
    let fields = "S 1 1 1 0 -1 4194560 100 0 0 0 123 45 6 7 20 0 3 0 999 1000 200";
    for name in ["fieldcache", "a b", "(odd) name)"] {
        let cpu = accounting::cpu_of_stat(&format!("42 ({name}) {fields}"))?;
        assert_eq!(cpu, Duration::from_millis(1680), "{name}: user and system, no children");
    }
    accounting::cpu_of_stat("42 (x) S 1").expect_err("too short");
    Ok(())
}

#[tokio::test]
async fn a_forgotten_peak_of_memory_starts_again() -> Result<()> {
    let directory = RunDirectory::create("accounting")?;
    let script = "x=$(head -c 60000000 /dev/zero | tr '\\0' a); x=; echo ready; sleep 60 & wait";
    let shell = Invocation::new("/bin/sh".into()).arguments(["-c", script]);
    let process = Process::start("shell", &shell, directory.path())?;
    process.line("the shell is ready", SOON, |line| (line == "ready").then_some(())).await?;
    let peak = accounting::peak_resident_bytes(process.id())?;
    assert!(peak > 60_000_000, "{peak} bytes at most");
    accounting::forget_peak(process.id())?;
    let resident = accounting::resident_bytes(process.id())?;
    let peak = accounting::peak_resident_bytes(process.id())?;
    assert!(peak < 60_000_000 && resident < 60_000_000, "{peak} bytes at most, {resident} now");
    Ok(())
}
