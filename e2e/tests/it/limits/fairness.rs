//! One user requests ten thousand large lists. Another user's watch receives every change, and the list of that user
//! gets its response.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::users::{User, Watch};
use super::{SOON, Stage};
use e2e::eventually::eventually;

/// How many lists the flood is, and over how many connections; each of them takes two thousand at a time.
const FLOOD: usize = 10_000;
const CONNECTIONS: usize = 5;

/// Changes that the watch must receive.
const CHANGES: usize = 50;

#[tokio::test]
async fn a_flood_of_lists_of_one_user_leaves_another_users_watch_and_list_their_turn() -> Result<()> {
    let stage = Box::pin(Stage::set(&["--max-lists", "2"])).await?;
    stage.fill().await?;
    let quiet = User::at("127.0.0.2", stage.host()?).await?;
    let path = format!("{}?watch=1&resourceVersion=0&fieldSelector=spec.color%3Dblue", stage.collection);
    let mut watch = Watch::from_response(quiet.open(&path).await?);

    // Two lists that are never read hold both places for as long as the test lasts; all others come behind them.
    let flooding = User::at("127.0.0.1", stage.host()?).await?;
    let responses = [flooding.open(&stage.collection).await?, flooding.open(&stage.collection).await?];
    ensure!(responses.iter().all(|response| response.status() == 200), "both places are taken");
    let (refused, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut flood = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let user = User::at("127.0.0.1", stage.host()?).await?;
        for _ in 0..FLOOD / CONNECTIONS {
            let (user, collection) = (user.clone(), stage.collection.clone());
            let (refused, served) = (refused.clone(), served.clone());
            flood.spawn(async move {
                let counted = match user.get(&collection).await {
                    Ok((429, _, _)) => refused,
                    Ok(_) | Err(_) => served,
                };
                counted.fetch_add(1, Ordering::Relaxed);
            });
        }
    }
    eventually("the flood has come: its queue is full, and it reports that", SOON, async || {
        ensure!(refused.load(Ordering::Relaxed) > 0, "nothing is refused yet");
        Ok(())
    })
    .await?;

    let mut reported = Vec::new();
    for number in 0..CHANGES {
        stage.create(&format!("blue-{number}"), "blue").await?;
        let event = timeout(SOON, watch.event()).await.context("the watch reports nothing")??;
        reported.push(event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned());
    }
    let expected: Vec<String> = (0..CHANGES).map(|number| format!("blue-{number}")).collect();
    ensure!(reported == expected, "every change, in order: {reported:?}");

    // Both places are held, and lists of the flood wait: the other user's first comes before all of them.
    let (code, _, body) = timeout(SOON, quiet.get(&stage.collection)).await.context("his list waits")??;
    ensure!(code == 200 && body.len() > 4 << 20, "{code}: {} bytes", body.len());
    ensure!(served.load(Ordering::Relaxed) == 0, "none of the flood was answered before it but with a refusal");
    drop(responses);
    drop(flood);
    stage.fieldcache.process().ensure_running()
}
