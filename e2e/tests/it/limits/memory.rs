//! `--memory-limit`: what is loaded is served on up to a bound, and what would be too much is refused by name.

use anyhow::{Result, ensure};
use e2e::eventually::eventually;
use serde_json::json;

use super::{SOON, Stage, define, is_limit_status, shirt};
use e2e::objects;

/// Text that does not compress: a generator's numbers, in hexadecimal digits.
fn noise(seed: u64, length: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::with_capacity(length + 16);
    while text.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:08x}", state >> 32));
    }
    text
}

#[tokio::test]
async fn a_store_beyond_the_memory_limit_is_refused_and_what_is_loaded_goes_on() -> Result<()> {
    // Custom resource definitions of the whole control plane are counted too, so the limit leaves them room.
    let stage = Box::pin(Stage::set(&["--memory-limit", "24Mi"])).await?;
    let client = stage.fieldcache.client();
    stage.create("first", "blue").await?;
    let small = stage.collection.clone();
    client.get_json(&small).await?;
    let (group, large) = define(&stage.source).await?;
    for number in 0..220u64 {
        let mut object = shirt(&group, &format!("large-{number}"), "grey");
        object["metadata"]["annotations"] = json!({ "text": noise(number, 250_000) });
        objects::create(&stage.source, &large, &object).await?;
    }
    let refused = eventually("it is known, begun, and let go", SOON, async || {
        let answer = client.get(&large).await?;
        ensure!(answer.status == 503, "{}", answer.status);
        Ok(answer)
    })
    .await?;
    let words =
        ["memory limit", "--memory-limit is 24Mi", "needs more than", "fieldcache does not evict loaded resources"];
    is_limit_status(&refused.json()?, "MemoryLimit", "--memory-limit", &words)?;
    let watch = client.get(&format!("{large}?watch=1")).await?;
    ensure!(watch.status == 503, "a watch gets the same: {}", watch.status);
    ensure!(stage.figure("refused_total", "memory").await? >= 2.0, "refusals are counted");
    ensure!(stage.figure("maximum", "memory").await? == f64::from(24 << 20), "so is the maximum");
    ensure!(stage.figure("used", "memory").await? < f64::from(24 << 20), "nothing of it was kept");
    ensure!(stage.fieldcache.process().stderr()?.contains("not loaded"), "it is in the log");

    // What is loaded is served, with its changes.
    let mut follow = client.watch(&format!("{small}?watch=1")).await?;
    ensure!(follow.event(SOON).await?["object"]["metadata"]["name"] == "first", "the copy is there");
    stage.create("second", "blue").await?;
    ensure!(follow.event(SOON).await?["object"]["metadata"]["name"] == "second", "and goes on");

    // Up to half as much again: then the store that has grown is unloaded.
    for number in 0..500u64 {
        let mut object = shirt(&stage.group, &format!("grown-{number}"), "grey");
        object["metadata"]["annotations"] = json!({ "text": noise(1_000 + number, 250_000) });
        objects::create(&stage.source, &small, &object).await?;
        if client.get(&format!("{small}?limit=1")).await?.status == 503 {
            break;
        }
    }
    let refused = client.get(&small).await?;
    ensure!(refused.status == 503, "500 objects of 250 kB do not let it go: {}", refused.status);
    is_limit_status(&refused.json()?, "MemoryLimit", "--memory-limit", &words)?;
    ensure!(stage.fieldcache.process().stderr()?.contains("this one has grown most"), "it is in the log");
    Ok(())
}
