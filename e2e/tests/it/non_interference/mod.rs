//! Non-interference: two clusters differ in what a View hides, and in nothing that it shows. Through the View they must
//! send the same responses to the last byte. The client may use Views and nothing else.
//!
//! [`world`] is one of them, a kube-apiserver and etcd with an operator. [`hidden`] is what differs, [`visible`] what
//! does not, and [`etcd`] writes the same objects into both. [`script`] sends both the same random requests, and
//! [`watches`] watches both. [`outcome`] is a response as it is compared, with [`versions`] mapped. [`root`] sends
//! requests outside of Views, as a caller of one namespace. [`leaks`] are responses of a server that reveals too much,
//! which have to be found. Times are not compared, nor what versions reveal about how much a cluster writes.

#![expect(clippy::disallowed_methods, reason = "hidden changes go on all the time, and not as fast as they can")]

mod etcd;
mod hidden;
mod leaks;
mod outcome;
mod root;
mod script;
mod versions;
mod visible;
mod watches;
mod world;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::http::{Answer, Client, Request};
use futures::future::{try_join, try_join_all};
use futures::stream::{self, StreamExt, TryStreamExt};

use outcome::{WINDOW, parting};
use script::ViewProbe;
use watches::Watched;
use world::{World, prefix};

const REQUESTS: usize = 2_000;
const WATCHES: usize = 200;
const CHANGES: usize = 120;
const SEED: u64 = 20_261_122;

/// Requests under way at once.
const AT_ONCE: usize = 8;

/// Differences that are shown.
const SHOWN: usize = 15;

/// A request and what both clusters answered.
pub(crate) struct Exchange {
    pub(crate) probe: Request,
    pub(crate) answers: [Answer; 2],
}

/// Both clusters.
pub(crate) struct Worlds([World; 2]);

impl Worlds {
    /// Where two answers to one request part; the second was queried through another View perhaps.
    pub(crate) fn parting(&self, one: &Answer, other: &Answer, view: &str) -> Option<String> {
        let [first, second] = &self.0;
        let one = outcome::normalized(one, (&first.versions(), first.host()), WINDOW);
        parting(&one, &outcome::normalized(other, (&second.versions(), second.host()), view))
    }

    /// Sends the request to both. For all pages of a list, the second may go through another View.
    async fn exchange(&self, clients: &[Client; 2], probe: &ViewProbe, view: &str) -> Result<Vec<Exchange>> {
        let [one, other] = &self.0;
        let mut next =
            Some([probe.request(&prefix(WINDOW), &one.versions()), probe.request(&prefix(view), &other.versions())]);
        let mut exchanges = Vec::new();
        while let Some([first, second]) = next.take() {
            let (answer, other_answer) =
                try_join(clients[0].send(first.clone()), clients[1].send(second.clone())).await?;
            let pages = (script::next_page(&first, &answer), script::next_page(&second, &other_answer));
            // A list has as many pages as it needs, or a client would be sent in circles.
            if let (Some(one), Some(other)) = pages
                && exchanges.len() < 60
            {
                next = Some([one, other]);
            }
            exchanges.push(Exchange { probe: first, answers: [answer, other_answer] });
        }
        Ok(exchanges)
    }

    fn clients(&self) -> Result<[Client; 2]> {
        Ok([self.0[0].endpoint()?.client(), self.0[1].endpoint()?.client()])
    }

