//! Every rule of a folder, one edit after another.

use std::collections::BTreeMap;

use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};

use crate::builtin::{schemas, served};
use crate::crd::Crd;
use crate::model::{Gvr, Key, Scope, Version};
use crate::source::folder::{BuiltInKind, File, Files, FolderDelta, FolderState, ObjectChange};
use crate::source::object;

const START: u64 = 1_700_000_000_000;
/// 2023-11-14T22:13:20Z.
const MODIFIED: i64 = 1_700_000_000;

const DEFINITION: &str = r#"
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
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [color]
            properties:
              color: {type: string}
              size: {type: string, enum: [S, M], default: M}
              price: {type: integer}
    selectableFields: [{jsonPath: .spec.color}]
  - name: v2
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {color: {type: string}, fit: {type: string, default: slim}}}}
  - name: v0
    served: false
    storage: false
    schema: {openAPIV3Schema: {type: object}}
"#;

fn shirt(name: &str, color: &str) -> String {
    format!("apiVersion: stable.example.com/v1\nkind: Shirt\nmetadata: {{name: {name}}}\nspec: {{color: {color}}}\n")
}

fn gvr(version: &str) -> Gvr {
    Gvr::new("stable.example.com", version, "shirts")
}

fn built_in(group: &str, version: &str, kind: &str) -> Option<BuiltInKind> {
    let (plural, scope, schema) = match (group, version, kind) {
        ("", "v1", "ConfigMap") => (
            "configmaps",
            Scope::Namespaced,
            Some(json!({"type": "object", "properties": {
                "metadata": {"type": "object", "properties": {
                    "name": {"type": "string"}, "namespace": {"type": "string"},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
                "data": {"type": "object", "additionalProperties": {"type": "string"}}}})),
        ),
        ("", "v1", "Node") => ("nodes", Scope::Cluster, None),
        _ => return None,
    };
    Some(BuiltInKind { plural: plural.to_owned(), scope, schema })
}

/// Like [`built_in`], with Namespaces: each folder then has some.
fn with_namespaces(group: &str, version: &str, kind: &str) -> Option<BuiltInKind> {
    let namespace = || BuiltInKind { plural: "namespaces".to_owned(), scope: Scope::Cluster, schema: None };
    (("", "v1", "Namespace") == (group, version, kind)).then(namespace).or_else(|| built_in(group, version, kind))
}

fn no_judge(_crd: &Crd) -> Vec<String> {
    Vec::new()
}

/// A folder that is edited.
struct Folder {
    files: Files,
    state: FolderState,
}

impl Folder {
    fn new(files: &[(&str, &str)]) -> Folder {
        let mut folder = Folder { files: Files::new(), state: FolderState::new(START) };
        files.iter().for_each(|(path, text)| folder.write(path, text));
        folder
    }

    fn write(&mut self, path: &str, text: &str) {
        self.files.insert(path.to_owned(), File { bytes: text.as_bytes().into(), modified: MODIFIED });
    }

    fn update(&mut self) -> FolderDelta {
        self.state.update(&self.files, &built_in, &no_judge)
    }
}

fn version(change: &ObjectChange) -> Version {
    match change {
        ObjectChange::Upsert { version, .. } | ObjectChange::Remove { version, .. } => *version,
    }
}

/// Nothing changed except, perhaps, problems.
fn is_empty(delta: &FolderDelta) -> bool {
    delta.definitions.is_none() && delta.changes.is_empty()
}

/// `+key@offset` and `-key@offset`, the offset counted from the start.
fn shown(delta: &FolderDelta, gvr: &Gvr) -> Vec<String> {
    let changes = delta.changes.get(gvr).map(Vec::as_slice).unwrap_or_default();
    assert!(changes.is_sorted_by_key(version), "versions rise: {changes:?}");
    let text = |change: &ObjectChange| match change {
        ObjectChange::Upsert { key, version, .. } => format!("+{key}@{}", version.number() - START),
        ObjectChange::Remove { key, version } => format!("-{key}@{}", version.number() - START),
    };
    changes.iter().map(text).collect()
}

fn object_of(delta: &FolderDelta, gvr: &Gvr, key: &str) -> Value {
    let found = delta.changes[gvr].iter().find_map(|change| match change {
        ObjectChange::Upsert { key: found, bytes, .. } if found.as_str() == key => Some(bytes.clone()),
        _ => None,
    });
    serde_json::from_slice(&found.unwrap_or_else(|| panic!("{key} should be there"))).unwrap()
}

fn problems(delta: &FolderDelta) -> Vec<String> {
    delta.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn an_object_gets_what_a_server_would_have_set() {
    let mut folder = Folder::new(&[("a.yaml", DEFINITION), ("b.yaml", &shirt("x", "<blue>"))]);
    let delta = folder.update();
    assert_eq!(problems(&delta), Vec::<String>::new());
    assert_eq!(shown(&delta, &gvr("v1")), ["+default/x@2"], "the definition came first, the namespace is default");
    let uid = object::uid("stable.example.com", "Shirt", "default", "x");
    assert_eq!(
        object_of(&delta, &gvr("v1"), "default/x"),
        json!({"apiVersion": "stable.example.com/v1", "kind": "Shirt",
            "metadata": {"name": "x", "namespace": "default", "uid": uid, "generation": 1,
                "creationTimestamp": "2023-11-14T22:13:20Z", "resourceVersion": (START + 2).to_string()},
            "spec": {"color": "<blue>", "size": "M"}})
    );
    let Some(ObjectChange::Upsert { bytes, .. }) = delta.changes[&gvr("v1")].first() else { panic!("an upsert") };
    assert!(bytes.windows(6).any(|part| part == b"\\u003c"), "bytes are escaped as Go escapes them");
    assert_eq!(delta.version, Version::new(START + 2));
}

#[test]
fn uids_are_those_of_version_8_and_depend_on_all_four_names() {
    let all = [
        object::uid("g", "K", "ns", "n"),
        object::uid("h", "K", "ns", "n"),
        object::uid("g", "L", "ns", "n"),
        object::uid("g", "K", "nt", "n"),
        object::uid("g", "K", "ns", "m"),
    ];
    for (index, uid) in all.iter().enumerate() {
        let parts: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{uid}");
        assert!(uid[14..].starts_with('8') && uid[19..].starts_with(['8', '9', 'a', 'b']), "{uid}");
        assert!(!all[..index].contains(uid), "{uid} is different");
    }
    assert_eq!(object::uid("g", "K", "ns", "n"), all[0], "and stays");
}

#[test]
fn conversion_by_renaming_serves_every_served_version() {
    let mut folder = Folder::new(&[("a.yaml", DEFINITION), ("b.yaml", &shirt("x", "blue"))]);
    let delta = folder.update();
    let form = object_of(&delta, &gvr("v2"), "default/x");
    assert_eq!(form["apiVersion"], "stable.example.com/v2");
    assert_eq!(form["spec"], json!({"color": "blue"}), "pruned to v2; its defaults are not applied");
    assert_eq!(form["metadata"]["resourceVersion"], (START + 2).to_string(), "one version for all");
    assert!(!delta.changes.contains_key(&gvr("v0")), "v0 is not served");

    let webhook = DEFINITION.replace("  scope:", "  conversion: {strategy: Webhook}\n  scope:");
    folder.write("a.yaml", &webhook);
    let delta = folder.update();
    assert_eq!(shown(&delta, &gvr("v2")), ["-default/x@4"], "a webhook cannot be called: only the file's own version");
    assert_eq!(shown(&delta, &gvr("v1")), ["+default/x@4"], "v1 has the same version");
}

#[test]
fn edits_additions_and_deletions_become_changes() {
    let mut folder = Folder::new(&[("a.yaml", DEFINITION), ("b.yaml", &shirt("x", "blue"))]);
    assert!(folder.update().definitions.is_some(), "first everything");
    assert!(is_empty(&folder.update()), "nothing changed");

    folder.write("b.yaml", &format!("# moved\n{}", shirt("x", "blue")));
    assert!(is_empty(&folder.update()), "only a comment changed");

    folder.write("b.yaml", &format!("{}---\n{}", shirt("x", "red"), shirt("w", "red")));
    let delta = folder.update();
    assert_eq!(shown(&delta, &gvr("v1")), ["+default/x@3", "+default/w@4"]);
    assert!(delta.definitions.is_none(), "definitions are as before");
    assert_eq!(object_of(&delta, &gvr("v1"), "default/x")["metadata"]["generation"], 2, "the specification changed");

    let labelled = shirt("x", "red").replace("{name: x}", "{name: x, labels: {a: b}}");
    folder.write("b.yaml", &labelled);
    let delta = folder.update();
    assert_eq!(shown(&delta, &gvr("v1")), ["+default/x@5", "-default/w@6"], "removals last");
    let changed = object_of(&delta, &gvr("v1"), "default/x");
    assert_eq!(changed["metadata"]["generation"], 2, "only metadata changed");

    folder.files.remove("b.yaml");
    assert_eq!(shown(&folder.update(), &gvr("v1")), ["-default/x@7"]);
}

#[test]
fn only_what_changed_is_read_again() {
    let mut folder =
        Folder::new(&[("a.yaml", DEFINITION), ("b.yaml", &shirt("x", "blue")), ("c.yaml", &shirt("7", "7"))]);
    let judged = std::cell::Cell::new(0);
    let judge = |_: &Crd| {
        judged.set(judged.get() + 1);
        vec!["a sentence".to_owned()]
    };
    let mut update = |files: &Files| folder.state.update(files, &built_in, &judge);
    let first = update(&folder.files);
    assert_eq!((judged.get(), first.problems.len()), (1, 2), "{:?}", first.problems);

    let again = update(&folder.files);
    assert!(is_empty(&again), "nothing changed");
    assert_eq!((judged.get(), &again.problems), (1, &first.problems), "problems stay, and nothing was read");
    assert_eq!(again.version, first.version);

    let touched = File { bytes: shirt("x", "blue").as_bytes().into(), modified: MODIFIED + 60 };
    folder.files.insert("b.yaml".to_owned(), touched);
    assert!(is_empty(&update(&folder.files)), "a touched file has not changed");
    let edited = File { bytes: shirt("x", "red").as_bytes().into(), modified: MODIFIED };
    folder.files.insert("b.yaml".to_owned(), edited);
    let delta = update(&folder.files);
    assert_eq!(shown(&delta, &gvr("v1")), ["+default/x@3"]);
    assert_eq!((judged.get(), &delta.problems), (1, &first.problems), "definitions of other files were not read");

    let other = DEFINITION.replace("\n              price: {type: integer}", "");
    folder.files.insert("a.yaml".to_owned(), File { bytes: other.as_bytes().into(), modified: MODIFIED });
    folder.files.insert(
        "b.yaml".to_owned(),
        File { bytes: shirt("x", "green, price: 1").as_bytes().into(), modified: MODIFIED },
    );
    let delta = update(&folder.files);
    let spec = object_of(&delta, &gvr("v1"), "default/x")["spec"].clone();
    assert_eq!((judged.get(), spec), (2, json!({"color": "green", "size": "M"})), "pruned to the new definition");
    folder.files.insert("a.yaml".to_owned(), File { bytes: DEFINITION.as_bytes().into(), modified: MODIFIED });
    let delta = update(&folder.files);
    let spec = object_of(&delta, &gvr("v1"), "default/x")["spec"].clone();
    assert_eq!(spec["price"], 1, "an unchanged file is read again when a definition changed");
}

#[test]
fn a_definition_may_spell_its_kind_with_escapes() {
    let escaped = DEFINITION.replace("kind: CustomResourceDefinition", "kind: \"Custom\\x52esourceDefinition\"");
    assert_ne!(escaped, DEFINITION);
    let delta = Folder::new(&[("a.yaml", &escaped), ("b.yaml", &shirt("x", "blue"))]).update();
    assert_eq!((shown(&delta, &gvr("v1")), problems(&delta)), (vec!["+default/x@2".to_owned()], vec![]));
}

#[test]
fn a_rejected_definition_does_not_hide_a_valid_one_of_its_name() {
    let refused = DEFINITION.replace("scope: Namespaced", "scope: Global");
    let delta = Folder::new(&[("a.yaml", &refused), ("b.yaml", DEFINITION), ("c.yaml", &shirt("x", "blue"))]).update();
    assert_eq!(delta.definitions.as_ref().map(Vec::len), Some(1), "{:?}", delta.problems);
    assert_eq!((shown(&delta, &gvr("v1")), delta.problems.len()), (vec!["+default/x@2".to_owned()], 1));
}

#[test]
fn creation_times_are_the_files_unless_the_object_names_one() {
    let stamped = shirt("w", "red").replace("{name: w}", "{name: w, creationTimestamp: \"2020-01-02T04:04:05+01:00\"}");
    let mut folder = Folder::new(&[("a.yaml", DEFINITION), ("b.yaml", &shirt("x", "blue")), ("c.yaml", &stamped)]);
    let delta = folder.update();
    let created =
        |delta: &FolderDelta, key: &str| object_of(delta, &gvr("v1"), key)["metadata"]["creationTimestamp"].clone();
    assert_eq!(created(&delta, "default/x"), "2023-11-14T22:13:20Z");
    assert_eq!(created(&delta, "default/w"), "2020-01-02T03:04:05Z");
    let later = File { bytes: shirt("x", "red").as_bytes().into(), modified: MODIFIED + 60 };
    folder.files.insert("b.yaml".to_owned(), later);
    assert_eq!(created(&folder.update(), "default/x"), "2023-11-14T22:13:20Z", "an edit does not recreate it");
    folder.write("c.yaml", &shirt("w", "red").replace("{name: w}", "{name: w, creationTimestamp: soon}"));
    let delta = folder.update();
    assert!(problems(&delta)[0].contains("metadata.creationTimestamp"), "{:?}", delta.problems);
}

#[test]
fn one_key_in_two_files_names_both_and_serves_the_first() {
    let mut folder = Folder::new(&[
        ("a.yaml", DEFINITION),
        ("b.yaml", &shirt("x", "blue")),
        ("c.yaml", &format!("\n{}", shirt("x", "red").replace("/v1", "/v2"))),
    ]);
    let delta = folder.update();
    assert_eq!(object_of(&delta, &gvr("v1"), "default/x")["spec"]["color"], "blue");
    assert_eq!(
        problems(&delta),
        [
            "b.yaml:1: duplicate: Shirt \"default/x\" is served from here; the one of c.yaml:2 is ignored",
            "c.yaml:2: duplicate: Shirt \"default/x\" is ignored here; the one of b.yaml:1 is served",
        ]
    );
    folder.files.remove("b.yaml");
    let delta = folder.update();
    assert_eq!(object_of(&delta, &gvr("v1"), "default/x")["spec"]["color"], "red", "now the other one");
    assert_eq!(problems(&delta), Vec::<String>::new());
}

#[test]
fn what_is_refused_is_reported_with_its_place_and_goes() {
    for (text, cause, why) in [
        (shirt("x", "7"), "Shirt \"default/x\" is rejected: spec.color: Invalid value: \"integer\"", "a wrong type"),
        (
            shirt("x", "a, size: XXL"),
            "Shirt \"default/x\" is rejected: spec.size: Unsupported value: \"XXL\": supported values: \"S\", \"M\"",
            "an enum",
        ),
        (
            shirt("x", "a").replace("color: a", "size: S"),
            "Shirt \"default/x\" is rejected: spec.color: Required value",
            "a required field",
        ),
        (shirt("X", "a"), "Shirt \"default/X\" is rejected: metadata.name: Invalid value: \"X\"", "a bad name"),
        (
            shirt("x, labels: {-a: b}", "a"),
            "Shirt \"default/x\" is rejected: metadata.labels: Invalid value: \"-a\"",
            "a bad label key",
        ),
        (
            shirt("x, labels: {a: 1}", "a"),
            "Shirt \"default/x\" is rejected: metadata.labels[a]: Invalid value: 1: must be a string",
            "a label that is a number",
        ),
        (
            shirt("x, namespace: A", "a"),
            "Shirt \"A/x\" is rejected: metadata.namespace: Invalid value: \"A\"",
            "a bad namespace",
        ),
        (
            shirt("x", "a").replace("Shirt", "Sock"),
            "no kind Sock in stable.example.com/v1: neither built in nor defined",
            "an unknown kind",
        ),
        (
            shirt("x", "a").replace("/v1", "/v9"),
            "no kind Shirt in stable.example.com/v9: its CustomResourceDefinition has v1, v2, v0",
            "an unknown version",
        ),
        (
            shirt("x", "a").replace("/v1", "/v1/v2"),
            "apiVersion \"stable.example.com/v1/v2\" is not VERSION or GROUP/VERSION",
            "a bad apiVersion",
        ),
        ("x: 1\n".to_owned(), "not a Kubernetes object: apiVersion and kind must be strings", "no object"),
        (shirt("x", "[a"), "invalid YAML", "no YAML"),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: a, namespace: b}\n".to_owned(),
            "Node \"b/a\" is rejected: metadata.namespace: Forbidden",
            "a namespace where none belongs",
        ),
        (
            DEFINITION.replace("shirts.stable", "socks.stable"),
            "CustomResourceDefinition \"socks.stable.example.com\" is rejected: metadata.name",
            "a misnamed definition",
        ),
        (
            DEFINITION.replace("scope: Namespaced", "scope: Global").replace("shirts", "socks"),
            "CustomResourceDefinition \"socks.stable.example.com\" is rejected: spec.scope",
            "an unreadable definition",
        ),
    ] {
        let mut folder =
            Folder::new(&[("a.yaml", DEFINITION), ("b.yaml", &shirt("x", "blue")), ("c.yaml", &shirt("z", "red"))]);
        folder.update();
        folder.write("b.yaml", &format!("\n\n{text}"));
        let delta = folder.update();
        assert_eq!(shown(&delta, &gvr("v1")), ["-default/x@4"], "{why}: the old version goes, everything else stays");
        assert_eq!(delta.problems.len(), 1, "{why}: {:?}", delta.problems);
        let problem = &delta.problems[0];
        assert!(problem.file == "b.yaml" && problem.line >= 3, "{why}: {problem}");
        assert!(problem.cause.starts_with(cause), "{why}: {problem}");
        folder.write("b.yaml", &shirt("x", "blue"));
        let delta = folder.update();
        assert_eq!(
            (shown(&delta, &gvr("v1")), delta.problems.len()),
            (vec!["+default/x@5".to_owned()], 0),
            "{why}: it comes back"
        );
    }
}

#[test]
fn labels_of_objects_in_files_obey_the_syntax_of_labels() {
    let name_63 = "n".repeat(63);
    let prefix_253 = format!("{}.pp", vec!["p".repeat(62); 4].join(".").split_at(250).0);
    assert_eq!(prefix_253.len(), 253, "the test's own prefix");
    let right = [
        "{}".to_owned(),
        "{a: b}".to_owned(),
        "{a: \"\"}".to_owned(),
        "{A-b_c.9: A-b_c.9}".to_owned(),
        format!("{{{name_63}: {name_63}}}"),
        format!("{{{prefix_253}/{name_63}: b}}"),
        "{example.com/a: b, kubernetes.io/a: b}".to_owned(),
    ];
    for labels in right {
        let text = shirt("x", "a").replace("{name: x}", &format!("{{name: x, labels: {labels}}}"));
        let delta = Folder::new(&[("a.yaml", DEFINITION), ("b.yaml", &text)]).update();
        assert_eq!(
            (shown(&delta, &gvr("v1")), problems(&delta)),
            (vec!["+default/x@2".to_owned()], vec![]),
            "{labels}"
        );
    }
    let wrong = [
        ("{-a: b}".to_owned(), "name part must consist of", "a dash in front"),
        ("{a.: b}".to_owned(), "name part must consist of", "a dot behind"),
        ("{example.com/: b}".to_owned(), "name part must be non-empty", "a prefix without a name"),
        ("{/a: b}".to_owned(), "prefix part must be non-empty", "a slash without a prefix"),
        ("{a/b/c: d}".to_owned(), "with an optional DNS subdomain prefix", "two slashes"),
        ("{Example.com/a: b}".to_owned(), "prefix part a lowercase RFC 1123 subdomain", "upper case in the prefix"),
        (format!("{{{name_63}n: b}}"), "name part must be no more than 63 bytes", "a name of 64"),
        (format!("{{{prefix_253}p/a: b}}"), "prefix part must be no more than 253 bytes", "a prefix of 254"),
        (format!("{{a: {name_63}n}}"), "must be no more than 63 bytes", "a value of 64"),
        ("{a: -b}".to_owned(), "a valid label must be an empty string or consist of", "a value with a dash in front"),
        ("{a: b c}".to_owned(), "a valid label must be an empty string or consist of", "a blank in a value"),
        ("{a: true}".to_owned(), "must be a string", "a value that is no text"),
        ("{a: b, a: c}".to_owned(), "duplicate key \"a\"", "a key twice"),
    ];
    for (labels, cause, why) in wrong {
        let text = shirt("x", "a").replace("{name: x}", &format!("{{name: x, labels: {labels}}}"));
        let folder = [("a.yaml", DEFINITION), ("b.yaml", &*format!("{}---\n{text}", shirt("right", "a")))];
        let delta = Folder::new(&folder).update();
        assert_eq!(shown(&delta, &gvr("v1")), ["+default/right@2"], "{why}: refused, and only this one");
        assert_eq!(delta.problems.len(), 1, "{why}: {:?}", delta.problems);
        let problem = &delta.problems[0];
        // The document begins at line 6; a broken line is named itself.
        assert!(problem.file == "b.yaml" && (6..=8).contains(&problem.line), "{why}: {problem}");
        assert!(problem.cause.contains(cause), "{why}: {problem}");
    }
}

#[test]
fn definitions_are_objects_and_define_kinds() {
    let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let mut folder = Folder::new(&[("z.yaml", DEFINITION), ("b.yaml", &shirt("x", "blue"))]);
    let delta = folder.update();
    let name = "shirts.stable.example.com";
    assert_eq!(shown(&delta, &gvr("v1")), ["+default/x@1"], "a definition may come later than its objects");
    assert_eq!(shown(&delta, &definitions), [format!("+{name}@2")]);
    let served = object_of(&delta, &definitions, name);
    assert_eq!(served["status"]["conditions"][1]["type"], "Established");
    assert_eq!(served["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(served["spec"]["names"]["listKind"], "ShirtList");
    let read = &delta.definitions.unwrap()[0];
    assert!(
        read.0.established && read.0.uid == object::uid("apiextensions.k8s.io", "CustomResourceDefinition", "", name)
    );

    folder.files.remove("z.yaml");
    let delta = folder.update();
    assert_eq!(delta.definitions, Some(Vec::new()));
    assert_eq!(shown(&delta, &gvr("v1")), ["-default/x@4"], "without its kind the object goes");
    assert!(problems(&delta)[0].starts_with("b.yaml:1: no kind Shirt"), "{:?}", delta.problems);
}

#[test]
fn a_definition_with_a_bad_field_is_served_and_reported() {
    let files = Folder::new(&[("a.yaml", DEFINITION), ("b.yaml", &shirt("x", "blue"))]).files;
    let judge = |crd: &Crd| vec![format!("{}: .spec.color is an invalid path", crd.name)];
    let delta = FolderState::new(START).update(&files, &built_in, &judge);
    assert_eq!(delta.definitions.as_ref().map(Vec::len), Some(1));
    assert_eq!(shown(&delta, &gvr("v1")), ["+default/x@2"]);
    assert_eq!(
        problems(&delta),
        ["a.yaml:2: CustomResourceDefinition \"shirts.stable.example.com\" is served without a \
        field: shirts.stable.example.com: .spec.color is an invalid path"]
    );
}

#[test]
fn built_in_kinds_are_read_by_their_table() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a, labels: null}\n  typo: 1\n  \
                data: {k: v}\n- {apiVersion: v1, kind: Namespace, metadata: {name: m}}\n- {apiVersion: v1, kind: ConfigMap, \
                metadata: {name: b}, data: {k: 1}}\n";
    let mut folder = Folder::new(&[("a.yaml", text)]);
    let delta = folder.state.update(&folder.files, &with_namespaces, &no_judge);
    let config_maps = Gvr::new("", "v1", "configmaps");
    let served = object_of(&delta, &config_maps, "default/a");
    assert_eq!((served.get("typo"), &served["data"]), (None, &json!({"k": "v"})), "unknown fields go");
    assert!(served["metadata"].get("generation").is_none() && served["metadata"].get("labels").is_none());
    assert_eq!(
        shown(&delta, &Gvr::new("", "v1", "namespaces")),
        ["+m@2", "+default@3", "+kube-node-lease@4", "+kube-public@5", "+kube-system@6"]
    );
    assert_eq!(problems(&delta).len(), 1);
    assert!(
        problems(&delta)[0].starts_with("a.yaml:10: ConfigMap \"default/b\" is rejected: data.k:"),
        "{:?}",
        delta.problems
    );
}

#[test]
fn plain_maps_of_services_and_replication_controllers_know_equality_only() {
    let known = |group: &str, version: &str, kind: &str| {
        let known = served::find(group, version, kind)?;
        let schema = schemas::structural_schema(group, version, kind);
        Some(BuiltInKind { plural: known.row.plural.to_owned(), scope: known.row.scope, schema })
    };
    for (kind, plural) in [("Service", "services"), ("ReplicationController", "replicationcontrollers")] {
        let read = |text: String| {
            let files = Folder::new(&[("a.yaml", &text)]).files;
            FolderState::new(START).update(&files, &known, &no_judge)
        };
        let delta_of =
            |spec: &str| read(format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{{spec}}}\n"));
        let gvr = Gvr::new("", "v1", plural);
        let served = |delta: &FolderDelta| object_of(delta, &gvr, "default/x")["spec"].get("selector").cloned();
        for (spec, expected) in [
            ("selector: {component: redis}", Some(json!({"component": "redis"}))),
            ("selector: {tier: cache, app: \"\"}", Some(json!({"tier": "cache", "app": ""}))),
            ("selector: {}", Some(json!({}))),
            ("selector: null", None),
            ("", None),
        ] {
            let delta = delta_of(spec);
            assert_eq!((served(&delta), problems(&delta)), (expected, vec![]), "{kind}: {spec}");
        }
        let json =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "spec": {"selector": {"a": "b"}}});
        assert_eq!(served(&read(json.to_string())), Some(json!({"a": "b"})), "{kind}, as JSON");
        for spec in [
            "selector: {component: [redis, valkey]}",
            "selector: {matchLabels: {component: redis}}",
            "selector: {matchExpressions: [{key: component, operator: Exists}]}",
        ] {
            let delta = delta_of(spec);
            assert_eq!(shown(&delta, &gvr), Vec::<String>::new(), "{kind}: {spec}");
            let [problem] = &problems(&delta)[..] else { panic!("{kind}: {spec}: {:?}", delta.problems) };
            assert!(problem.contains("is rejected: spec.selector."), "{problem}");
        }
    }
}

