//! Planted errors of ours, one at a time between a question and our verdict: the comparison must find each.
//!
//! An error of a rule is planted by what the rule reads: an implementation that forgets `namespaces` responds as if
//! they were missing. An error in what is made of the rules (order, scores, words) is planted in the verdict. So the
//! code itself stays free of them.

mod questions;
mod verdicts;

use anyhow::{Result, ensure};
use e2e::placement::{Question, verdict};
use fieldcache::placement::PlacementResult;
use serde_json::Value;

use super::{Case, judged};

/// What is wrong with a planted error.
enum Alteration {
    /// What our side reads: a question about one pod.
    Question(fn(&mut Question)),
    /// What our side makes of it.
    Verdict(fn(&PlacementResult, &mut Value)),
}

/// A planted error.
struct Defect {
    name: &'static str,
    alteration: Alteration,
}

/// So many cases say enough of a defect.
const ENOUGH: usize = 3;

#[test]
fn every_planted_error_is_found() -> Result<()> {
    let cases = judged()?;
    let defects: Vec<&Defect> = questions::DEFECTS.iter().chain(&verdicts::DEFECTS).collect();
    ensure!(defects.len() >= 20, "only {} errors are planted", defects.len());
    let mut missed = Vec::new();
    for defect in &defects {
        let found = found_by(cases, defect)?;
        match found.first() {
            None => missed.push(defect.name),
            Some(first) => println!("placement: {}: found, first by {first}", defect.name),
        }
    }
    println!("placement: {} of {} planted errors found", defects.len() - missed.len(), defects.len());
    ensure!(missed.is_empty(), "not found: {missed:?}");
    Ok(())
}

/// The cases that are red with a defect, as far as [`ENOUGH`].
fn found_by<'cases>(cases: &'cases [Case], defect: &Defect) -> Result<Vec<&'cases str>> {
    let mut red = Vec::new();
    // A case that is red without a defect shows nothing.
    for Case { name, question, expected, .. } in cases.iter().filter(|case| !case.is_disputed) {
        let mut altered = question.clone();
        if let Alteration::Question(alter) = defect.alteration {
            alter(&mut altered);
            if altered == *question {
                continue;
            }
        }
        let answers = altered.answers()?;
        let Some(answer) = answers.first() else { continue };
        let mut found = verdict(answer, expected);
        if let Alteration::Verdict(alter) = defect.alteration {
            alter(answer, &mut found);
        }
        if found != *expected {
            red.push(name.as_str());
            if red.len() == ENOUGH {
                break;
            }
        }
    }
    Ok(red)
}
