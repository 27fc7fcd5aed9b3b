//! What the command prints for a folder, how its arguments are read, and what it requests from other servers. Servers
//! are in this process: that of `--dir`, and in [`servers`] one that answers as kube-apiserver does.
//!
//! The end-to-end tests compare the tables with those of kubectl.

mod printing;
mod servers;

use std::sync::Arc;

use clap::Parser;
use serde_json::Value;

use super::arguments::{GetArguments, WantedObjects};
use super::columns::PathColumn;
use super::requests::warning_text;
use super::{Streams, answer};
use super::{columns, plan};
use crate::cli::arguments::{Arguments, Command};
use crate::cli::exit::Exit;
use crate::cli::tests::golden;

/// Objects with fixed times of creation.
const WEB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/tree/testdata");

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/samples");

/// What the command printed.
struct Answer {
    result: anyhow::Result<Exit>,
    out: String,
    err: String,
}

impl Answer {
    #[track_caller]
    fn exit(&self) -> Exit {
        match &self.result {
            Ok(exit) => *exit,
            Err(error) => panic!("{error:#}"),
        }
    }

    #[track_caller]
    fn error(&self) -> String {
        match &self.result {
            Ok(exit) => panic!("{exit:?}: {}{}", self.out, self.err),
            Err(error) => format!("{error:#}"),
        }
    }
}

fn parsed(arguments: &[&str]) -> Result<GetArguments, clap::Error> {
    match Arguments::try_parse_from(["fieldcache", "get"].iter().chain(arguments))?.command {
        Command::Get(arguments) => Ok(*arguments),
        other => panic!("{other:?}"),
    }
}

/// Runs the command with a clock that shows half past ten minutes after the creation of the objects of [`WEB`].
async fn get(arguments: &[&str]) -> Answer {
    get_in_width(None, arguments).await
}

