//! `fieldcache place` over the folders of manifests/placement. The end-to-end suite compares what it prints there word
//! for word with the published walk-throughs. Here are the documents, errors and exit codes.

#![expect(clippy::disallowed_methods, reason = "these tests write files")]

mod remote;

use clap::Parser;
use serde_json::Value;

use crate::cli::arguments::{Arguments, Command};
use crate::cli::exit::Exit;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/placement");

fn parsed(arguments: &[&str]) -> Result<super::arguments::PlaceArguments, clap::Error> {
    let typed = ["fieldcache", "place"].into_iter().chain(arguments.iter().copied());
    Arguments::try_parse_from(typed).map(|arguments| match arguments.command {
        Command::Place(arguments) => *arguments,
        other => panic!("{other:?}"),
    })
}

async fn placed(scenario: &str, arguments: &[&str]) -> anyhow::Result<(String, Exit)> {
    let dir = format!("{FOLDER}/{scenario}");
    let arguments: Vec<String> = arguments.iter().map(|argument| argument.replace("HERE", &dir)).collect();
    let mut typed: Vec<&str> = arguments.iter().map(String::as_str).collect();
    typed.extend(["--dir", &dir]);
    super::answer(&parsed(&typed)?).await
}

async fn json(scenario: &str, arguments: &[&str]) -> (Value, Exit) {
    let (text, exit) = placed(scenario, &[arguments, &["-o", "json"]].concat()).await.unwrap();
    (serde_json::from_str(&text).unwrap(), exit)
}

#[tokio::test]
async fn documents_are_placement_reviews() {
    let (review, exit) = json("disktype", &["-f", "HERE/pod.yaml", "--label", "node-1:disktype=ssd"]).await;
    assert_eq!(exit, Exit::Done);
    assert_eq!(
        (&review["apiVersion"], &review["kind"]),
        (&"view.fieldcache.dev/v1alpha1".into(), &"PlacementReview".into())
    );
    assert_eq!(review["spec"]["whatIf"]["labels"][0]["node"], "node-1", "the request is part of the response");
    assert_eq!((&review["status"]["feasible"], &review["status"]["total"]), (&1.into(), &3.into()));
    assert_eq!(review["status"]["nodes"][0]["name"], "node-1");
    let (stored, exit) = json("disktype", &["pod/nginx", "--node", "node-2"]).await;
    assert_eq!((exit, stored["status"]["nodes"].as_array().map(Vec::len)), (Exit::No, Some(1)));
    assert_eq!(stored["spec"]["podRef"]["namespace"], "default");
    let (several, exit) = json("taints", &["-f", "HERE/both.yaml", "--taint", "node2=key=value:NoSchedule"]).await;
    assert_eq!(
        (exit, &several["kind"], several["items"].as_array().map(Vec::len)),
        (Exit::No, &"List".into(), Some(3))
    );
    let (yaml, _) = placed("zones", &["-f", "HERE/pod.yaml", "-o", "yaml"]).await.unwrap();
    assert!(yaml.contains("kind: PlacementReview\n") && yaml.contains("feasible: 3\n"), "{yaml}");
}

#[tokio::test]
async fn exit_codes_tell_fits_fits_nowhere_and_errors_apart() {
    for (scenario, arguments, expected, why) in [
        ("disktype", &["-f", "HERE/pod.yaml"][..], Exit::No, "no node has the label"),
        ("disktype", &["-f", "HERE/pod.yaml", "--label", "node-2:disktype=ssd"], Exit::Done, "one would have it"),
        ("disktype", &["-f", "HERE/pod.yaml", "--label", "node-3:disktype=ssd"], Exit::No, "that one is cordoned"),
        ("zones", &["-f", "HERE/pod.yaml"], Exit::Done, "three nodes"),
        ("zones", &["-f", "HERE/pod.yaml", "--node", "az1-plain"], Exit::Done, "this node"),
        ("zones", &["-f", "HERE/pod.yaml", "--node", "az3-plain"], Exit::No, "not this node"),
        ("pod-affinity", &["-f", "HERE/required-by-zone.yaml"], Exit::No, "S2 is in the zone"),
        (
            "pod-affinity",
            &["-f", "HERE/required-by-zone.yaml", "--without-pod", "default/shop-window"],
            Exit::Done,
            "without it",
        ),
        ("taints", &["--misplaced"], Exit::No, "some could not be placed again"),
        ("taints", &["--misplaced", "--node", "node2"], Exit::Done, "nothing runs there"),
        ("rolling-upgrade", &["--uses-match-label-keys"], Exit::Done, "a list is an answer"),
        ("rolling-upgrade", &["-f", "HERE/with-keys.yaml"], Exit::Done, "old and new are beside each other"),
        (
            "rolling-upgrade",
            &["-f", "HERE/with-keys.yaml", "--target-version", "1.30"],
            Exit::No,
            "the field was dropped then",
        ),
    ] {
        let (text, exit) = placed(scenario, arguments).await.unwrap();
        assert_eq!(exit, expected, "{why}: {arguments:?}\n{text}");
    }
}