proptest! {
    /// Replaying every delta gives what a fresh reading of the last files gives, whatever happened in between.
    #[test]
    fn replayed_changes_equal_a_fresh_reading(
        edits in prop::collection::vec((0..4_usize, 0..6_usize, 0..3_usize), 1..25)
    ) {
        let mut folder = Folder::new(&[]);
        let mut replayed: BTreeMap<(Gvr, Key), Value> = BTreeMap::new();
        let mut last = Version::new(START);
        for (file, what, color) in edits {
            let path = format!("{file}.yaml");
            let color = ["red", "blue", "7"][color];
            match what {
                0 => drop(folder.files.remove(&path)),
                1 => folder.write(&path, DEFINITION),
                2 => folder.write(&path, "a: [b\n"),
                3 => folder.write(&path, &format!("{}---\n{}", shirt("x", color), shirt("w", color))),
                _ => folder.write(&path, &shirt(["x", "w"][what % 2], color)),
            }
            let delta = folder.update();
            for (gvr, changes) in delta.changes {
                for change in changes {
                    prop_assert!(version(&change) > last && version(&change) <= delta.version);
                    match change {
                        ObjectChange::Upsert { key, bytes, .. } => {
                            replayed.insert((gvr.clone(), key), comparable(&bytes));
                        }
                        ObjectChange::Remove { key, .. } => {
                            prop_assert!(replayed.remove(&(gvr.clone(), key)).is_some(), "only what was there goes");
                        }
                    }
                }
            }
            last = delta.version;
        }
        let mut fresh = BTreeMap::new();
        for (gvr, changes) in FolderState::new(START).update(&folder.files, &built_in, &no_judge).changes {
            for change in changes {
                if let ObjectChange::Upsert { key, bytes, .. } = change {
                    fresh.insert((gvr.clone(), key), comparable(&bytes));
                }
            }
        }
        prop_assert_eq!(replayed, fresh);
    }
}

