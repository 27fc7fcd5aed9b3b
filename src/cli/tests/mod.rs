//! The command line as it is typed: help texts, exit codes, and what the commands answer for the sample folder.
//!
//! Help texts are in `testdata`; `UPDATE_GOLDEN=1` rewrites them.

#![expect(clippy::disallowed_methods, reason = "these tests read and write files")]

mod advise;
mod kubeconfig;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{CommandFactory, Parser};
use serde_json::{Value, json};

use super::arguments::{Arguments, Command};
use super::exit::Exit;
use super::output::{TextTable, json, printable, printed};
use super::program::Program;
use super::shared_arguments::OutputFormat;
use super::{check, crds, fields, openapi, place, run, serve};
use crate::flow_control::limit::LimitSettings;
use crate::manifest::yaml::{Syntax, documents};
use crate::model::Gvr;
use crate::model::quantity::Bytes;
use crate::runtime::source;
use crate::store::HistoryLimits;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/samples");

const GOOD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shirts.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: shirts, kind: Shirt}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {color: {type: string}}}}}}
    selectableFields: [{jsonPath: .spec.color}]
"#;

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fieldcache-cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _left_for_the_system = std::fs::remove_dir_all(&self.0);
    }
}

fn exit_of(arguments: &[&str]) -> Exit {
    run(std::iter::once("fieldcache").chain(arguments.iter().copied()).map(OsString::from))
}

fn parsed(arguments: &[&str]) -> Command {
    Arguments::try_parse_from(std::iter::once("fieldcache").chain(arguments.iter().copied())).unwrap().command
}

async fn fields_of(arguments: &[&str]) -> anyhow::Result<String> {
    match parsed(arguments) {
        Command::Fields(arguments) => fields::answer(&arguments).await,
        other => panic!("{other:?}"),
    }
}

#[test]
fn help_texts_are_as_written() {
    Arguments::command().debug_assert();
    let mut root = Arguments::command().term_width(100);
    root.build();
    let mut texts = vec![("fieldcache".to_owned(), root.render_long_help().to_string())];
    for command in root.get_subcommands_mut().filter(|command| !command.is_hide_set()) {
        texts.push((command.get_name().to_owned(), command.render_long_help().to_string()));
    }
    assert_eq!(texts.len(), 12, "the program and the commands that are there");
    for (name, text) in texts {
        golden(&format!("{name}.txt"), &text);
    }
}

/// Compares a text with the file of this name in `testdata`, or writes that.
pub(super) fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/testdata").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "testdata/{name}; if this is meant, run with UPDATE_GOLDEN=1");
}

#[test]
fn the_name_of_the_file_makes_it_a_plugin() {
    for (started_as, expected) in [
        (None, Program::Itself),
        (Some(""), Program::Itself),
        (Some("fieldcache"), Program::Itself),
        (Some("/usr/bin/fieldcache"), Program::Itself),
        (Some("/opt/kubectl-fieldcache/fieldcache"), Program::Itself),
        (Some("kubectl-fieldcache"), Program::Plugin),
        (Some("/home/me/bin/kubectl-fieldcache"), Program::Plugin),
        (Some("kubectl-fieldcache.exe"), Program::Plugin),
        (Some("kubectl-fieldcache-2"), Program::Itself),
    ] {
        assert_eq!(Program::from_name(started_as.map(OsStr::new)), expected, "{started_as:?}");
    }
}

