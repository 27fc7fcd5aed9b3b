//! Real, unmodified clients through fieldcache. They read during 5,000 random changes of each resource, in which
//! objects enter and leave their selections, and through restarts of fieldcache and kube-apiserver. Afterwards each
//! holds what kube-apiserver lists, and has received what happened.
//!
//! Which fault may force which list again:
//! - **The restart of fieldcache** forces one, of every client. The new process begins its history with the list that
//!   it reads at its start. Changes continue meanwhile, so every client has seen only older versions. Its resumed watch
//!   therefore gets "too old" (410).
//! - **The restart of kube-apiserver** forces none. fieldcache has to list again, for the watch cache of the new
//!   kube-apiserver begins with the list of its start. But it makes the difference a part of its own history, and no
//!   watch of a client ends. What an object went through in between is reported by its outcome. A client without
//!   selection finds those versions. They must be near the restart, and then all other clients must agree with them
//!   exactly. There is one exception: a client that does not request bookmarks (the JavaScript one). If its watch ends
//!   when its last event is among those versions, it must list. What it had seen at such a version of kube-apiserver
//!   itself is not known. With bookmarks, one that comes with those events prevents that.
//!
//! Map:
//!
//! - [`run`]: the run; [`contenders`]: the clients
//! - [`gap`]: finds the part of which fieldcache knew only the outcome
//! - `e2e::workload`: what is written; `e2e::history`: what truly happened (from etcd)
//! - `e2e::clients::judge`: checks whether a client received it
//! - [`ends`]: what clients hold when a resource has ended

mod contenders;
mod ends;
mod gap;
mod judging;
mod kube_rs;
mod raw;
mod run;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::clients::judge::{Start, difference, follow, follow_handlers, state};
use e2e::versions::Kubernetes;

use self::contenders::Program;

/// The API group of the custom resource.
const GROUP: &str = "clients.example.com";
/// The first list, and the one that the restart of fieldcache forces.
const LISTS: usize = 2;
/// Short watches must have been resumed at least so often, or nothing is said about resuming.
const RESUMED: usize = 5;
/// Fewer events than this would say little.
const EVENTS: usize = 300;
/// The same beside other versions of Kubernetes, where fewer changes are written.
const FEWER_RESUMED: usize = 2;
/// The same.
const FEWER_EVENTS: usize = 80;

#[expect(clippy::print_stdout, reason = "figures for readers of the test's output")]
fn say(what: &str) {
    println!("clients: {what}");
}

fn judged(name: &str) -> Result<()> {
    let outcome = run::shared()?;
    let finished = outcome.clients.get(name).with_context(|| format!("no client is called {name}"))?;
    let finished = finished.as_ref().map_err(|error| anyhow!("{name}: {error}"))?;
    let (contender, log) = (&finished.contender, &finished.log);
    let transitions = run::expected(outcome, contender);
    say(&format!(
        "{name}: {} transitions, {} events reported, {} lists, {} watches from a version, {} errors met: {:?}",
        transitions.len(),
        log.events(),
        log.lists(),
        log.resumed,
        log.errors.len(),
        log.errors.first(),
    ));

    // What they prefer, kube-apiserver sends them too.
    if name.starts_with("client-go-typed") || name.starts_with("client-go-metadata") {
        let is_protobuf = |media_type: &String| media_type.starts_with("application/vnd.kubernetes.protobuf");
        let is_sent = !log.media_types.is_empty() && log.media_types.iter().all(is_protobuf);
        ensure!(is_sent, "it was sent {:?}", log.media_types);
    }

    // Its end is the truth, and the truth is one.
    let last = state(&transitions);
    ensure!(last == finished.truth, "etcd and kube-apiserver differ: {}", difference(&last, &finished.truth));
    ensure!(log.store.is_some() || contender.program == Program::Raw, "it did not say what it holds");
    for (what, objects) in [("store", &log.store), ("reconciler", &log.reconciled)] {
        if let Some(objects) = objects {
            ensure!(
                *objects == finished.truth,
                "its {what} is not the truth: {}",
                difference(objects, &finished.truth)
            );
        }
    }

    // Every transition, in order, once; and no list without a cause.
    let starts = follow(&log.steps, &transitions)?;
    let plural = contender.resource.plural();
    let lies_in_gap = |start: &Start| {
        let last = transitions[..start.known].last().map_or(0, |transition| transition.version);
        outcome.gaps[plural].first().is_some_and(|gap| gap.before < last && last < outcome.followed[plural])
    };
    let excused = starts[1..].iter().filter(|start| !contender.bookmarks && lies_in_gap(start)).count();
    ensure!(
        starts.len() == LISTS + excused,
        "it listed {} times instead of {LISTS}: {starts:?}; {:?}",
        starts.len(),
        log.errors
    );
    let restarted = outcome.restarted[plural];
    let before_restart = transitions.partition_point(|transition| transition.version <= restarted);
    ensure!(
        starts[0].included <= before_restart && starts[1].included >= before_restart,
        "its second list is not that of the restart of fieldcache, after transition {before_restart}: {starts:?}"
    );
    if !log.handled.is_empty() {
        follow_handlers(&log.handled, &starts, &transitions).context("handlers")?;
    }
    let is_usual = Kubernetes::under_test()?.is_usual();
    let (events, resumed) = if is_usual { (EVENTS, RESUMED) } else { (FEWER_EVENTS, FEWER_RESUMED) };
    ensure!(log.events() >= events, "only {} events", log.events());
    ensure!(!contender.resumes || log.resumed >= resumed, "only {} watches were resumed", log.resumed);
    Ok(())
}

#[test]
fn a_bare_list_and_watch_loop_over_custom_resources() -> Result<()> {
    judged("raw-gadgets")
}

#[test]
fn a_bare_list_and_watch_loop_over_pods() -> Result<()> {
    judged("raw-pods")
}

#[test]
fn client_gos_dynamic_informer_with_watch_list() -> Result<()> {
    judged("client-go-dynamic-watch-list")
}

#[test]
fn client_gos_dynamic_informer_with_lists() -> Result<()> {
    judged("client-go-dynamic-list")
}

#[test]
fn client_gos_typed_informer_with_watch_list() -> Result<()> {
    judged("client-go-typed-watch-list")
}

#[test]
fn client_gos_typed_informer_with_lists() -> Result<()> {
    judged("client-go-typed-list")
}

#[test]
fn client_gos_metadata_informer_with_watch_list() -> Result<()> {
    judged("client-go-metadata-watch-list")
}

#[test]
fn client_gos_metadata_informer_with_lists() -> Result<()> {
    judged("client-go-metadata-list")
}

#[test]
fn a_controller_runtime_manager() -> Result<()> {
    judged("controller-runtime")
}

#[test]
fn kube_rss_watcher_with_lists() -> Result<()> {
    judged("kube-rs-list-watch")
}

#[test]
fn kube_rss_watcher_with_streaming_lists() -> Result<()> {
    judged("kube-rs-streaming-list")
}

#[test]
fn the_python_clients_list_and_watch_loop() -> Result<()> {
    judged("python")
}

#[test]
fn the_javascript_clients_informer() -> Result<()> {
    judged("javascript")
}

#[test]
fn client_go_dynamic_operators() -> Result<()> {
    judged("client-go-dynamic-operators")
}

#[test]
fn client_go_typed_operators() -> Result<()> {
    judged("client-go-typed-operators")
}

#[test]
fn kube_rs_operators() -> Result<()> {
    judged("kube-rs-operators")
}

#[test]
fn python_operators() -> Result<()> {
    judged("python-operators")
}
