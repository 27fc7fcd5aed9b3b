//! Metrics as kube-apiserver wrote them, read and ranked.
//!
//! `testdata` has excerpts of the metrics of servers of three versions after the same commands. The commands list
//! shirts by a field, watch them with three clients, list Pods, and create a Deployment.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::exposition::{SampleError, name, sample};
use super::scrape::{DifferentProcesses, ResourceCounts, ResourceName, Scrape, ScrapeError};
use super::{duration, number, rank};

const V1_32: &str = include_str!("testdata/v1.32.txt");
const V1_36: &str = include_str!("testdata/v1.36.txt");
const V1_37: &str = include_str!("testdata/v1.37.txt");

#[test]
fn lines_are_samples_or_errors_with_a_reason() {
    for (line, expected, why) in [
        ("up 1", Ok(("up", vec![], 1.0)), "no labels"),
        ("up{} 1", Ok(("up", vec![], 1.0)), "empty braces"),
        ("a_total{b=\"c\"} 1.5e+06", Ok(("a_total", vec![("b", "c")], 1.5e6)), "Go's exponents"),
        ("a{b=\"c\",d=\"\"} 0 1700000000000", Ok(("a", vec![("b", "c"), ("d", "")], 0.0)), "a timestamp"),
        ("a { b = \"c\" , } 2", Ok(("a", vec![("b", "c")], 2.0)), "blanks and a last comma, which are allowed"),
        ("a{b=\"{\\\"x\\\\y\\\"},\\n\"} 3", Ok(("a", vec![("b", "{\"x\\y\"},\n")], 3.0)), "escapes"),
        ("a{b=\"\\d\"} 3", Ok(("a", vec![("b", "\\d")], 3.0)), "no escape is kept"),
        ("a{le=\"+Inf\"} +Inf", Ok(("a", vec![("le", "+Inf")], f64::INFINITY)), "infinity"),
        ("a", Err(SampleError::Value), "no value"),
        ("a{b=\"c\"}", Err(SampleError::Value), "no value behind labels"),
        ("a{b=\"c\"} many", Err(SampleError::Value), "no number"),
        ("a{b=\"c", Err(SampleError::Labels), "broken off in a value"),
        ("a{b=\"c\\", Err(SampleError::Labels), "broken off in an escape"),
        ("a{b", Err(SampleError::Labels), "broken off in a name"),
        ("a{b=c} 1", Err(SampleError::Labels), "no quotes"),
        ("a{b=\"c\" d=\"e\"} 1", Err(SampleError::Labels), "no comma"),
    ] {
        let read = sample(line);
        let read = read.as_ref().map(|sample| {
            let labels: Vec<(&str, &str)> = sample.labels.iter().map(|(label, value)| (*label, &**value)).collect();
            (sample.name, labels, sample.value)
        });
        assert_eq!(read, expected.as_ref().cloned(), "{why}: {line}");
    }
    for line in ["", "# HELP up Whether it is up.", "   "] {
        assert_eq!(name(line), "", "{line:?} has no name");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        labels in prop::collection::vec(("[a-z_]{1,8}", "\\PC{0,12}|[\\\\\"\n,{}= ]{0,8}"), 0..5),
        value in prop::num::f64::NORMAL,
    ) {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let written: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let line = format!("metric_total{{{}}} {value}", written.join(","));
        let read = sample(&line).unwrap();
        let read_labels: Vec<(String, String)> =
            read.labels.iter().map(|(label, value)| ((*label).to_owned(), value.to_string())).collect();
        prop_assert_eq!(read_labels, labels);
        prop_assert_eq!(read.value, value);
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,60}|[a{}=\"\\\\, 0-9\n]{0,40}") {
        let _may_be_anything = Scrape::parse(&text);
        let _may_be_anything = sample(&text);
    }
}

#[test]
fn each_version_of_kube_apiserver_yields_the_same_counts() {
    let shirts = ResourceName::new("shirts", "stable.example.com");
    for (version, text) in [("1.32", V1_32), ("1.36", V1_36), ("1.37", V1_37)] {
        let reading = Scrape::parse(text).unwrap();
        let counts = &reading.resources[&shirts];
        assert_eq!(counts.objects, Some(6.0), "{version}: objects");
        assert_eq!(counts.watches, 5.0, "{version}: four kubectl and the garbage collector");
        assert!(
            counts.lists >= 5.0 && counts.list_seconds > 0.0 && counts.list_bytes > 10_000.0,
            "{version}: {counts:?}"
        );
        // Five lists found 3 of 6.
        assert!(counts.fetched - counts.returned == 15.0 && counts.returned >= 15.0, "{version}: {counts:?}");
        assert!(counts.events >= 9.0, "{version}: three changes sent to three watches: {counts:?}");
        for (resource, group) in
            [("pods", ""), ("nodes", ""), ("ingresses", "networking.k8s.io"), ("deployments", "apps")]
        {
            let counts = &reading.resources[&ResourceName::new(resource, group)];
            assert!(counts.lists >= 5.0 && counts.watches >= 1.0, "{version}: {resource}: {counts:?}");
        }
        let deployments = &reading.resources[&ResourceName::new("deployments", "apps")];
        assert!(deployments.fetched >= 5.0 && deployments.events >= 1.0, "{version}: {deployments:?}");
        let odd = |resource: &&ResourceName| {
            resource.resource.is_empty() || resource.resource.contains(['/', '.']) || resource.group.contains('/')
        };
        assert_eq!(reading.resources.keys().find(odd), None, "{version}: no name is a resource's that is none");
        assert!(reading.started > 1.7e9, "{version}");
    }
}