#[test]
fn a_plugin_speaks_of_what_can_be_typed() {
    let mut root = Program::Plugin.command().term_width(100);
    root.build();
    let usage = root.render_long_help().to_string();
    assert!(usage.contains("Usage: kubectl fieldcache <COMMAND>"), "{usage}");
    let mut seen = 0;
    for command in root.get_subcommands_mut().filter(|command| !command.is_hide_set()) {
        let (name, text) = (command.get_name().to_owned(), command.render_long_help().to_string());
        assert!(text.contains(&format!("Usage: kubectl fieldcache {name}")), "{text}");
        let own = Program::Itself.in_text(&text);
        let bare = own.match_indices("fieldcache ").filter(|(position, _)| !own[..*position].ends_with("kubectl "));
        let bare: Vec<&str> = bare.map(|(position, _)| own[position..].lines().next().unwrap_or_default()).collect();
        let commands =
            ["serve", "operator", "check", "fields", "openapi", "kubeconfig", "advise", "get", "place", "tree", "crds"];
        let typed = bare.iter().find(|line| line.split(' ').nth(1).is_some_and(|word| commands.contains(&word)));
        assert_eq!(typed, None, "{name}");
        seen += text.matches("kubectl fieldcache").count();
    }
    assert!(seen > 12, "examples are among it: {seen}");
    let said = "there is none; `fieldcache fields` lists them";
    assert_eq!(Program::Itself.in_text(said), said);
    assert_eq!(Program::Plugin.in_text(said), "there is none; `kubectl fieldcache fields` lists them");
}

#[test]
fn exit_codes_tell_done_no_and_failed_apart() {
    let directory = Directory::new();
    let good = directory.write("good.yaml", GOOD);
    let bad = directory.write("bad.yaml", &GOOD.replace("jsonPath: .spec.color", "jsonPath: .spec.colour"));
    let other = directory.write("other.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n");
    let broken = directory.write("broken.yaml", "a: [b\n");
    let missing = directory.path("missing");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let document = directory.path("document.json");
    // None of these comes as far as its log: a process begins that once. The end-to-end test `bad_input` covers later
    // failures.
    for (arguments, expected, why) in [
        (&["--help"][..], Exit::Done, "help is an answer"),
        (&["--version"], Exit::Done, "so is the version"),
        (&[], Exit::Failed, "no command"),
        (&["serv"], Exit::Failed, "an unknown command"),
        (&["serve", "--nothing"], Exit::Failed, "an unknown option"),
        (&["serve", "--dir", SAMPLES, "--server", "http://127.0.0.1:1"], Exit::Failed, "two sources"),
        (&["serve", "--dir", SAMPLES, "--resource", "pods.v1"], Exit::Failed, "a folder is always loaded whole"),
        (&["serve", "--dir", SAMPLES, "--pass-through", "read"], Exit::Failed, "a folder has no server behind it"),
        (&["serve", "--dir", SAMPLES, "--self-check-interval", "5m"], Exit::Failed, "a folder is its own truth"),
        (&["serve", "--self-check-interval", "often"], Exit::Failed, "no duration"),
        (&["serve", "--address", &taken, "--self-check-interval", "1ms"], Exit::Failed, "checks without an end"),
        (&["serve", "--dir", SAMPLES, "--address", "0.0.0.0:0"], Exit::Failed, "not a loopback address"),
        (&["serve", "--dir", SAMPLES, "--address", "here"], Exit::Failed, "no address"),
        (
            &["serve", "--dir", SAMPLES, "--address", "127.0.0.1:0", "--metrics-address", "0.0.0.0:0"],
            Exit::Failed,
            "metrics not on a loopback address",
        ),
        (&["serve", "--dir", SAMPLES, "--tls-cert-file", &missing], Exit::Failed, "a certificate without its key"),
        (&["serve", "--dir", SAMPLES, "--tls-private-key-file", &missing], Exit::Failed, "a key without certificate"),
        (&["fields", "--server", "127.0.0.1:6443"], Exit::Failed, "a server without a scheme"),
        (&["check"], Exit::Failed, "no file"),
        (&["check", &good], Exit::Done, "an accepted definition"),
        (&["check", &bad], Exit::No, "a refused one"),
        (&["check", &good, &bad], Exit::No, "one of both"),
        (&["check", &other], Exit::Failed, "no definition"),
        (&["check", &broken], Exit::Failed, "no YAML"),
        (&["check", &missing], Exit::Failed, "no file of that name"),
        (&["check", &good, "-o", "xml"], Exit::Failed, "an unknown format"),
        (&["fields", "--dir", SAMPLES], Exit::Done, "fields"),
        (&["fields", "nothing", "--dir", SAMPLES], Exit::Failed, "an unknown resource"),
        (&["openapi", "--dir", SAMPLES, "--output-file", &document], Exit::Done, "a document"),
        (&["openapi", "--dir", SAMPLES, "--group-version", "none/v1"], Exit::Failed, "an unknown group"),
        (&["openapi", "--dir", SAMPLES, "--group-version", "a/b/c"], Exit::Failed, "no group and version"),
        (
            &["openapi", "--dir", SAMPLES, "--openapi-version", "v2", "--group-version", "apps/v1"],
            Exit::Failed,
            "v2 is one document",
        ),
    ] {
        assert_eq!(exit_of(arguments), expected, "{why}: {arguments:?}");
    }
}