#[tokio::test]
async fn errors_say_what_and_where() {
    for (scenario, arguments, expected) in [
        ("disktype", &["-f", "HERE/none.yaml"][..], "none.yaml cannot be read"),
        ("disktype", &["-f", "HERE/nodes.yaml"], "nodes.yaml has no Pod or workload, but Node, Node, Node"),
        (
            "disktype",
            &["-f", "HERE/pod.yaml", "--node", "node-9"],
            "there is no node \"node-9\": the nodes are node-1, node-2, node-3",
        ),
        ("disktype", &["-f", "HERE/pod.yaml", "--label", "node-9:a=b"], "there is no node with that name"),
        ("disktype", &["pod/none"], "pods \"none\" not found in namespace \"default\""),
        ("disktype", &["pod/nginx", "-n", "other"], "pods \"nginx\" not found in namespace \"other\""),
        ("disktype", &["--misplaced", "--node", "node-9"], "there is no node \"node-9\""),
        (
            "disktype",
            &["-f", "HERE/pod.yaml", "--scheduler-config", "HERE/pod.yaml"],
            "expected a KubeSchedulerConfiguration",
        ),
        (
            "tenants",
            &["-f", "HERE/as-printed.yaml"],
            "as-printed.yaml:2: Pod default/as-printed is invalid:\n  spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        ),
    ] {
        let error = placed(scenario, arguments).await.unwrap_err();
        assert!(format!("{error:#}").contains(expected), "{arguments:?}: {error:#}");
    }
}

#[test]
fn what_is_typed_is_checked() {
    for (arguments, expected) in [
        (&[][..], "required arguments were not provided"),
        (&["-f", "a.yaml", "pod/b"], "cannot be used with"),
        (&["nginx"], "write pod/NAME"),
        (&["pod/"], "write pod/NAME"),
        (&["pod/a", "--taint", "node1"], "write NODE=KEY=VALUE:EFFECT"),
        (&["pod/a", "--taint", "node1=key=value:Never"], "is not a taint"),
        (&["pod/a", "--label", "node1=a"], "write NODE:KEY=VALUE"),
        (&["pod/a", "--label", "node1:a=-"], "is not a label"),
        (&["pod/a", "--without-pod", "a"], "write NAMESPACE/NAME"),
        (&["pod/a", "--target-version", "2"], "write a version of Kubernetes such as 1.33"),
        (&["--misplaced", "--label", "n:a=b"], "cannot be used with"),
        (&["pod/a", "-o", "text"], "possible values: table, wide, json, yaml, name"),
    ] {
        let error = parsed(arguments).unwrap_err().to_string();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    let typed =
        parsed(&["po/a", "--taint", "n=k:NoExecute", "--label", "n:k=", "--target-version", "v1.31.4"]).unwrap();
    assert_eq!(typed.pod.as_deref(), Some("a"));
    assert_eq!((&*typed.taints[0].key, &*typed.taints[0].value, &*typed.taints[0].effect), ("k", "", "NoExecute"));
    assert_eq!((&*typed.labels[0].value, typed.target_version), ("", Some(31)));
}

#[tokio::test]
async fn namespaces_of_manifests_are_those_that_kubectl_would_take() {
    let path = std::env::temp_dir().join(format!("fieldcache-place-{}.yaml", std::process::id()));
    let spec = "spec: {containers: [{name: main, image: main}]}";
    let documents = [
        &format!("kind: Pod\nmetadata: {{name: a, namespace: one}}\n{spec}\n"),
        "kind: Service\n",
        &format!("kind: Pod\nmetadata: {{generateName: b-}}\n{spec}\n"),
    ];
    std::fs::write(&path, documents.join("---\n")).unwrap();
    let file = path.to_str().unwrap();
    let (text, _) = placed("zones", &["-f", file]).await.unwrap();
    assert!(text.contains("Pod one/a: ") && text.contains("Pod default/b-*: "), "{text}");
    let refused = placed("zones", &["-f", file, "-n", "two"]).await.unwrap_err();
    assert!(
        format!("{refused:#}").contains("the namespace of the manifest (one) differs from --namespace (two)"),
        "{refused:#}"
    );
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn fields_that_do_not_exist_are_reported_in_every_form() {
    let path = std::env::temp_dir().join(format!("fieldcache-place-misspelt-{}.yaml", std::process::id()));
    let file = path.to_str().unwrap();
    let write = |document: &str| std::fs::write(&path, document).unwrap();
    write("kind: Pod\nmetadata: {name: a}\nspec: {nodeSelectr: {disktype: ssd}, containers: [{name: a, image: a}]}\n");
    let warning = "unknown field \"spec.nodeSelectr\"";
    for output in [&[][..], &["-o", "wide"], &["--node", "node-1"]] {
        let (text, _) = placed("disktype", &[&["-f", file], output].concat()).await.unwrap();
        assert!(text.contains(&format!("\nWarning: {warning}\n")), "{output:?}: {text}");
    }
    let (review, _) = json("disktype", &["-f", file]).await;
    assert_eq!(review["status"]["warnings"], serde_json::json!([warning]));
    let (text, _) = placed("disktype", &["-f", file, "-o", "yaml"]).await.unwrap();
    assert!(text.contains("nodeSelectr\\\"") || text.contains(warning), "{text}");

    for (document, expected) in [
        (
            "kind: Pod\nmetadata: {name: a}\nspec: {contaners: [{name: a, image: a}]}\n",
            ":1: Pod default/a is invalid:\n  spec.containers: Required value\n  unknown field \"spec.contaners\"",
        ),
        (
            "kind: Deployment\nmetadata: {name: a}\nspec: {selector: [], template: {}}\n",
            ":1: the next Pod of Deployment default/a is invalid:\n  spec.selector: Invalid value: []: must be an object",
        ),
        (
            "apiVersion: view.fieldcache.dev/v1alpha1\nkind: PlacementReview\nspec: {pods: {}}\n",
            ":1: PlacementReview in version \"v1alpha1\" cannot be handled as a PlacementReview: strict decoding error: unknown field \"spec.pods\"",
        ),
    ] {
        write(document);
        let error = format!("{:#}", placed("disktype", &["-f", file]).await.unwrap_err());
        assert!(error.ends_with(expected), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
}
