//! The dashboard of manifests/ uses nothing that a scrape does not have: metrics, labels and literal values.
//!
//! A small scanner reads its queries. It knows only the part of PromQL that they need and rejects everything else, so a
//! misspelt name is not accepted as a function either.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::metrics_with;
use super::scrapers::known;
use crate::metrics::format::ExpositionFormat;

const DASHBOARD: &str = "manifests/components/dashboard/fieldcache.json";

/// What Prometheus adds to every series.
const OF_TARGETS: [&str; 2] = ["job", "instance"];

const FUNCTIONS: [&str; 9] =
    ["sum", "max", "count", "topk", "rate", "increase", "time", "histogram_quantile", "label_values"];

/// The samples that a scrape has: each name with its labels and the values they have here.
type Exposed = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// One selector of a query: name, then (label, operator, value) each.
type Selector = (String, Vec<(String, String, String)>);

/// What a query names.
#[derive(Debug, Default, PartialEq)]
struct Named {
    selectors: Vec<Selector>,
    /// After `by`.
    grouped: BTreeSet<String>,
    /// Names that stand alone, as the arguments of `label_values` may.
    bare: Vec<String>,
}

fn tokens(query: &str) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut rest = query.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
        let end = match first {
            '"' => rest[1..].find('"').map(|end| end + 2).ok_or("a text without an end")?,
            // Ranges are Grafana's to fill in.
            '[' => rest.find(']').map(|end| end + 1).ok_or("a range without an end")?,
            _ if is_name(first) || first == '.' => {
                rest.find(|letter| !is_name(letter) && letter != '.').unwrap_or(rest.len())
            }
            '=' | '!' => rest.find(|letter| !"=!~".contains(letter)).unwrap_or(rest.len()),
            '(' | ')' | '{' | '}' | ',' | '/' | '*' | '+' | '-' | '>' | '<' => 1,
            other => return Err(format!("{other:?} is not expected")),
        };
        if first != '[' {
            tokens.push(rest[..end].to_owned());
        }
        rest = rest[end..].trim_start();
    }
    Ok(tokens)
}

fn named(query: &str) -> Result<Named, String> {
    let tokens = tokens(query)?;
    let token = |index: usize| tokens.get(index).map_or("", String::as_str);
    let mut named = Named::default();
    let mut index = 0;
    while index < tokens.len() {
        let name = token(index).to_owned();
        index += 1;
        if !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            continue;
        }
        match (&*name, token(index)) {
            ("by", "(") => {
                while token(index) != ")" {
                    index += 1;
                    if index >= tokens.len() {
                        return Err("`by (` without an end".to_owned());
                    }
                    if ![",", ")"].contains(&token(index)) {
                        named.grouped.insert(token(index).to_owned());
                    }
                }
            }
            (function, "(" | "by") => {
                if !FUNCTIONS.contains(&function) {
                    return Err(format!("{function} is no function that is known here"));
                }
            }
            (_, "{") => {
                let mut matchers = Vec::new();
                while token(index) != "}" {
                    let [label, operator, value] = [1, 2, 3].map(|ahead| token(index + ahead).to_owned());
                    if !["=", "!=", "=~", "!~"].contains(&&*operator) || !value.starts_with('"') {
                        return Err(format!("{name} is selected by {label} {operator} {value}"));
                    }
                    matchers.push((label, operator, value.trim_matches('"').to_owned()));
                    index += 4;
                    if ![",", "}"].contains(&token(index)) {
                        return Err(format!("the selector of {name} has no end"));
                    }
                }
                named.selectors.push((name, matchers));
            }
            _ => named.bare.push(name),
        }
    }
    Ok(named)
}

/// Of a scrape in the text format.
fn exposed(text: &str) -> Exposed {
    let mut exposed = Exposed::new();
    // Families without a series are there all the same.
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        exposed.extend(suffixes.iter().map(|suffix| (format!("{name}{suffix}"), BTreeMap::new())));
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels_of_metric = exposed.get_mut(name).unwrap_or_else(|| panic!("{name} has no TYPE"));
        for pair in labels.trim_end_matches('}').split("\",").filter(|pair| !pair.is_empty()) {
            let (label, value) = pair.split_once("=\"").unwrap();
            labels_of_metric.entry(label.to_owned()).or_default().insert(value.trim_end_matches('"').to_owned());
        }
    }
    exposed
}