#[test]
fn check_says_what_is_accepted_and_why_not() {
    let directory = Directory::new();
    let good = directory.write("good.yaml", GOOD);
    let bad = directory.write("bad.yaml", &GOOD.replace("jsonPath: .spec.color", "jsonPath: .spec.colour"));
    let answer = |arguments: &[&str]| match parsed(arguments) {
        Command::Check(arguments) => check::answer(&arguments).unwrap(),
        other => panic!("{other:?}"),
    };
    let (text, exit) = answer(&["check", &good]);
    assert_eq!(text, format!("{good}:2: shirts.stable.example.com: accepted, selectable fields: 1\n"));
    assert_eq!(exit, Exit::Done);
    let (text, exit) = answer(&["check", &bad]);
    assert!(text.starts_with(&format!("{bad}:2: shirts.stable.example.com: rejected for 1 reason\n")), "{text}");
    assert!(text.contains("spec.selectableFields[0].jsonPath: Invalid value: \".spec.colour\""), "{text}");
    assert!(text.contains("only \"color\""), "{text}");
    assert_eq!(exit, Exit::No);
    assert_eq!(answer(&["check", &good, &bad, "-o", "name"]).0.lines().count(), 2);
    let list = directory.write("list.yaml", &printed(&crds::CrdList, OutputFormat::Yaml));
    assert_eq!(answer(&["check", &list, "-o", "name"]).0.lines().count(), 3, "a List of definitions");
    let json: Value = serde_json::from_str(&answer(&["check", &good, &bad, "-o", "json"]).0).unwrap();
    assert_eq!((&json[0]["accepted"], &json[1]["accepted"]), (&Value::Bool(true), &Value::Bool(false)));
}

#[tokio::test]
async fn fields_of_the_samples_are_listed() {
    let table = fields_of(&["fields", "shirts", "--dir", SAMPLES]).await.unwrap();
    assert_eq!(table.lines().next().unwrap().split_whitespace().next(), Some("RESOURCE"));
    let row = table.lines().find(|line| line.contains("spec.color")).unwrap();
    assert!(row.starts_with("shirts.v1.stable.example.com") && row.ends_with("CustomResourceDefinition"), "{row}");
    for name in ["shirt", "Shirt", "shirts.stable.example.com", "shirts.v1.stable.example.com"] {
        let names = fields_of(&["fields", name, "--dir", SAMPLES, "-o", "name"]).await.unwrap();
        let [first, color] =
            ["metadata.name", "spec.color"].map(|field| format!("shirts.v1.stable.example.com/{field}\n"));
        assert!(names.starts_with(&first) && names.contains(&color), "{name}: {names}");
    }
    let json: Value =
        serde_json::from_str(&fields_of(&["fields", "pods", "--dir", SAMPLES, "-o", "json"]).await.unwrap()).unwrap();
    let phase = json.as_array().unwrap().iter().find(|row| row["fieldPath"] == "status.phase").unwrap();
    assert_eq!(phase["origin"], "BuiltIn");
    let unknown = fields_of(&["fields", "nothing", "--dir", SAMPLES]).await.unwrap_err();
    assert!(unknown.to_string().contains("serves no resource \"nothing\""), "{unknown}");
}