#[test]
fn texts_that_are_no_scrape_are_rejected_with_the_reason() {
    let line = |number| ScrapeError::Line {
        line: number,
        cause: SampleError::Labels,
        text: "apiserver_longrunning_requests{verb=\"WATCH".to_owned(),
    };
    for (text, expected, why) in [
        ("", ScrapeError::NotKubeApiserver, "nothing"),
        ("<html>not found</html>", ScrapeError::NotKubeApiserver, "a page"),
        ("process_start_time_seconds 1\nup 1\n", ScrapeError::NotKubeApiserver, "another program's"),
        ("up 1\napiserver_longrunning_requests{verb=\"WATCH", line(2), "broken off"),
    ] {
        assert_eq!(Scrape::parse(text), Err(expected), "{why}");
    }
}

/// A reading with these counts.
fn reading_of(counts: &[(&str, ResourceCounts)]) -> Scrape {
    let resources = counts.iter().map(|(name, counts)| (ResourceName::parse(name), counts.clone())).collect();
    Scrape { started: 1.0, resources }
}

fn counts(objects: f64, watches: f64, events: f64, lists: f64, list_seconds: f64) -> ResourceCounts {
    ResourceCounts { objects: Some(objects), watches, events, lists, list_seconds, ..ResourceCounts::default() }
}

#[test]
fn the_share_is_the_mean_of_the_shares_of_nonzero_costs() {
    for (given, expected, why) in [
        (vec![], vec![], "nothing at all"),
        (vec![("pods", counts(10.0, 0.0, 0.0, 0.0, 0.0))], vec![], "objects that no client reads"),
        (
            vec![("pods", counts(10.0, 2.0, 0.0, 0.0, 0.0)), ("nodes", counts(5.0, 4.0, 0.0, 0.0, 0.0))],
            vec![("nodes", 0.5), ("pods", 0.5)],
            "copies only, equally many: by name",
        ),
        (
            vec![("pods", counts(30.0, 1.0, 8.0, 0.0, 0.0)), ("nodes", counts(10.0, 1.0, 2.0, 0.0, 0.0))],
            vec![("pods", (0.75 + 0.8) / 2.0), ("nodes", (0.25 + 0.2) / 2.0)],
            "copies and events; there were no lists",
        ),
        (
            vec![("pods", counts(30.0, 1.0, 5.0, 1.0, 1.0)), ("nodes", counts(10.0, 1.0, 5.0, 9.0, 99.0))],
            vec![("nodes", (0.25 + 0.5 + 0.99) / 3.0), ("pods", (0.75 + 0.5 + 0.01) / 3.0)],
            "lists can outweigh",
        ),
        (
            vec![("pods", ResourceCounts { single_watches: 2.0, ..counts(0.0, 3.0, 0.0, 0.0, 0.0) })],
            vec![("pods", 0.0)],
            "watches of nothing cost nothing, and are shown",
        ),
    ] {
        let rows = rank(&reading_of(&given), None);
        let shares: Vec<(String, f64)> = rows.iter().map(|row| (row.resource.to_string(), row.share)).collect();
        let expected: Vec<(String, f64)> =
            expected.into_iter().map(|(name, share): (&str, f64)| (name.to_owned(), share)).collect();
        assert_eq!(shares.len(), expected.len(), "{why}: {shares:?}");
        for (found, wanted) in shares.iter().zip(&expected) {
            assert!(found.0 == wanted.0 && (found.1 - wanted.1).abs() < 1e-9, "{why}: {shares:?}");
        }
    }
}

proptest! {
    #[test]
    fn shares_add_up_to_one(given in prop::collection::vec((0u32..99, 0u32..9, 0u32..99, 0u32..99), 1..9)) {
        let given: Vec<(String, ResourceCounts)> = given
            .into_iter()
            .enumerate()
            .map(|(index, (objects, watches, events, lists))| {
                let seconds = f64::from(lists) / 7.0;
                (format!("r{index}"), counts(objects.into(), watches.into(), events.into(), lists.into(), seconds))
            })
            .collect();
        let given: Vec<(&str, ResourceCounts)> = given.iter().map(|(name, counts)| (&**name, counts.clone())).collect();
        let rows = rank(&reading_of(&given), None);
        let sum: f64 = rows.iter().map(|row| row.share).sum();
        let cost = |counts: &ResourceCounts| counts.copies() + counts.events + counts.list_seconds;
        let anything = given.iter().any(|(_, counts)| cost(counts) > 0.0);
        prop_assert!((sum - if anything { 1.0 } else { 0.0 }).abs() < 1e-9, "{sum}");
        prop_assert!(rows.windows(2).all(|pair| pair[0].share >= pair[1].share));
        prop_assert_eq!(rows.len(), given.iter().filter(|(_, counts)| counts.is_read()).count());
    }
}