/// Like [`get`], at a terminal with lines of this many characters.
async fn get_in_width(width: Option<usize>, arguments: &[&str]) -> Answer {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams { out: &mut out, err: &mut err, width };
    let now: jiff::Timestamp = "2026-01-01T00:10:30Z".parse().unwrap();
    let result = answer(&parsed(arguments).unwrap(), Arc::new(move || now), &mut streams).await;
    Answer { result, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
}

async fn in_folder(folder: &str, arguments: &[&str]) -> Answer {
    get(&[arguments, &["--dir", folder]].concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_is_printed_of_a_folder() {
    for (name, arguments) in [
        ("table", &["pods", "-n", "team-a"][..]),
        ("wide", &["pods", "-A", "-o", "wide", "--show-labels"]),
        ("named", &["pod/web-2-a", "pod/web-2-b", "deploy/web", "-n", "team-a"]),
        ("json", &["po", "-A", "-o", "json", "--chunk-size", "1"]),
        ("yaml", &["po", "-A", "-o", "yaml", "--chunk-size", "1"]),
        ("one.yaml", &["deployment", "web", "-n", "team-a", "-o", "yaml"]),
        ("name", &["pods,deployments", "-n", "team-a", "-o", "name"]),
        ("columns", &["pods", "-A", "--columns", "NAME:.metadata.name,{.spec.containers[*].image},PHASE:status.phase"]),
    ] {
        let answer = in_folder(WEB, arguments).await;
        assert_eq!((answer.exit(), &*answer.err), (Exit::Done, ""), "{name}");
        // The versions of a folder begin with the time of the start.
        let text = answer.out.lines().map(|line| match line.split_once("resourceVersion\": \"") {
            Some((before, version)) if version.len() > 5 => format!("{before}resourceVersion\": \"1\",\n"),
            _ => match line.split_once("resourceVersion: \"") {
                Some((before, version)) if version.len() > 5 => format!("{before}resourceVersion: \"1\"\n"),
                _ => format!("{line}\n"),
            },
        });
        golden(&format!("get.{name}.txt"), &text.collect::<String>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_fieldcache_reach_the_server() {
    for (arguments, expected, why) in [
        (&["--field-selector", "spec.color in (green,red)"][..], "example3 example5", "an operator of fieldcache"),
        (&["--where", "self.spec.color == 'red' || self.spec.quantity > 10"], "example2 example5", "CEL"),
        (&["--sort-by", "-spec.quantity,{.metadata.name}", "--limit", "3"], "example2 example4 example1", "sorted"),
        (&["--sort-by", "-.spec.quantity", "--limit", "3", "--chunk-size", "1"], "example2 example4 example1", "pages"),
        (&["-l", "app=shop", "--sort-by=-metadata.name"], "example3 example2 example1", "labels and a reverse order"),
        (&["--chunk-size", "0"], "example1 example2 example3 example4 example5 plain", "all at once"),
        (&["--chunk-size", "2"], "example1 example2 example3 example4 example5 plain", "page by page"),
    ] {
        let answer = in_folder(SAMPLES, &[&["shirts", "-A", "-o", "name"], arguments].concat()).await;
        let names: Vec<&str> = answer.out.lines().filter_map(|line| line.split('/').nth(1)).collect();
        assert_eq!((names.join(" "), answer.exit()), (expected.to_owned(), Exit::Done), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_of_a_query_is_printed_as_a_tree() {
    for (arguments, expected, why) in [
        (&["--field-selector", "spec.color=blue"][..], "spec.color=blue  (finds 3, left 3)\n", "one requirement"),
        (
            &[
                "--field-selector",
                "spec.color=blue",
                "-l",
                "app=shop",
                "--sort-by",
                "-spec.quantity",
                "--limit",
                "1",
                "--chunk-size",
                "1",
            ],
            "sort by -spec.quantity  (left 2)\n\
             └─all of  (left 2)\n  \
               ├─spec.color=blue  (finds 3, left 3)\n  \
               └─test of objects  (tests 3, left 2)\n    \
                 └─app=shop  (finds 3)\n\
             note: there are 1 more objects, which --limit omits\n",
            "a sorted list, of which one page is read",
        ),
        (
            &["--facets", "spec.color"],
            "count the values of spec.color  (left 6)\n└─everything  (finds 6, left 6)\n",
            "facets",
        ),
    ] {
        let answer = in_folder(SAMPLES, &[&["shirts", "-A", "--explain"], arguments].concat()).await;
        let (first, tree) = answer.err.split_once('\n').unwrap();
        assert!(first.starts_with("Plan: ") && first.ends_with(" microseconds"), "{why}: {first}");
        assert_eq!((tree, answer.exit()), (expected, Exit::Done), "{why}");
    }
    let header = r#"{"path":"a\u001b[2J","hits":1,"tree":{"step":"x\u001b[2J","steps":[{"step":"y"}],"omitted":7}}"#;
    let headers = [("fieldcache-explain".parse().unwrap(), header.parse().unwrap())].into_iter().collect();
    let text = plan::text(&headers).unwrap();
    assert!(!text.contains('\u{1b}') && text.ends_with("\n├─y\n└─7 more steps\n"), "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_objects_are_printed() {
    for (arguments, expected, exit, why) in [
        (&["--count"][..], "6\n", Exit::Done, "all"),
        (&["--count", "-l", "app=shop", "-n", "team-a"], "3\n", Exit::Done, "a selection"),
        (&["--count", "--where", "self.spec.quantity > 100"], "0\n", Exit::No, "none"),
        (
            &["--facets", "spec.color", "-o", "name"],
            "spec.color=blue\nspec.color=green\nspec.color=red\n",
            Exit::Done,
            "selectors",
        ),
    ] {
        let scope = if arguments.contains(&"-n") { &[][..] } else { &["-A"] };
        let answer = in_folder(SAMPLES, &[&["shirts"], arguments, scope].concat()).await;
        assert_eq!((&*answer.out, answer.exit(), &*answer.err), (expected, exit, ""), "{why}");
    }
    let facets = ["shirts", "-A", "--facets", "spec.color,metadata.namespace", "--facet-limit", "1"];
    golden("get.facets.txt", &in_folder(SAMPLES, &facets).await.out);
    let colors = get_in_width(Some(80), &["shirts", "-A", "--facets", "spec.color", "--dir", SAMPLES]).await;
    assert!(include_str!("../../../../README.md").contains(&colors.out), "the README shows this: {}", colors.out);
    let json = in_folder(SAMPLES, &[&facets[..], &["-o", "json"]].concat()).await;
    let document: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&document["kind"], &document["facets"][0]["other"]), (&Value::from("Facets"), &Value::from(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_found_is_a_negative_result() {
    let none = ["shirts", "-l", "no=such"];
    for (arguments, out, err, why) in [
        (&["-n", "team-a"][..], "", "No resources found in team-a namespace.\n", "a namespace"),
        (&[], "", "No resources found in default namespace.\n", "the default namespace"),
        (&["-A"], "", "No resources found\n", "all namespaces"),
        (&["-A", "-o", "name"], "", "No resources found\n", "names"),
        (&["-A", "--columns", "metadata.name"], "", "No resources found\n", "columns"),
        (
            &["-A", "-o", "yaml"],
            "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n",
            "",
            "YAML",
        ),
    ] {
        let answer = in_folder(SAMPLES, &[&none, arguments].concat()).await;
        assert_eq!((&*answer.out, &*answer.err, answer.exit()), (out, err, Exit::No), "{why}");
    }
    let nodes = in_folder(SAMPLES, &["nodes"]).await;
    assert_eq!((&*nodes.err, nodes.exit()), ("No resources found\n", Exit::No), "a resource without namespaces");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_are_left_out_are_reported() {
    let cut = in_folder(SAMPLES, &["shirts", "-A", "--limit", "4", "-o", "json"]).await;
    let document: Value = serde_json::from_str(&cut.out).unwrap();
    let items = document["items"].as_array().unwrap();
    assert_eq!((items.len(), &document["metadata"]["remainingItemCount"]), (4, &Value::from(2)));
    assert_eq!(cut.err, "note: there are 2 more objects, which --limit omits\n");
    let whole = in_folder(SAMPLES, &["shirts", "-A", "--limit", "6", "-o", "name"]).await;
    assert_eq!((whole.out.lines().count(), &*whole.err), (6, ""), "the last one is printed");
    let missing = in_folder(SAMPLES, &["shirt", "none", "plain", "no", "-n", "team-b", "-o", "name"]).await;
    assert_eq!(missing.out, "shirt.stable.example.com/plain\n", "a missing object does not stop the others");
    let error = missing.error();
    assert!(error.contains("returned 404: shirts.stable.example.com \"none\" not found; "), "{error}");
    assert!(error.contains("\"no\" not found"), "{error}");
    // Three objects are selected, and the expression fails for the three others.
    let failing = "self.metadata.namespace == 'team-a' || self.metadata.annotations['none'] == 'x'";
    let failing = in_folder(SAMPLES, &["shirts", "-A", "--where", failing, "-o", "name", "--chunk-size", "1"]).await;
    assert_eq!(failing.out.lines().count(), 3);
    assert_eq!(
        failing.err.matches("Warning: celSelector failed").count(),
        1,
        "once, not for each page: {}",
        failing.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_remedy() {
    for (arguments, expected) in [
        (&["socks"][..], "serves no resource \"socks\" that can be listed and watched: `fieldcache fields --dir"),
        (&["shirts", "--field-selector", "spec.colour=x"], "returned 400: field label not supported: spec.colour"),
        (&["shirts", "--sort-by", "spec.colour"], "; use a field that field selectors accept"),
        (&["shirts", "--where", "self.spec.("], "returned 400: celSelector: "),
        (&["shirts", "--facets", "metadata.name"], "use another field"),
        (&["shirts/a", "pods"], "\"pods\" is not KIND/NAME: write RESOURCE, RESOURCE NAME, or KIND/NAME"),
        (&["shirts", "-o", "json", "--columns", "a"], "--columns prints a table: remove -o"),
        (&["shirts,pods", "--count"], "--count counts the objects of one resource"),
        (&["pods,shirts", "--facets", "spec.color"], "--facets counts the objects of one resource"),
        (&["shirt/a", "-A"], "use -n NAMESPACE instead of --all-namespaces"),
        (
            &["shirt", "a", "-l", "b"],
            "--selector is only for lists, but the command names objects: remove --selector or the names",
        ),
        (&["shirt", "a", "--where", "true"], "--where is only for lists"),
        (&["shirt", "a", "--count"], "--count is only for lists"),
        (&["shirts", "--sort-by", "a,,b"], "--sort-by: \"\" is not a field such as spec.size"),
        (&["shirts", "--columns", "a[?(@.b)]"], "[?(@.b)] is not [*], [NUMBER] or ['MEMBER']"),
    ] {
        let error = in_folder(SAMPLES, arguments).await.error();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn options_that_exclude_each_other_are_rejected() {
    for (arguments, expected) in [
        (&["a", "--count", "--facets", "b"][..], "cannot be used with"),
        (&["a", "--count", "--sort-by", "b"], "cannot be used with"),
        (&["a", "--facets", "b", "--limit", "1"], "cannot be used with"),
        (&["a", "--columns", "b", "--show-labels"], "cannot be used with"),
        (&["a", "--facet-limit", "1"], "required arguments were not provided"),
        (&["a", "--limit", "0"], "invalid value '0'"),
        (&["a", "--watch"], "unexpected argument '--watch'"),
        (&[], "required arguments were not provided"),
    ] {
        let error = parsed(arguments).unwrap_err().to_string();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn objects_are_named_as_in_kubectl() {
    let list =
        |kinds: &[&'static str]| kinds.iter().map(|kind| WantedObjects { kind, names: Vec::new() }).collect::<Vec<_>>();
    let named = |kind, names: &[&'static str]| WantedObjects { kind, names: names.to_vec() };
    for (arguments, expected) in [
        (&["pods"][..], Some(list(&["pods"]))),
        (&["po,svc"], Some(list(&["po", "svc"]))),
        (&["pods.v1", "a", "b"], Some(vec![named("pods.v1", &["a", "b"])])),
        (&["po,svc", "a"], Some(vec![named("po", &["a"]), named("svc", &["a"])])),
        (&["pod/a"], Some(vec![named("pod", &["a"])])),
        (
            &["pod/a", "pod/b", "svc/c", "pod/d"],
            Some(vec![named("pod", &["a", "b"]), named("svc", &["c"]), named("pod", &["d"])]),
        ),
        (&["pod/a", "b"], None),
        (&["pod", "a/b"], None),
        (&["pod/a/b"], None),
        (&["pod/"], None),
        (&["/a"], None),
        (&["po,"], None),
        (&["po,svc/a"], None),
        (&[""], None),
        (&["pods", ""], None),
    ] {
        assert_eq!(parsed(arguments).unwrap().wanted().ok(), expected, "{arguments:?}");
    }
}

#[test]
fn fields_of_an_order_may_be_written_as_paths() {
    for (text, expected) in [
        ("spec.size", Some("spec.size")),
        (".spec.size", Some("spec.size")),
        ("{.spec.size}", Some("spec.size")),
        ("-{.spec.size}", Some("-spec.size")),
        ("-.spec.size, metadata.name", Some("-spec.size,metadata.name")),
        ("{.spec.size", None),
        (".spec.size}", None),
        ("-", None),
        ("", None),
        ("{.}", None),
    ] {
        let arguments = parsed(&["shirts", &format!("--sort-by={text}")]).unwrap();
        assert_eq!(arguments.sort_fields().ok().flatten().as_deref(), expected, "{text:?}");
    }
}

#[test]
fn columns_need_the_parts_that_they_show() {
    for (text, expected, why) in [
        ("metadata.name,spec.size", Some(".metadata.name+.spec.size"), "simple paths"),
        ("spec.images[*].name", Some(".spec.images"), "all of a list"),
        ("metadata.labels['a.b/c']", Some(".metadata.labels['a.b/c']"), "a name with a dot"),
        ("spec['a,b']", None, "a name that the header cannot have"),
        ("['a']", Some(".a"), "a name in brackets"),
    ] {
        assert_eq!(columns::kept(&PathColumn::read_all(text).unwrap()).as_deref(), expected, "{why}");
    }
    let many = vec!["a.b"; 101].join(",");
    assert_eq!(columns::kept(&PathColumn::read_all(&many).unwrap()), None, "more names than a server accepts");
}

#[test]
fn columns_have_simple_paths() {
    let object: Value = serde_json::json!({
        "metadata": {"name": "a", "labels": {"app.k8s.io/name": "shop", "tier": "x"}},
        "spec": {"size": 3, "is": true, "none": null, "images": [{"n": "a"}, {"n": "b"}, {}], "m": {"k": [1]}},
    });
    for (text, expected) in [
        ("metadata.name", Some("NAME=a")),
        ("N:.metadata.name", Some("N=a")),
        ("N:{.metadata.name}", Some("N=a")),
        ("$.spec.size", Some("SIZE=3")),
        ("spec.is", Some("IS=true")),
        ("spec.none", Some("NONE=<none>")),
        ("spec.absent.more", Some("MORE=<none>")),
        ("spec.images[*].n", Some("N=a,b")),
        ("spec.images[0].n", Some("N=a")),
        ("spec.images[-2].n", Some("N=b")),
        ("spec.images[9].n", Some("N=<none>")),
        ("spec.images.n", Some("N=<none>")),
        ("spec.m", Some("M={\"k\":[1]}")),
        ("metadata.labels['app.k8s.io/name']", Some("APP.K8S.IO/NAME=shop")),
        ("L:metadata.labels[\"app.k8s.io/name\"]", Some("L=shop")),
        (r"L:metadata.labels.app\.k8s\.io/name", Some("L=shop")),
        ("metadata.labels.*", Some("LABELS=shop,x")),
        ("ALL:metadata.labels[*]", Some("ALL=shop,x")),
        ("a['b:c']", Some("B:C=<none>")),
        ("A:metadata.name,B:spec['a,b']", Some("A=a B=<none>")),
        ("", None),
        ("N:", None),
        ("N:.", None),
        ("a..b", None),
        ("a.", None),
        ("a[", None),
        ("a['b]", None),
        ("a[*]b", None),
        ("a[1:2]", None),
        ("{a", None),
        ("*", None),
        ("a,,b", None),
    ] {
        let columns = PathColumn::read_all(text);
        let cells = columns.ok().map(|columns| {
            let cells: Vec<String> =
                columns.iter().map(|column| format!("{}={}", column.name, column.cell(&object))).collect();
            cells.join(" ")
        });
        assert_eq!(cells.as_deref(), expected, "{text:?}");
    }
}

#[test]
fn warnings_are_shown_without_their_quotes() {
    for (header, expected) in [
        ("299 - \"plain\"", "plain"),
        (r#"299 - "a \"b\" \\ c""#, r#"a "b" \ c"#),
        ("299 agent \"x\"", "x"),
        ("nothing quoted", "nothing quoted"),
    ] {
        assert_eq!(warning_text(header), expected, "{header}");
    }
}