    /// Everything requested while both clusters go on changing what is hidden.
    async fn run(&self, script: &[ViewProbe], view: &str) -> Result<Vec<Exchange>> {
        let clients = self.clients()?;
        let done = AtomicBool::new(false);
        let churning = async {
            // Not for ever: versions are to have as many digits at the end as at the beginning.
            for _ in script {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                try_join_all(self.0.iter().map(World::hide)).await?;
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            Ok(())
        };
        let exchanging = async {
            let exchanges = stream::iter(script.iter().map(|probe| self.exchange(&clients, probe, view)))
                .buffered(AT_ONCE)
                .try_collect::<Vec<_>>()
                .await;
            done.store(true, Ordering::Relaxed);
            Ok::<_, anyhow::Error>(exchanges?.into_iter().flatten().collect())
        };
        Ok(try_join(churning, exchanging).await?.1)
    }
}

/// Documents whose entity tag stayed while the time of their last change did not, in one of the clusters.
fn changed_documents(exchanges: &[Exchange], world: usize) -> Vec<String> {
    let mut since: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut changed = Vec::new();
    for Exchange { probe, answers } in exchanges {
        let answer = &answers[world];
        let Some(time) = answer.header("last-modified") else { continue };
        // The index has no tag; its body is one.
        let tag = answer.header("etag").map_or_else(|| answer.text(), str::to_owned);
        let first_time = since.entry((probe.path.clone(), tag)).or_insert_with(|| time.to_owned());
        if first_time != time {
            changed.push(probe.path.clone());
        }
    }
    changed
}

/// Differences as a person reads them; the first of each kind of request.
fn report(found: &[(String, String)]) -> String {
    let mut text = format!("{} answers differ", found.len());
    for (what, difference) in found.iter().take(SHOWN) {
        text.push_str(&format!("\n  {what}\n    {difference}"));
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_view_hides_changes_no_byte_of_what_it_answers() -> Result<()> {
    let (one, other) = Box::pin(try_join(World::start(hidden::ONE), World::start(hidden::OTHER))).await?;
    let worlds = Worlds([one, other]);
    let mut views = vec![visible::window(WINDOW)];
    views.extend(leaks::wider().into_iter().map(|(_, view)| view));
    let changes = visible::first_changes();
    for change in &changes {
        try_join_all(worlds.0.iter().map(|world| world.change(change))).await?;
    }
    try_join_all(worlds.0.iter().map(|world| world.open(&views))).await?;
    try_join_all(worlds.0.iter().map(|world| world.settled(WINDOW))).await?;

    // In the middle another kind comes into the second cluster, which no client notices.
    let script = script::requests(SEED, REQUESTS, changes.len());
    let (early, late) = script.split_at(REQUESTS / 2);
    let mut exchanges = worlds.run(early, WINDOW).await?;
    worlds.0[1].add_hidden_kind().await?;
    exchanges.extend(worlds.run(late, WINDOW).await?);
    for (number, world) in worlds.0.iter().enumerate() {
        let changed = changed_documents(&exchanges, number);
        ensure!(
            changed.is_empty(),
            "of {}: documents that say that they are new, and are not: {changed:?}",
            world.secrets.word
        );
    }
    let mut found = Vec::new();
    for Exchange { probe, answers: [one, other] } in &exchanges {
        if let Some(difference) = worlds.parting(one, other, WINDOW) {
            found.push((format!("{} {} {:?}", probe.method, probe.path, probe.headers), difference));
        }
    }
    let read = exchanges.iter().filter(|exchange| exchange.answers[0].status == 200).count();
    ensure!(found.is_empty(), "{}\n{}", report(&found), worlds.0[1].tail());
    ensure!(
        exchanges.len() >= REQUESTS && read > REQUESTS / 3,
        "{read} of {} requests were answered with 200",
        exchanges.len()
    );

    let at_root = root::check(&worlds, SEED, changes.len()).await?;

    // Leaks, made on purpose.
    let planted = leaks::found(&worlds, &exchanges, &script).await?;

    // Watches, while everything changes; in the end the View itself.
    let watches = watches::watches(SEED, WATCHES, changes.len());
    let (one, other) = try_join(Watched::open(&worlds.0[0], &watches), Watched::open(&worlds.0[1], &watches)).await?;
    for change in visible::later_changes(SEED, CHANGES) {
        try_join_all(worlds.0.iter().map(|world| world.change(&change))).await?;
    }
    try_join_all(worlds.0.iter().map(|world| world.settled(WINDOW))).await?;
    watches::silent(&one, &other).await;
    let mut narrower = visible::window(WINDOW);
    narrower["spec"]["resources"][0]["namespaces"] = serde_json::json!(["team-a"]);
    narrower["spec"]["resources"][1]["labelSelector"] = serde_json::json!({ "matchLabels": { "tone": "dark" } });
    try_join_all(worlds.0.iter().map(|world| world.replace(&narrower))).await?;
    let (one, other) = try_join(one.ended(), other.ended()).await?;
    let (mut found, mut events) = (Vec::new(), 0);
    for ((probe, one), other) in watches.iter().zip(&one).zip(&other) {
        let (lines, other_lines) = (one.lines(), other.lines());
        events += lines.len();
        let texts = (watches::comparable(&lines, &worlds.0[0]), watches::comparable(&other_lines, &worlds.0[1]));
        if let Some(difference) = parting(&texts.0, &texts.1) {
            found.push((format!("{} {:?}", probe.path, probe.headers), difference));
        }
    }
    ensure!(found.is_empty(), "watches: {}\n{}", report(&found), worlds.0[1].tail());
    ensure!(events > 10 * WATCHES, "{events} lines of {WATCHES} watches");
    let planted_watches = leaks::found_in_watches(&worlds, &one, &other)?;
    for world in &worlds.0 {
        world.versions().check()?;
        let audited = world.audited()?;
        ensure!(audited >= exchanges.len() + WATCHES, "the audit log has {audited} answers through Views");
    }
    say(&format!(
        "non-interference: {at_root}; {} requests ({read} answered with 200), {WATCHES} watches with {events} lines, {} leaks found:{}",
        exchanges.len(),
        planted.len() + planted_watches.len(),
        planted.iter().chain(&planted_watches).map(|line| format!("\n  {line}")).collect::<String>(),
    ));
    Ok(())
}

/// Writes a line that is seen also when the test passes.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