/// Without what depends on the past.
fn comparable(bytes: &[u8]) -> Value {
    let mut value: Value = serde_json::from_slice(bytes).unwrap();
    for name in ["resourceVersion", "generation"] {
        value["metadata"].as_object_mut().unwrap().remove(name);
    }
    value
}

#[test]
fn every_namespace_of_a_cluster_is_served() {
    let mut folder = Folder::new(&[]);
    let namespaces = Gvr::new("", "v1", "namespaces");
    let update = |folder: &mut Folder| folder.state.update(&folder.files, &with_namespaces, &no_judge);
    let first = update(&mut folder);
    let initial = ["+default@1", "+kube-node-lease@2", "+kube-public@3", "+kube-system@4"];
    assert_eq!(shown(&first, &namespaces), initial, "an empty folder");
    let expected = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": "default", "labels": {"kubernetes.io/metadata.name": "default"},
            "creationTimestamp": object_of(&first, &namespaces, "default")["metadata"]["creationTimestamp"],
            "uid": object_of(&first, &namespaces, "default")["metadata"]["uid"], "resourceVersion": (START + 1).to_string(),
        },
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
    });
    assert_eq!(object_of(&first, &namespaces, "default"), expected);
    assert!(is_empty(&update(&mut folder)), "nothing has changed");

    folder.write("a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: team-a}}");
    assert_eq!(shown(&update(&mut folder), &namespaces), ["+team-a@6"], "of an object, after it");
    let written = "{apiVersion: v1, kind: Namespace, metadata: {name: team-a, labels: {team: a, kubernetes.io/metadata.name: x}}}";
    folder.write("b.yaml", written);
    let with_file = update(&mut folder);
    assert_eq!(shown(&with_file, &namespaces), ["+team-a@7"], "the file has precedence");
    let labels = &object_of(&with_file, &namespaces, "team-a")["metadata"]["labels"];
    assert_eq!(*labels, json!({"team": "a", "kubernetes.io/metadata.name": "team-a"}));
    folder.files.remove("b.yaml");
    assert_eq!(shown(&update(&mut folder), &namespaces), ["+team-a@8"], "without labels again");
    folder.files.remove("a.yaml");
    assert_eq!(shown(&update(&mut folder), &namespaces), ["-team-a@10"], "with the last object in it");

    let ending = "{apiVersion: v1, kind: Namespace, metadata: {name: old}, spec: {finalizers: [x]}, status: {phase: Terminating}}";
    folder.write("c.yaml", ending);
    let old = object_of(&update(&mut folder), &namespaces, "old");
    assert_eq!((&old["spec"]["finalizers"], &old["status"]["phase"]), (&json!(["x"]), &json!("Terminating")));
}
