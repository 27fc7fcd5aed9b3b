//! The printed tree of a folder, and what is sent to a server and becomes of its errors, as far as no server is needed
//! for it.

use std::sync::Arc;

use clap::Parser;
use serde_json::{Value, json};

use super::arguments::{ObjectName, TreeArguments};
use super::remote::{dependents_path, explanation};
use super::{answer, notes, picture};
use crate::cli::arguments::{Arguments, Command};
use crate::cli::exit::Exit;
use crate::cli::output::Printed;
use crate::cli::paths::object_path;
use crate::cli::tests::golden;
use crate::dependents::document::{ObjectStatus, Owner};
use crate::dependents::{Dependent, DependentsDocument};
use crate::model::{Gvr, Moment, Scope};
use crate::source::discovery::Discovered;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/tree/testdata");

fn parsed(arguments: &[&str]) -> TreeArguments {
    match Arguments::try_parse_from(["fieldcache", "tree"].iter().chain(arguments)).unwrap().command {
        Command::Tree(arguments) => arguments,
        other => panic!("{other:?}"),
    }
}

fn now() -> Moment {
    Moment::parse("2026-01-01T00:10:30Z").unwrap()
}

async fn in_folder(arguments: &[&str]) -> (String, Vec<String>, Exit) {
    answer(&parsed(&[arguments, &["--dir", FOLDER]].concat()), now()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_printed_in_every_form() {
    for output in ["table", "wide", "json", "yaml", "name"] {
        let (text, notes, exit) = in_folder(&["deployment/web", "-n", "team-a", "-o", output]).await;
        golden(&format!("tree.{output}.txt"), &text);
        assert_eq!((notes, exit), (Vec::<String>::new(), Exit::Done), "{output}");
    }
    let (table, ..) = in_folder(&["deploy", "web", "-n", "team-a"]).await;
    assert!(include_str!("../../../README.md").contains(&table), "the README shows this tree");
    let same = in_folder(&["Deployment.v1.apps/web", "-n", "team-a"]).await.0;
    assert_eq!(same, table, "other names of the same kind");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_without_dependents_is_a_negative_result() {
    let (text, notes, exit) = in_folder(&["secret/alone", "-n", "team-a"]).await;
    assert_eq!(exit, Exit::No);
    assert!(text.contains("team-a      Secret/alone"), "{text}");
    assert!(notes.concat().contains("no dependents were found"), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_remedy() {
    for (arguments, expected) in [
        (&["deployment"][..], "write KIND/NAME, such as deployment/web, or KIND NAME"),
        (&["deployment/"], "write KIND/NAME"),
        (&["deployment/a/b"], "write KIND/NAME"),
        (&["deployment", "a/b"], "write KIND/NAME"),
        (&["deployment/web"], "has no deployments.apps \"web\" in the namespace default: -n selects another namespace"),
        (&["node/web"], "has no nodes \"web\""),
        (&["socks/web"], "has no kind \"socks\": `fieldcache fields --dir"),
    ] {
        let failed = answer(&parsed(&[arguments, &["--dir", FOLDER]].concat()), now()).await;
        let message = format!("{:#}", failed.unwrap_err());
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    assert_eq!(parsed(&["a", "b"]).object_name().unwrap(), ObjectName { kind: "a", name: "b" });
}

fn object(uid: &str, owners: &[&str]) -> Dependent {
    Dependent {
        api_version: "v1".to_owned(),
        kind: "Thing".to_owned(),
        namespace: String::new(),
        name: uid.to_owned(),
        uid: uid.to_owned(),
        owners: owners.iter().map(|uid| Owner { uid: (*uid).to_owned(), controller: false }).collect(),
        creation_timestamp: String::new(),
        status: ObjectStatus::default(),
    }
}

fn document(dependents: Vec<Dependent>) -> DependentsDocument {
    let document = json!({"apiVersion": "", "kind": "", "metadata": {"name": "root"}});
    DependentsDocument { dependents, ..serde_json::from_value(document).unwrap() }
}

#[test]
fn an_object_is_below_each_owner_and_cycles_end() {
    for (dependents, expected, why) in [
        (vec![], "root", "no dependents"),
        (vec![object("a", &["root"]), object("b", &["root"])], "root|├─a|└─b", "two"),
        (
            vec![object("a", &["root"]), object("b", &["root"]), object("c", &["a", "b"]), object("d", &["c"])],
            "root|├─a|│ └─c|│   └─d|└─b|  └─c",
            "two owners: the dependents of the object are below its first line",
        ),
        (
            vec![object("a", &["root", "b"]), object("b", &["a", "root"])],
            "root|├─a|│ └─b|│   └─a|└─b",
            "owners of each other",
        ),
        (vec![object("a", &["root", "a"])], "root|└─a|  └─a", "an owner of itself"),
    ] {
        let tree = picture::OwnerTree { owner: object("root", &["a"]), found: document(dependents), now: now() };
        let table = tree.table(false);
        // After the empty column NAMESPACE, up to READY.
        let name =
            |line: &str| line.chars().skip(12).collect::<String>().split(" -").next().unwrap().trim_end().to_owned();
        let lines: Vec<String> = table.lines().skip(1).map(|line| name(line).replace("Thing/", "")).collect();
        assert_eq!(lines.join("|"), expected, "{why}");
    }
}

#[test]
fn notes_say_what_may_be_missing() {
    let resource = |number: usize| json!({"group": if number == 0 { "" } else { "g" }, "version": "v1", "resource": format!("r{number}")});
    let some = |count: usize| -> Value { (0..count).map(resource).collect() };
    let whole = json!({"apiVersion": "", "kind": "", "metadata": {"name": "u"}, "dependents": [object("a", &[])]});
    for (member, value, expected, why) in [
        ("resources", some(2), "", "all that was searched"),
        (
            "truncated",
            json!("the maximum of 7 objects was read"),
            "the tree is not complete: the maximum of 7 objects was read; show",
            "a limit",
        ),
        ("notPermitted", some(2), "can be missing: r0, r1.g", "permissions"),
        ("notReady", some(15), "r11.g and 3 more; `fieldcache serve` loads a resource", "not loaded"),
        ("dependents", json!([]), "no dependents were found", "none"),
    ] {
        let mut document = whole.clone();
        document[member] = value;
        let notes = notes(&serde_json::from_value(document).unwrap()).join("\n");
        assert!(notes.contains(expected) && notes.is_empty() == expected.is_empty(), "{why}: {notes}");
    }
}

#[test]
fn requests_go_to_the_namespace_of_the_object() {
    let resource = |scope| Discovered {
        gvr: Gvr::new("g.example.com", "v1", "things"),
        kind: "Thing".to_owned(),
        singular: "thing".to_owned(),
        scope,
        short_names: Arc::new([]),
        categories: Arc::new([]),
        subresources: Vec::new(),
        spells_out_kind: true,
    };
    let (namespaced, cluster) = (resource(Scope::Namespaced), resource(Scope::Cluster));
    assert_eq!(object_path(&namespaced, "a", "x"), "/apis/g.example.com/v1/namespaces/a/things/x");
    assert_eq!(object_path(&cluster, "a", "system:x/../y"), "/apis/g.example.com/v1/things/system%3Ax%2F..%2Fy");
    let own = "/apis/view.fieldcache.dev/v1alpha1";
    assert_eq!(dependents_path(&namespaced, "a", "u"), format!("{own}/namespaces/a/dependents/u"));
    assert_eq!(dependents_path(&cluster, "a", "u?v"), format!("{own}/dependents/u%3Fv"));
}

#[test]
fn a_server_without_dependents_is_told_from_a_missing_permission() {
    let (url, view) = ("https://h:6443", "https://h/apis/view.fieldcache.dev/v1alpha1/views/blue/proxy");
    for (url, refused, has_group, expected) in [
        (
            url,
            None,
            false,
            "https://h:6443 is not a fieldcache server, or is too old to find dependents: give the URL of a fieldcache server with --server",
        ),
        (url, Some("no"), false, "is not a fieldcache server"),
        (url, None, true, "is a fieldcache server that does not serve dependents: upgrade it"),
        (
            url,
            Some("no"),
            true,
            "does not permit you to get dependents: no; an administrator can bind the ClusterRole fieldcache-dependents",
        ),
        (view, None, false, "is the URL of a View, which shows no dependents"),
        (view, Some("no"), true, "is the URL of a View, which shows no dependents"),
    ] {
        let text = explanation(url, refused, has_group);
        assert!(text.contains(expected), "{url} {refused:?} {has_group}: {text}");
    }
}
