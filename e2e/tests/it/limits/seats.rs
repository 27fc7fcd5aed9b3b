//! Requests of one user fill the server; another user's request gets its response before most of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::users::User;
use super::{SOON, Stage, shirt};
use e2e::eventually::eventually;
use e2e::objects;

/// Requests in flight, and over how many connections.
const FLOOD: usize = 3_000;
const CONNECTIONS: usize = 2;

/// Shirts in one answer, and bytes of text in each.
const COUNT: usize = 25;
const TEXT: usize = 4_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_of_another_user_is_answered_while_most_of_a_flood_still_waits() -> Result<()> {
    // Room for all responses of the flood, so that seats alone decide.
    let stage = Box::pin(Stage::set(&["--max-seats", "32", "--max-unread-bytes", "1Gi"])).await?;
    for number in 0..COUNT {
        let mut object = shirt(&stage.group, &format!("shirt-{number}"), "grey");
        object["metadata"]["annotations"] = json!({ "text": "x".repeat(TEXT) });
        objects::create(&stage.source, &stage.collection, &object).await?;
    }
    let quiet = User::at("127.0.0.2", stage.host()?).await?;
    eventually("the copy has it all", SOON, async || {
        let (code, _, body) = quiet.get(&stage.collection).await?;
        ensure!(code == 200 && body.len() > COUNT * TEXT, "{code}: {} bytes", body.len());
        Ok(())
    })
    .await?;

    let (served, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut flood = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let user = User::at("127.0.0.1", stage.host()?).await?;
        for _ in 0..FLOOD / CONNECTIONS {
            let (user, collection) = (user.clone(), stage.collection.clone());
            let (served, refused) = (served.clone(), refused.clone());
            flood.spawn(async move {
                let (code, _, _) = user.get(&collection).await?;
                let counted = if code == 429 { refused } else { served };
                counted.fetch_add(1, Ordering::Relaxed);
                anyhow::Ok(code)
            });
        }
    }
    eventually("requests wait for a seat", SOON, async || {
        let text = stage.metrics.get("/metrics").await?.success()?.text();
        let waiting = text.lines().find_map(|line| line.strip_prefix("fieldcache_seats_waiting "));
        let waiting: usize = waiting.context("the series")?.parse()?;
        ensure!(waiting > FLOOD / 10, "{waiting} wait");
        Ok(())
    })
    .await?;
    let before = served.load(Ordering::Relaxed);
    let (code, _, body) = timeout(SOON, quiet.get(&stage.collection)).await.context("no answer")??;
    let during = served.load(Ordering::Relaxed) - before;
    ensure!(code == 200 && body.len() > COUNT * TEXT, "{code}: {} bytes", body.len());
    while let Some(answered) = flood.join_next().await {
        let code = answered??;
        ensure!(code == 200 || code == 429, "every request is answered: {code}");
    }
    let after = served.load(Ordering::Relaxed) - before - during;
    ensure!(after > during, "{during} of the flood were served before the other user's request, and {after} after it");
    stage.fieldcache.process().ensure_running()
}
