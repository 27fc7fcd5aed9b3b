//! `fieldcache advise` without a cluster: its tables and documents, of what a real kube-apiserver once said.
//!
//! They are in `testdata` beside the help texts; `UPDATE_GOLDEN=1` rewrites them.

use std::collections::BTreeSet;

use super::super::advise::{forbidden, text};
use super::super::shared_arguments::OutputFormat;
use super::golden;
use crate::advise::rank;
use crate::advise::scrape::{ResourceName, Scrape};

const METRICS: &str = include_str!("../../../crates/core/src/advise/testdata/v1.36.txt");

#[test]
fn the_tables_are_as_written() {
    let reading = Scrape::parse(METRICS).unwrap();
    let cached: BTreeSet<ResourceName> = [ResourceName::parse("deployments.apps")].into();
    let rows = rank(&reading, Some(&cached));
    for (output, name) in [
        (OutputFormat::Table, "advise.table.txt"),
        (OutputFormat::Wide, "advise.wide.txt"),
        (OutputFormat::Json, "advise.json"),
        (OutputFormat::Yaml, "advise.yaml"),
        (OutputFormat::Name, "advise.names.txt"),
    ] {
        golden(name, &text(&rows, output));
    }
    let unknown = text(&rank(&reading, None), OutputFormat::Table);
    assert!(unknown.lines().skip(1).all(|line| line.contains("   ?   ")), "{unknown}");
    assert_eq!(text(&[], OutputFormat::Table).lines().count(), 1, "nothing is read");
}

#[test]
fn the_command_that_grants_a_missing_permission_can_be_pasted() {
    let said = forbidden("https://a:1", "forbidden: User \"eve\" cannot get path \"/metrics\"");
    for part in ["https://a:1", "eve", "kubectl create clusterrole ", "- nonResourceURLs: [/metrics]\n  verbs: [get]"] {
        assert!(said.contains(part), "{said}");
    }
}
