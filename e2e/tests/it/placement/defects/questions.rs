//! Errors of rules, planted in what they read.

use serde_json::{Value, json};

use super::super::documents::{
    PREFERRED, REQUIRED, each_node_requirement, each_pod_term, items, node_terms, remove, tolerations,
};
use super::{Alteration, Defect};

fn is_empty(value: &Value, member: &str) -> bool {
    match &value[member] {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => true,
    }
}

fn is_number(value: &Value) -> Option<i64> {
    value.as_str()?.parse().ok()
}

pub(super) static DEFECTS: [Defect; 32] = [
    Defect {
        name: "a cordoned node takes pods",
        alteration: Alteration::Question(|question| {
            question.nodes.iter_mut().for_each(|node| remove(&mut node["spec"], "unschedulable"));
        }),
    },
    Defect {
        name: "NoExecute taints keep no Pod away",
        alteration: Alteration::Question(|question| {
            for taints in question.nodes.iter_mut().filter_map(|node| node["spec"]["taints"].as_array_mut()) {
                taints.retain(|taint| taint["effect"] != "NoExecute");
            }
        }),
    },
    Defect {
        name: "PreferNoSchedule taints keep pods away",
        alteration: Alteration::Question(|question| {
            for node in &mut question.nodes {
                for taint in items(&mut node["spec"], "taints") {
                    if taint["effect"] == "PreferNoSchedule" {
                        taint["effect"] = "NoSchedule".into();
                    }
                }
            }
        }),
    },
    Defect {
        name: "the effect of a toleration is not read",
        alteration: Alteration::Question(|question| {
            tolerations(&mut question.reviewed[0]).iter_mut().for_each(|toleration| remove(toleration, "effect"));
        }),
    },
    Defect {
        name: "a toleration without an operator means Exists",
        alteration: Alteration::Question(|question| {
            for toleration in tolerations(&mut question.reviewed[0]) {
                if toleration["operator"] == "" {
                    toleration["operator"] = "Exists".into();
                }
            }
        }),
    },
    Defect {
        name: "a toleration without a key tolerates nothing",
        alteration: Alteration::Question(|question| {
            if let Some(tolerations) = question.reviewed[0]["spec"]["tolerations"].as_array_mut() {
                tolerations.retain(|toleration| toleration["key"] != "");
            }
        }),
    },
    Defect {
        name: "values of taints that are no canonical number are compared as numbers",
        alteration: Alteration::Question(|question| {
            for node in &mut question.nodes {
                for taint in items(&mut node["spec"], "taints") {
                    if let Some(number) = is_number(&taint["value"]) {
                        taint["value"] = number.to_string().into();
                    }
                }
            }
        }),
    },
    Defect {
        name: "Gt and Lt in tolerations count with their gate off",
        alteration: Alteration::Question(|question| question.options["tolerationComparison"] = true.into()),
    },
    Defect {
        name: "nodeSelector is not read",
        alteration: Alteration::Question(|question| remove(&mut question.reviewed[0]["spec"], "nodeSelector")),
    },
    Defect {
        name: "an empty node selector term matches every node",
        alteration: Alteration::Question(|question| {
            let pod = &mut question.reviewed[0];
            let is_bare = |term: &Value| is_empty(term, "matchExpressions") && is_empty(term, "matchFields");
            if node_terms(pod).is_some_and(|terms| terms.iter().any(is_bare)) {
                remove(&mut pod["spec"]["affinity"]["nodeAffinity"], REQUIRED);
            }
        }),
    },
    Defect {
        name: "node selector terms must all match",
        alteration: Alteration::Question(|question| {
            let Some(terms) = node_terms(&mut question.reviewed[0]) else { return };
            let all = |member: &str| -> Vec<Value> {
                terms.iter().filter_map(|term| term[member].as_array()).flatten().cloned().collect()
            };
            *terms = vec![json!({"matchExpressions": all("matchExpressions"), "matchFields": all("matchFields")})];
        }),
    },
    Defect {
        name: "matchFields are not read",
        alteration: Alteration::Question(|question| {
            node_terms(&mut question.reviewed[0]).into_iter().flatten().for_each(|term| remove(term, "matchFields"));
        }),
    },
    Defect {
        name: "NotIn wants the label to be there",
        alteration: Alteration::Question(|question| {
            for term in node_terms(&mut question.reviewed[0]).into_iter().flatten() {
                let Some(expressions) = term["matchExpressions"].as_array_mut() else { continue };
                let exists = |one: &Value| json!({"key": one["key"], "operator": "Exists"});
                let added: Vec<Value> =
                    expressions.iter().filter(|one| one["operator"] == "NotIn").map(exists).collect();
                expressions.extend(added);
            }
        }),
    },
    Defect {
        name: "Gt takes the bound itself",
        alteration: Alteration::Question(|question| {
            each_node_requirement(&mut question.reviewed[0], |one| {
                if let Some(bound) = is_number(&one["values"][0]).filter(|bound| one["operator"] == "Gt" && *bound > 0)
                {
                    one["values"] = json!([(bound - 1).to_string()]);
                }
            });
        }),
    },
    Defect {
        name: "one node selector term that cannot be parsed voids the others",
        alteration: Alteration::Question(|question| {
            let Some(terms) = node_terms(&mut question.reviewed[0]) else { return };
            let is_broken = |term: &Value| {
                let expressions = term["matchExpressions"].as_array();
                expressions.is_some_and(|all| {
                    all.iter().any(|one| {
                        one["operator"].as_str().is_some_and(|operator| operator.len() == 2 && operator != "In")
                            && is_number(&one["values"][0]).is_none()
                    })
                })
            };
            if let Some(broken) = terms.iter().find(|term| is_broken(term)).cloned() {
                *terms = vec![broken];
            }
        }),
    },
    Defect {
        name: "a null labelSelector selects every pod",
        alteration: Alteration::Question(|question| {
            for pod in question.reviewed.iter_mut().chain(&mut question.pods) {
                each_pod_term(pod, |_, term| {
                    if term["labelSelector"].is_null() {
                        term["labelSelector"] = json!({});
                    }
                });
            }
        }),
    },
    Defect {
        name: "an empty labelSelector selects no pod",
        alteration: Alteration::Question(|question| {
            for pod in question.reviewed.iter_mut().chain(&mut question.pods) {
                each_pod_term(pod, |_, term| {
                    let selector = &term["labelSelector"];
                    if is_empty(selector, "matchLabels") && is_empty(selector, "matchExpressions") {
                        remove(term, "labelSelector");
                    }
                });
            }
        }),
    },
    Defect {
        name: "namespaces are not read",
        alteration: Alteration::Question(|question| {
            each_pod_term(&mut question.reviewed[0], |_, term| remove(term, "namespaces"));
        }),
    },
    Defect {
        name: "an empty list of namespaces means all",
        alteration: Alteration::Question(|question| {
            each_pod_term(&mut question.reviewed[0], |_, term| {
                if term["namespaces"] == json!([]) && term["namespaceSelector"].is_null() {
                    term["namespaceSelector"] = json!({});
                }
            });
        }),
    },
    Defect {
        name: "an empty namespaceSelector means the own namespace",
        alteration: Alteration::Question(|question| {
            each_pod_term(&mut question.reviewed[0], |_, term| {
                if term["namespaceSelector"] == json!({}) {
                    remove(term, "namespaceSelector");
                }
            });
        }),
    },
    Defect {
        name: "namespaces do not count beside a namespaceSelector",
        alteration: Alteration::Question(|question| {
            each_pod_term(&mut question.reviewed[0], |_, term| {
                if !term["namespaceSelector"].is_null() {
                    remove(term, "namespaces");
                }
            });
        }),
    },
    Defect {
        name: "a namespace without an object has its name as a label",
        alteration: Alteration::Question(|question| {
            for name in ["one", "two", "three"] {
                if !question.namespaces.iter().any(|namespace| namespace["metadata"]["name"] == name) {
                    question.namespaces.push(json!({"metadata": {"name": name}}));
                }
            }
        }),
    },
    Defect {
        name: "terms of other pods mean the reviewed pod's namespace",
        alteration: Alteration::Question(|question| {
            let namespace = question.reviewed[0]["metadata"]["namespace"].clone();
            for pod in &mut question.pods {
                each_pod_term(pod, |_, term| {
                    if is_empty(term, "namespaces") && term["namespaceSelector"].is_null() {
                        term["namespaces"] = json!([namespace]);
                    }
                });
            }
        }),
    },
    Defect {
        name: "anti-affinity of other pods is not read",
        alteration: Alteration::Question(|question| {
            for pod in &mut question.pods {
                remove(&mut pod["spec"]["affinity"]["podAntiAffinity"], REQUIRED);
            }
        }),
    },
    Defect {
        name: "preferences of other pods are not read",
        alteration: Alteration::Question(|question| {
            for pod in &mut question.pods {
                for member in ["podAffinity", "podAntiAffinity"] {
                    remove(&mut pod["spec"]["affinity"][member], PREFERRED);
                }
            }
        }),
    },
    Defect {
        name: "a preference that occurs twice counts once",
        alteration: Alteration::Question(|question| {
            for pod in question.reviewed.iter_mut().chain(&mut question.pods) {
                for member in ["podAffinity", "podAntiAffinity"] {
                    let preferred = &mut pod["spec"]["affinity"][member][PREFERRED];
                    if let Some(preferred) = preferred.as_array_mut() {
                        let mut seen = Vec::new();
                        preferred.retain(|one| {
                            !seen.contains(one) && {
                                seen.push(one.clone());
                                true
                            }
                        });
                    }
                }
            }
        }),
    },
    Defect {
        name: "pods that look alike count once on a node",
        alteration: Alteration::Question(|question| {
            let mut seen: Vec<Value> = Vec::new();
            question.pods.retain(|pod| {
                let metadata = &pod["metadata"];
                let look = json!([metadata["namespace"], metadata["labels"], pod["spec"]]);
                let is_new = !seen.contains(&look);
                seen.push(look);
                is_new
            });
        }),
    },
    Defect {
        name: "pods that are over still count",
        alteration: Alteration::Question(|question| {
            question.pods.iter_mut().for_each(|pod| pod["status"]["phase"] = "Running".into());
        }),
    },
    Defect {
        name: "bound pods count only once they run",
        alteration: Alteration::Question(|question| {
            question.pods.retain(|pod| pod["status"]["phase"] != "Pending");
        }),
    },
    Defect {
        name: "the reviewed pod meets itself",
        alteration: Alteration::Question(|question| {
            let metadata = &mut question.reviewed[0]["metadata"];
            remove(metadata, "name");
            remove(metadata, "uid");
        }),
    },
    Defect {
        name: "hardPodAffinityWeight is not read",
        alteration: Alteration::Question(|question| question.options["hardPodAffinityWeight"] = 1.into()),
    },
    Defect {
        name: "addedAffinity is not read",
        alteration: Alteration::Question(|question| remove(&mut question.options, "addedAffinity")),
    },
];