#[test]
fn the_definitions_are_printed_in_every_form() {
    let text = |output| printed(&crds::CrdList, output);
    let list: Value = serde_json::from_str(&text(OutputFormat::Json)).unwrap();
    assert_eq!((&list["kind"], list["items"].as_array().map(Vec::len)), (&Value::from("List"), Some(3)));
    let table = text(OutputFormat::Table);
    assert!(table.starts_with("NAME ") && table.contains("\nfieldcaches.fieldcache.dev "), "{table}");
    assert!(text(OutputFormat::Wide).lines().next().unwrap().ends_with("CATEGORIES"), "more columns");
    let names = text(OutputFormat::Name);
    assert_eq!(names.lines().next(), Some("customresourcedefinition.apiextensions.k8s.io/fieldcaches.fieldcache.dev"));
}

/// Every command that prints a result has every form: one document in JSON and YAML, columns, and names that other commands take.
#[tokio::test]
async fn forms_mean_the_same_in_every_command() {
    let directory = Directory::new();
    let good = directory.write("good.yaml", GOOD);
    let pod = format!("{SAMPLES}/../placement/disktype/pod.yaml");
    let nodes = format!("{SAMPLES}/../placement/disktype");
    let commands: [&[&str]; 4] = [
        &["check", &good],
        &["fields", "shirts", "--dir", SAMPLES],
        &["place", "-f", &pod, "--dir", &nodes],
        &["crds"],
    ];
    for arguments in commands {
        let mut texts = Vec::new();
        for form in ["json", "yaml", "table", "wide", "name"] {
            texts.push(match parsed(&[arguments, &["-o", form]].concat()) {
                Command::Check(arguments) => check::answer(&arguments).unwrap().0,
                Command::Fields(arguments) => fields::answer(&arguments).await.unwrap(),
                Command::Place(arguments) => place::answer(&arguments).await.unwrap().0,
                Command::Crds(arguments) => printed(&crds::CrdList, arguments.output),
                other => panic!("{other:?}"),
            });
        }
        let [json, yaml, table, wide, names] = &texts[..] else { panic!("five forms") };
        // The reader of manifests reads objects only, and a List as its items.
        let (results, yaml) = match serde_json::from_str::<Value>(json).unwrap() {
            items @ Value::Array(_) => (vec![json!({"items": items})], format!("items:\n{yaml}")),
            list if list["kind"] == "List" => (list["items"].as_array().unwrap().clone(), yaml.clone()),
            object => (vec![object], yaml.clone()),
        };
        // Versions of a folder begin with the time at which it is read, which is another one for each form.
        let timeless = |mut value: Value| {
            if let Some(status) = value.get_mut("status").and_then(Value::as_object_mut) {
                status.remove("resourceVersions");
            }
            value
        };
        let (documents, broken) = documents(yaml.as_bytes(), Syntax::Yaml);
        assert!(broken.is_empty() && !yaml.contains("---"), "{arguments:?}: one document: {yaml}");
        let read: Vec<Value> = documents.into_iter().map(|document| timeless(document.value)).collect();
        assert_eq!(read, results.into_iter().map(timeless).collect::<Vec<_>>(), "{arguments:?}");
        assert_ne!(table, wide, "{arguments:?}");
        assert!(table.ends_with('\n') && names.lines().all(|name| name.contains('/')), "{arguments:?}: {names}");
    }
    let document =
        |kind: &str| json!({"kind": kind, "paths": {"apis/stable.example.com/v1": {"serverRelativeURL": "/x"}}});
    let index = document("").to_string();
    assert_eq!(openapi::text(index.as_bytes(), OutputFormat::Name).unwrap(), "stable.example.com/v1\n");
    assert_eq!(openapi::text(index.as_bytes(), OutputFormat::Table).unwrap(), "GROUP VERSION\nstable.example.com/v1\n");
    let fields = json!({"x-kubernetes-selectable-fields": [{"fieldPath": "spec.color"}, {"fieldPath": "spec.size"}]});
    let schemas = json!({"Shirt": fields, "Sock": {"type": "object"}});
    for document in [json!({"definitions": schemas}), json!({"components": {"schemas": schemas}})] {
        let text = |output| openapi::text(document.to_string().as_bytes(), output).unwrap();
        assert_eq!(text(OutputFormat::Name), "Shirt\nSock\n");
        assert_eq!(text(OutputFormat::Table), "SCHEMA   SELECTABLE FIELDS\nShirt    spec.color,spec.size\n");
        assert_eq!(text(OutputFormat::Wide).lines().count(), 3);
        let (documents, _) = documents(text(OutputFormat::Yaml).as_bytes(), Syntax::Yaml);
        assert_eq!(documents[0].value, document);
    }
}

