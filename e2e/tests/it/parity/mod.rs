//! Parity: the same request to a real kube-apiserver and to fieldcache, and the answers compared.
//!
//! Map:
//!
//! - [`cases`]: the requests; [`scripts`]: the watches with changes made meanwhile
//! - [`case`] and [`script`]: send and compare one of them
//! - [`outcome`]: the part of a response that is compared; [`allowed`]: the intended differences
//! - [`other_versions`]: the differences of older and newer servers
//! - [`stage`] and [`fixtures`]: the cluster and its objects
//!
//! Everything is requested and played once ([`run`]).
//! [`defects`] are faults put before our own server: each must turn the suite red. kube-apiserver is also compared
//! with itself, which shows what is not determined at all and so must not be compared.

mod allowed;
mod case;
mod cases;
mod defects;
mod dimension;
mod fixtures;
mod other_versions;
mod outcome;
mod points;
mod run;
mod script;
mod scripts;
mod side;
mod stage;
mod tumult;

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Result, ensure};

use allowed::{ALLOWED, Pattern};
use run::{ITSELF, Run};
use script::Found;
use stage::Stage;

/// Differences of one case that are shown.
const SHOWN: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_question_gets_the_same_answer() -> Result<()> {
    let stage = Stage::shared().await?;
    let run = Run::shared(stage).await?;
    let mut sides = run::sides(stage);
    sides.extend(run::websocket_sides(stage));
    let found = run.judge(&sides);

    let mut report = String::new();
    let mut used: BTreeSet<Pattern> = BTreeSet::new();
    for Found { side, watch, differences, context } in &found {
        let mut faults = Vec::new();
        for difference in differences {
            let covering = if *side == sides[ITSELF].name {
                Vec::new()
            } else {
                other_versions::covering(watch, differences, difference)
            };
            if covering.is_empty() {
                faults.push(difference);
            }
            used.extend(covering);
        }
        if !faults.is_empty() {
            report.push_str(&format!("\n{watch}: kube-apiserver <> {side}, {} differences", faults.len()));
            report.push_str(&format!("\n    {context}"));
            for fault in faults.iter().take(SHOWN) {
                report.push_str(&format!("\n    {fault}"));
            }
        }
    }
    for ((index, pattern), reason) in other_versions::needless(&used) {
        report.push_str(&format!("\nof allowance {index}, {pattern:?} is not needed: {reason}"));
    }
    let others = other_versions::reasons();
    let mut summary = format!(
        "parity: {} requests; {} watch scripts with {} watches, also over WebSocket, {} of the scripts random from seed {}; {} allowed differences and {} of Kubernetes {} (reasons in {})",
        run.cases.len(),
        run.scripts,
        run.played.len(),
        scripts::random::COUNT,
        run.seed,
        ALLOWED.len(),
        others.len(),
        other_versions::under_test().name(),
        "e2e/tests/it/parity/allowed.rs and other_versions.rs"
    );
    for allowance in &ALLOWED {
        summary.push_str(&format!("\n  allowed: {}", allowance.reason));
    }
    for reason in others {
        summary.push_str(&format!("\n  allowed: {reason}"));
    }
    say(&summary);
    let seed = format!("random scripts: {}={}", scripts::random::SEED, run.seed);
    ensure!(report.is_empty(), "{report}\n{seed}\n{}", stage.fieldcache.process().tail());
    Ok(())
}

#[test]
fn the_tables_are_as_large_as_promised_and_their_names_unique() {
    let cases = cases::all();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "two request cases share a name");
    assert!(cases.len() >= 200, "{} request cases", cases.len());
    let scripts = scripts::all(0);
    let names: BTreeSet<&str> = scripts.iter().map(|script| script.name.as_str()).collect();
    assert_eq!(names.len(), scripts.len(), "two scripts share a name");
    let random = names.iter().filter(|name| name.starts_with(scripts::random::NAME)).count();
    assert!(random >= 60 && scripts.len() - random >= 60, "{random} of {} scripts are random", scripts.len());
    assert!(ALLOWED.iter().all(|allowance| allowance.reason.ends_with('.')), "a reason is a sentence");
}

/// Writes a line that is seen also when the test passes, which captured output is not.
fn say(line: &str) {
    // It is harmless when standard error is closed.
    let _ = writeln!(std::io::stderr(), "{line}");
}
