//! Errors in what is made of the rules, planted in the verdict.

use serde_json::{Value, json};

use super::{Alteration, Defect};

const NOT_NAMED: &str = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
const NO_MATCH: &str = "node(s) didn't match Pod's node affinity/selector";

/// The nodes of a verdict.
fn nodes(verdict: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    verdict["nodes"].as_object_mut().into_iter().flatten()
}

/// What each node that fits has of a plugin's scores.
fn scores<'verdict>(verdict: &'verdict mut Value, plugin: &str) -> Vec<&'verdict mut Value> {
    nodes(verdict).filter_map(|(_, node)| node["scores"].get_mut(plugin)).collect()
}

/// Normalizes the scores of a plugin in another way.
fn normalize(verdict: &mut Value, plugin: &str, way: impl Fn(f64, f64, f64) -> i64) {
    let mut scores = scores(verdict, plugin);
    let raws: Vec<f64> = scores.iter().filter_map(|score| score["raw"].as_f64()).collect();
    let least = raws.iter().copied().fold(f64::INFINITY, f64::min);
    let most = raws.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for (score, raw) in scores.iter_mut().zip(&raws).filter(|_| most > least) {
        score["normalized"] = way(*raw, least, most).into();
    }
}

pub(super) static DEFECTS: [Defect; 12] = [
    Defect {
        name: "the score of pods is rounded",
        alteration: Alteration::Verdict(|_, verdict| {
            normalize(verdict, "InterPodAffinity", |raw, least, most| {
                (100.0 * (raw - least) / (most - least)).round() as i64
            });
        }),
    },
    Defect {
        name: "the score of pods is a share of integers",
        alteration: Alteration::Verdict(|_, verdict| {
            normalize(verdict, "InterPodAffinity", |raw, least, most| {
                100 * (raw - least) as i64 / (most - least) as i64
            });
        }),
    },
    Defect {
        name: "the score of pods starts at zero, not at the least",
        alteration: Alteration::Verdict(|_, verdict| {
            normalize(verdict, "InterPodAffinity", |raw, _, most| (100.0 * raw / most.max(1.0)) as i64);
        }),
    },
    Defect {
        name: "the score of taints is not reversed",
        alteration: Alteration::Verdict(|_, verdict| {
            normalize(verdict, "TaintToleration", |raw, _, most| (100.0 * raw / most) as i64);
        }),
    },
    Defect {
        name: "the score of node affinity is not normalized",
        alteration: Alteration::Verdict(|_, verdict| {
            normalize(verdict, "NodeAffinity", |raw, _, _| raw as i64);
        }),
    },
    Defect {
        name: "a plugin that has nothing to say gives 0",
        alteration: Alteration::Verdict(|_, verdict| {
            for (_, node) in nodes(verdict) {
                if let Some(scores) = node["scores"].as_object_mut() {
                    scores.entry("InterPodAffinity").or_insert_with(|| json!({"raw": 0, "normalized": 0}));
                }
            }
        }),
    },
    Defect {
        name: "the first of a group waits for another one",
        alteration: Alteration::Verdict(|answer, verdict| {
            let is_unmet = answer.terms().iter().any(|term| {
                term.matching_pods == 0 && term.field_path.starts_with("spec.affinity.podAffinity.required")
            });
            for (_, node) in nodes(verdict).filter(|(_, node)| is_unmet && !node["scores"].is_null()) {
                let message = "node(s) didn't match pod affinity rules";
                let reason = json!({"plugin": "InterPodAffinity", "kind": "Unresolvable", "message": message});
                *node = json!({"reasons": [reason], "scores": null});
            }
        }),
    },
    Defect {
        name: "anti-affinity of others is checked before the pod's own terms",
        alteration: Alteration::Verdict(|answer, verdict| {
            let reports = answer.nodes(&[]);
            for (name, node) in nodes(verdict) {
                let mut rejections =
                    reports.iter().filter(|report| *report.name == **name).flat_map(|report| &report.rejections);
                let Some(last) = rejections.rfind(|rejection| rejection.plugin == "InterPodAffinity") else {
                    continue;
                };
                for reason in node["reasons"].as_array_mut().into_iter().flatten() {
                    if reason["plugin"] == "InterPodAffinity" {
                        reason["kind"] = json!(last.kind);
                        reason["message"] = json!(last.message);
                    }
                }
            }
        }),
    },
    Defect {
        name: "evicting others is said not to help against anti-affinity",
        alteration: Alteration::Verdict(|_, verdict| {
            for (_, node) in nodes(verdict) {
                for reason in node["reasons"].as_array_mut().into_iter().flatten() {
                    reason["kind"] = "Unresolvable".into();
                }
            }
        }),
    },
    Defect {
        name: "names in matchFields are judged with each node",
        alteration: Alteration::Verdict(|_, verdict| {
            let altered = verdict.to_string().replace(NOT_NAMED, NO_MATCH);
            *verdict = serde_json::from_str(&altered).unwrap_or_default();
        }),
    },
    Defect {
        name: "the event counts in the order of numbers",
        alteration: Alteration::Verdict(|_, verdict| {
            let message = verdict["message"].as_str().unwrap_or_default().trim_end_matches('.').to_owned();
            let Some((head, reasons)) = message.split_once(": ") else { return };
            let mut reasons: Vec<&str> = reasons.split(", ").collect();
            let count = |reason: &&str| reason.split(' ').next().and_then(|count| count.parse::<u64>().ok());
            reasons.sort_by_key(count);
            verdict["message"] = format!("{head}: {}.", reasons.join(", ")).into();
        }),
    },
    Defect {
        name: "InterPodAffinity does not filter nodes",
        alteration: Alteration::Verdict(|_, verdict| {
            for (_, node) in nodes(verdict) {
                if let Some(reasons) = node["reasons"].as_array_mut() {
                    reasons.retain(|reason| reason["plugin"] != "InterPodAffinity");
                }
            }
        }),
    },
];