#[test]
fn openapi_of_the_samples_publishes_the_fields() {
    let directory = Directory::new();
    let file = directory.path("out.json");
    let written = |arguments: &[&str]| -> Value {
        let all = [&["openapi", "--dir", SAMPLES, "--output-file", &file], arguments].concat();
        assert_eq!(exit_of(&all), Exit::Done, "{arguments:?}");
        serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap()
    };
    let index = written(&[]);
    assert!(index["paths"]["apis/stable.example.com/v1"]["serverRelativeURL"].is_string(), "{index}");
    let has_color =
        |entries: &Value| entries.as_array().unwrap().iter().any(|entry| entry["fieldPath"] == "spec.color");
    let extension = "x-kubernetes-selectable-fields";
    let v3 = written(&["--group-version", "stable.example.com/v1"]);
    assert!(has_color(&v3["components"]["schemas"]["com.example.stable.v1.Shirt"][extension]));
    let v2 = written(&["--openapi-version", "v2"]);
    assert!(has_color(&v2["definitions"]["com.example.stable.v1.Shirt"][extension]));
}

#[tokio::test]
async fn the_greeting_shows_a_selector_that_selects() {
    let opened =
        source::open(&source::SourceLocation::Folder(SAMPLES.into()), &source::SourceOptions::default()).await.unwrap();
    let catalog = opened.registry.catalog();
    let (resource, snapshot) = serve::first_loaded(&catalog, &[]).await.unwrap();
    let (label, value) = serve::example_selector(&resource, &snapshot).unwrap();
    let field = resource.extractor.fields().iter().position(|field| field.label == label).unwrap();
    let field = crate::model::FieldIndex(u16::try_from(field).unwrap());
    let selected = snapshot.occupied().to_bitmap().into_iter().filter_map(|slot| snapshot.object(slot));
    assert!(selected.filter(|object| object.values(field).any(|found| found == value)).count() > 0, "{label}={value}");
    let mut reached = serve::Reached { address: "127.0.0.1:8181".parse().unwrap(), certificate: None, metrics: None };
    let text = serve::greeting(&catalog, ("here", &[]), &reached, Some((resource.clone(), snapshot.clone())));
    assert!(text.starts_with("serving here at http://127.0.0.1:8181 (fieldcache "), "{text}");
    assert!(text.contains("\nloaded: 19 objects of 6 resources\n"), "{text}");
    assert!(text.contains(&format!("--field-selector {label}={value}\n")), "{text}");
    assert!(text.contains(&format!("fieldSelector={label}%3D{value}'\n")), "{text}");
    reached.metrics = Some("127.0.0.1:9090".parse().unwrap());
    let without = serve::greeting(&catalog, ("here", &[]), &reached, None);
    assert!(without.contains("--field-selector status.phase=Running\n"), "{without}");
    let pods = [Gvr::new("", "v1", "pods")];
    let requested = serve::greeting(&catalog, ("here", &pods), &reached, None);
    assert!(requested.contains("8181/api/v1/pods'\n") && requested.contains(" get pods -A\n"), "{requested}");
    let loaded = serve::first_loaded(&catalog, &pods).await.map(|(resource, _)| resource.gvr.clone());
    assert_eq!(loaded.as_ref(), Some(&pods[0]), "the requested resource is the example");
    assert!(without.contains("\nmetrics: http://127.0.0.1:9090/metrics\n") && !text.contains("metrics"), "{without}");
    reached.certificate = Some("it's/tls.crt".into());
    let encrypted = serve::greeting(&catalog, ("here", &[]), &reached, Some((resource.clone(), snapshot)));
    assert!(encrypted.starts_with("serving here at https://127.0.0.1:8181 (fieldcache "), "{encrypted}");
    let file = r"'it'\''s/tls.crt'";
    assert!(encrypted.contains(&format!("\n  curl --cacert {file} 'https://127.0.0.1:8181/apis/")), "{encrypted}");
    let kubectl = format!("kubectl --server https://127.0.0.1:8181 --token none --certificate-authority {file}");
    assert_eq!(encrypted.matches(&kubectl).count(), 2, "{encrypted}");
}