/// What is wrong with a query of a panel, whose legend shows `legend`.
fn judged(exposed: &Exposed, query: &str, legend: &str) -> Vec<String> {
    let named = match named(query) {
        Ok(named) => named,
        Err(problem) => return vec![problem],
    };
    let mut problems: Vec<String> = named.bare.iter().map(|name| format!("{name} is not selected by job")).collect();
    let mut labels: BTreeSet<&str> = OF_TARGETS.into();
    for (name, matchers) in &named.selectors {
        let Some(labels_of_metric) = exposed.get(name) else {
            problems.push(format!("there is no metric {name}"));
            continue;
        };
        labels.extend(labels_of_metric.keys().map(String::as_str));
        if !matchers.iter().any(|(label, _, value)| label == "job" && value == "$job") {
            problems.push(format!("{name} is not selected by job"));
        }
        for (label, operator, value) in matchers.iter().filter(|(label, ..)| !OF_TARGETS.contains(&&**label)) {
            match labels_of_metric.get(label) {
                None => problems.push(format!("{name} has no label {label}")),
                Some(values) if !operator.contains('~') && !values.contains(value) => {
                    problems.push(format!("{label} of {name} is never {value:?}, only {values:?}"));
                }
                Some(_) => {}
            }
        }
    }
    if named.selectors.is_empty() {
        problems.push("the query has no metric".to_owned());
    }
    let unknown = named.grouped.iter().filter(|label| !labels.contains(&***label));
    problems.extend(unknown.map(|label| format!("no metric has the label {label} that it is grouped by")));
    for label in legend.split("{{").skip(1).filter_map(|part| part.split_once("}}")).map(|(label, _)| label.trim()) {
        let is_there = if query.contains(" by (") { named.grouped.contains(label) } else { labels.contains(label) };
        if !is_there {
            problems.push(format!("the legend shows {label}, which the answer does not have"));
        }
    }
    problems
}

fn scrape() -> Exposed {
    let (metrics, _, _) = metrics_with(known());
    exposed(&metrics.text(ExpositionFormat::Plain))
}

fn dashboard() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(DASHBOARD);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_dashboard_uses_only_metrics_of_a_scrape() {
    let (exposed, dashboard) = (scrape(), dashboard());
    let mut queried = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let [query, legend] = ["expr", "legendFormat"].map(|field| target[field].as_str().unwrap());
            let problems = judged(&exposed, query, legend);
            assert!(problems.is_empty(), "panel {title:?}: {query}: {problems:#?}");
            queried.extend(named(query).unwrap().selectors.into_iter().map(|(name, _)| name));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let Some(query) = variable["query"]["query"].as_str() else {
            assert_eq!(variable["type"], "datasource", "{variable}");
            continue;
        };
        let named = named(query).unwrap();
        let (label, metrics) = named.bare.split_last().unwrap();
        for metric in metrics.iter().chain(named.selectors.iter().map(|(name, _)| name)) {
            let labels_of_metric =
                exposed.get(metric).unwrap_or_else(|| panic!("{query}: there is no metric {metric}"));
            assert!(
                labels_of_metric.contains_key(label) || OF_TARGETS.contains(&&**label),
                "{query}: {metric} has no {label}"
            );
        }
    }
    // A metric that no panel shows is worth a look. Sums and counts of durations stand behind the buckets.
    let left_out = ["fieldcache_request_duration_seconds_count", "fieldcache_request_duration_seconds_sum"];
    let unasked: Vec<&String> =
        exposed.keys().filter(|name| !queried.contains(*name) && !left_out.contains(&&***name)).collect();
    assert!(unasked.is_empty(), "no panel shows {unasked:?}");
}

#[test]
fn panels_of_the_dashboard_do_not_overlap() {
    let dashboard = dashboard();
    let (mut taken, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let [x, y, width, height] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(x + width <= 24, "{} is too wide", panel["title"]);
        assert!(numbers.insert(panel["id"].as_u64().unwrap()), "{} has another one's number", panel["title"]);
        for place in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
            assert!(taken.insert(place), "{} is over another one at {place:?}", panel["title"]);
        }
    }
}

#[test]
fn what_a_scrape_does_not_have_is_found() {
    let exposed = scrape();
    let rows = [
        ("rate(fieldcache_request_total{job=\"$job\"}[5m])", "{{verb}}", ""),
        (
            "sum by (verb) (rate(fieldcache_request_total{job=\"$job\",verb!=\"WATCH\"}[$__rate_interval]))",
            "{{verb}}",
            "",
        ),
        ("sum by (le) (rate(fieldcache_request_duration_seconds_bucket{job=\"$job\"}[5m]))", "", ""),
        ("fieldcache_requests_total{job=\"$job\"}", "", "there is no metric fieldcache_requests_total"),
        ("fieldcache_request{job=\"$job\"}", "", "there is no metric fieldcache_request"),
        ("fieldcache_request_duration_seconds{job=\"$job\"}", "", "there is no metric"),
        ("fieldcache_request_total", "", "fieldcache_request_total is not selected by job"),
        ("fieldcache_request_total{verb=\"LIST\"}", "", "is not selected by job"),
        ("fieldcache_request_total{job=\"$job\",method=\"LIST\"}", "", "has no label method"),
        (
            "fieldcache_request_total{job=\"$job\",verb=\"list\"}",
            "",
            "verb of fieldcache_request_total is never \"list\"",
        ),
        ("sum by (method) (fieldcache_request_total{job=\"$job\"})", "", "no metric has the label method"),
        ("sum by (verb) (fieldcache_request_total{job=\"$job\"})", "{{code}}", "the legend shows code"),
        ("fieldcache_lists_waiting{job=\"$job\"}", "{{code}}", "the legend shows code"),
        ("summ(fieldcache_request_total{job=\"$job\"})", "", "summ is no function"),
        ("fieldcache_request_total{job=\"$job\"", "", "has no end"),
        ("sum by (verb", "", "without an end"),
        ("time()", "", "the query has no metric"),
    ];
    for (query, legend, expected) in rows {
        let problems = judged(&exposed, query, legend).join("; ");
        assert!(problems.contains(expected) && problems.is_empty() == expected.is_empty(), "{query}: {problems}");
    }
}