#[test]
fn the_reason_is_the_greatest_part() {
    let lists = |lists, list_seconds, fetched, returned| ResourceCounts {
        lists,
        list_seconds,
        fetched,
        returned,
        ..ResourceCounts::default()
    };
    for (counts, expected) in [
        (counts(50_000.0, 12.0, 0.0, 0.0, 0.0), "12 watches hold up to 600,000 copies of 50,000 objects"),
        (counts(1.0, 1.0, 0.0, 0.0, 0.0), "1 watch holds up to 1 copy of 1 object"),
        (
            ResourceCounts { single_watches: 9.0, ..counts(50.0, 10.0, 0.0, 0.0, 0.0) },
            "10 watches hold up to 59 copies of 50 objects",
        ),
        (counts(0.0, 2.0, 1_234.0, 0.0, 0.0), "1,234 events went to watches, 2 watches open now"),
        (counts(0.0, 0.0, 1.0, 0.0, 0.0), "1 event went to watches"),
        (lists(1.0, 3.12, 0.0, 0.0), "1 list took 3.1 s"),
        (lists(4.0, 10.0, 10.0, 10.0), "4 lists took 10 s, 2.5 s each"),
        (
            lists(400.0, 62.0, 40_000_000.0, 40_000.0),
            "400 lists took 62 s and read 1,000 objects for each that they returned",
        ),
        (lists(2.0, 0.4, 7_000.0, 0.0), "2 lists took 400 ms and read 7,000 objects to return none"),
        (counts(0.0, 1.0, 0.0, 0.0, 0.0), "1 watch without events"),
        (lists(1.0, 0.0, 0.0, 0.0), "clients rarely read the resource"),
    ] {
        let row = rank(&reading_of(&[("pods", counts.clone())]), None).remove(0);
        assert_eq!(row.reason, expected, "{counts:?}");
    }
    // Three fifths of the copies, a tenth of the events, nine tenths of the time.
    let rows = rank(
        &reading_of(&[("pods", counts(6.0, 1.0, 1.0, 9.0, 9.0)), ("nodes", counts(4.0, 1.0, 9.0, 1.0, 1.0))]),
        None,
    );
    let reasons: Vec<&str> = rows.iter().map(|row| &*row.reason).collect();
    assert_eq!(reasons, ["9 lists took 9.0 s, 1.0 s each", "9 events went to watches, 1 watch open now"]);
    let cached: BTreeSet<ResourceName> = [ResourceName::parse("pods")].into();
    let rows = rank(
        &reading_of(&[("pods", counts(1.0, 2.0, 0.0, 0.0, 0.0)), ("nodes", counts(1.0, 1.0, 0.0, 0.0, 0.0))]),
        Some(&cached),
    );
    assert_eq!(rows.iter().map(|row| row.is_cached).collect::<Vec<_>>(), [Some(true), Some(false)]);
    assert!(
        rows[0].reason.ends_with("; the resource is cached, so these clients could read from fieldcache"),
        "{}",
        rows[0].reason
    );
}

#[test]
fn a_difference_has_the_counters_of_the_time_between_and_the_rest_of_its_end() {
    let earlier = reading_of(&[(
        "pods",
        ResourceCounts { list_bytes: 7.0, fetched: 5.0, returned: 5.0, ..counts(10.0, 1.0, 4.0, 2.0, 1.5) },
    )]);
    let later = reading_of(&[
        ("pods", ResourceCounts { list_bytes: 9.0, fetched: 8.0, returned: 6.0, ..counts(20.0, 3.0, 9.0, 3.0, 2.0) }),
        ("nodes", counts(1.0, 1.0, 1.0, 1.0, 1.0)),
    ]);
    let expected = reading_of(&[
        ("pods", ResourceCounts { list_bytes: 2.0, fetched: 3.0, returned: 1.0, ..counts(20.0, 3.0, 5.0, 1.0, 0.5) }),
        ("nodes", counts(1.0, 1.0, 1.0, 1.0, 1.0)),
    ]);
    assert_eq!(later.since(&earlier), Ok(expected), "what is new counts from nothing");
    let other = Scrape { started: 2.0, ..later };
    assert_eq!(other.since(&earlier), Err(DifferentProcesses));
}

#[test]
fn numbers_are_for_people() {
    for (given, expected) in [(0.0, "0"), (7.4, "7"), (999.0, "999"), (1_000.0, "1,000"), (1_234_567.0, "1,234,567")] {
        assert_eq!(number(given), expected);
    }
    for (given, expected) in [
        (0.0, "0 ms"),
        (0.000_62, "0.62 ms"),
        (0.004_1, "4.1 ms"),
        (0.041, "41 ms"),
        (3.12, "3.1 s"),
        (31.4, "31 s"),
        (5_310.0, "5,310 s"),
    ] {
        assert_eq!(duration(given), expected);
    }
}