#[test]
fn tables_align_by_characters() {
    let mut table = TextTable::new(&["NAME", "VALUE", "LAST"]);
    assert!(table.is_empty());
    for row in [["a", "größer", "x"], ["longer", "", "y"], ["ж", "1", ""]] {
        table.push(row.map(str::to_owned).to_vec());
    }
    let expected = "NAME     VALUE    LAST\na        größer   x\nlonger            y\nж        1\n";
    assert_eq!(table.print(), expected);
}

#[test]
fn connections_are_as_many_as_open_files_allow() {
    for (wanted, open_files, expected, why) in [
        (8_192, None, 8_192, "no limit is known"),
        (8_192, Some(1 << 20), 8_192, "all that are wanted"),
        (8_192, Some(4_096), 3_584, "some files are for other things"),
        (8_192, Some(8_704), 8_192, "exactly enough"),
        (8_192, Some(600), 300, "half of little"),
        (8_192, Some(1), 1, "never none"),
        (2, Some(600), 2, "few are wanted"),
    ] {
        assert_eq!(super::limits::connections(wanted, open_files), expected, "{why}");
    }
}

#[test]
fn limits_are_read_from_the_command_line() {
    let limits = |arguments: &[&str]| {
        let Command::Serve(serve) = parsed(&[&["serve"], arguments].concat()) else { panic!("serve") };
        serve.limits
    };
    let defaults = limits(&[]);
    assert_eq!(defaults.settings(), LimitSettings::default(), "the defaults in the help are those of the server");
    let history = defaults.history();
    let usual = HistoryLimits::default();
    assert_eq!((history.changes, history.bytes), (usual.changes, usual.bytes));
    assert_eq!(defaults.memory_limit, None);
    let named = limits(&["--memory-limit", "1.5Gi", "--max-lists=3", "--history-memory=1Mi", "--history-changes=7"]);
    assert_eq!(named.memory_limit, Some(Bytes(3 << 29)));
    assert_eq!((named.settings().lists, named.history().bytes, named.history().changes), (3, 1 << 20, 7));
    for refused in [
        ["--memory-limit", "2GB"],
        ["--max-lists", "0"],
        ["--max-connections", "-1"],
        ["--max-list-bytes", "100m"],
        ["--max-bodies", "1"],
        ["--max-body-bytes", "5Mi"],
        ["--max-watches-per-user", "many"],
    ] {
        assert_eq!(exit_of(&[&["serve"], &refused[..]].concat()), Exit::Failed, "{refused:?}");
    }
}

#[test]
fn what_controls_a_terminal_is_shown_and_not_done() {
    for (text, shown) in [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\u{1b}]0;title\u{7}", "^[]0;title^G"),
        ("a\rb\u{8}c\u{7f}", "a^Mb^Hc^?"),
        ("\u{9b}31mred", "\\u{9b}31mred"),
        ("ä \u{1f455}", "ä \u{1f455}"),
    ] {
        assert_eq!(printable(text), shown);
    }
    // JSON keeps each value, whatever it is.
    let strange = serde_json::json!({ "text": "\u{1b}a\u{7f}\n\u{9b}31m" });
    let text = json(&strange.to_string()).into_owned();
    assert_eq!(text, r#"{"text":"\u001ba\u007f\n\u009b31m"}"#);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), strange);
    let mut table = TextTable::new(&["NAME", "DEFAULT"]);
    table.push(vec!["a".to_owned(), "b\nFAKE   row".to_owned()]);
    assert_eq!(table.print(), "NAME   DEFAULT\na      b^JFAKE   row\n", "a cell stays in its row");
}
