//! The hostile suite: attacks by objects, definitions, requests, sources and peers, and overload, beside a well-behaved client.
//!
//! The attacks are tables in `e2e/src/hostile`. Its documentation states what must hold and how to add a case. Families run one
//! after the other, because they share a control plane and each of them loads the machine.

use anyhow::Result;
use e2e::hostile::{Family, run, verdict};
use tokio::sync::Mutex;

/// Seeds of the random cases of `make test`; `make soak` draws new ones.
const SEEDS: [u64; 2] = [1, 2];

#[expect(clippy::print_stdout, reason = "the report of a test")]
fn say(line: &str) {
    println!("{line}");
}

async fn passes(family: Family) -> Result<()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    let alone = ALONE.lock().await;
    let report = Box::pin(run(family, &SEEDS, None, &say)).await?;
    drop(alone);
    verdict(&report)
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_objects_stay_within_bounds() -> Result<()> {
    passes(Family::Objects).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_definitions_are_served_or_reported() -> Result<()> {
    passes(Family::Definitions).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_stay_within_bounds() -> Result<()> {
    passes(Family::Requests).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_sources_affect_one_resource_at_most() -> Result<()> {
    passes(Family::Sources).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_peers_lock_out_no_other_client() -> Result<()> {
    passes(Family::Peers).await
}

#[tokio::test(flavor = "multi_thread")]
async fn overload_leaves_other_users_served() -> Result<()> {
    passes(Family::Overload).await
}
