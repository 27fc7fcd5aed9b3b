//! The architecture as a test. Every file begins with a `//!` comment, is declared by a `mod`, and has a bounded
//! length. It uses only the modules that its own module may use. The table below is the map of `lib.rs` as data.

#![expect(clippy::disallowed_methods, reason = "a test that reads the source tree")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum number of lines of a file. Longer files have more than one topic.
const MAX_LINES: usize = 800;

/// For each module, the modules that it may use. It must not use others. Files of tests may use every module.
const EDGES: [(&str, &[&str]); 38] = [
    ("model", &[]),
    ("selector", &["model"]),
    ("json", &["model"]),
    ("yaml", &["model", "json"]),
    ("crd", &["model", "json"]),
    ("schema", &["model", "json", "selector"]),
    ("cel", &["model", "json", "selector", "schema"]),
    ("extract", &["model", "json", "crd"]),
    ("store", &["model"]),
    ("query", &["model", "selector", "crd", "extract", "cel", "builtin", "store"]),
    ("subscribe", &["model", "selector", "extract", "query", "store"]),
    ("openapi", &["model", "json", "yaml", "crd", "extract"]),
    ("printer", &["model", "selector", "json"]),
    ("protobuf", &["model", "json"]),
    // The scheduler's rules. Its index is its own: counts by topology domain are no posting lists of a store.
    ("placement", &["model", "selector"]),
    // Texts of other programs' metrics; it knows nothing of what is served here.
    ("advise", &[]),
    // Documents that people write, and their validation.
    ("kinds", &["extract", "model", "selector"]),
    ("builtin", &["model", "extract", "printer", "schema", "openapi"]),
    ("registry", &["model", "json", "selector", "crd", "extract", "store", "query", "subscribe", "openapi"]),
    // Parsers of YAML and JSON, for folders, commands and requests.
    ("manifest", &["model", "json"]),
    (
        "source",
        &[
            "model", "json", "selector", "crd", "schema", "extract", "store", "openapi", "kinds", "builtin",
            "manifest", "registry",
        ],
    ),
    // The parsed form of a request. It looks nothing up.
    ("request", &["model", "selector"]),
    // Suspends and wakes tasks in the order of a queue of `model`.
    ("fair_semaphore", &["model"]),
    // Authentication and authorization. Of the registry it knows only where to send reviews.
    ("access", &["model", "selector", "registry", "request", "fair_semaphore"]),
    // Writes events about users and requests to a file; `server` creates the events.
    ("audit", &["access"]),
    // Controllers. They read what is served, and do not change it.
    ("operator", &["model", "crd", "extract", "kinds", "builtin", "manifest", "registry", "request", "source"]),
    // Limits and fairness. Of what is served it knows only that a store can be over the limit of memory.
    ("flow_control", &["model", "query", "registry", "fair_semaphore"]),
    // Sockets and HTTP. Of access it knows only the certificate of a peer.
    ("transport", &["access", "flow_control"]),
    // The formats of Kubernetes' responses.
    (
        "wire",
        &[
            "model",
            "builtin",
            "json",
            "yaml",
            "selector",
            "crd",
            "extract",
            "store",
            "query",
            "printer",
            "protobuf",
            "manifest",
            "registry",
            "request",
            "access",
            "flow_control",
            "transport",
        ],
    ),
    // Dependents of an object, without HTTP: for the server and the command line.
    ("dependents", &["model", "json", "store", "query", "registry", "flow_control"]),
    // Reviews of placement, without HTTP: for the server and the command line.
    ("placement_service", &["model", "selector", "store", "placement", "manifest", "registry"]),
    (
        "server",
        &[
            "model",
            "builtin",
            "json",
            "selector",
            "extract",
            "store",
            "query",
            "subscribe",
            "openapi",
            "protobuf",
            "placement",
            "manifest",
            "registry",
            "request",
            "access",
            "audit",
            "fair_semaphore",
            "flow_control",
            "transport",
            "wire",
            "dependents",
            "placement_service",
        ],
    ),
    // The outermost: it reads what the server counted, what the stores hold and what the controllers wrote, and only `runtime` uses it.
    (
        "metrics",
        &[
            "model",
            "query",
            "store",
            "registry",
            "request",
            "access",
            "audit",
            "operator",
            "flow_control",
            "transport",
            "wire",
            "server",
        ],
    ),
    ("telemetry", &[]),
    // What the commands that serve start. It knows no options and prints nothing.
    (
        "runtime",
        &[
            "model",
            "extract",
            "store",
            "registry",
            "source",
            "access",
            "audit",
            "operator",
            "flow_control",
            "transport",
            "wire",
            "placement_service",
            "server",
            "metrics",
        ],
    ),
    (
        "cli",
        &[
            "model",
            "selector",
            "crd",
            "schema",
            "extract",
            "store",
            "query",
            "openapi",
            "printer",
            "placement",
            "advise",
            "kinds",
            "builtin",
            "manifest",
            "registry",
            "source",
            "access",
            "audit",
            "operator",
            "flow_control",
            "transport",
            "wire",
            "dependents",
            "placement_service",
            "server",
            "runtime",
            "telemetry",
            "yaml",
        ],
    ),
    ("main", &["cli"]),
    ("tidy", &[]),
];

/// The folders of the crates, from the root of the project.
const CRATES: [&str; 3] = ["src", CORE, "crates/testing/src"];

/// The folder of the core.
const CORE: &str = "crates/core/src";

/// The paths of all Rust files of the crates, sorted.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = CRATES.map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() > 30, "the source tree was found");
    found
}

/// The path of a file relative to the `src` folder of its crate.
fn relative(path: &Path) -> String {
    let below = |folder: &&str| path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).ok();
    CRATES.iter().find_map(below).unwrap().to_str().unwrap().to_owned()
}

/// The module of a file, from its relative path: its first folder, or the name of a file that is in no folder.
fn module(relative: &str) -> &str {
    relative.split_once('/').map_or_else(|| relative.trim_end_matches(".rs"), |(module, _)| module)
}

fn is_test(relative: &str) -> bool {
    relative.ends_with("/tests.rs") || relative.contains("/tests/")
}

#[test]
fn every_file_has_a_head_and_a_bounded_length() {
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        let name = relative(&path);
        assert!(text.starts_with("//!"), "{name} does not open with a `//!` head");
        let lines = text.lines().count();
        assert!(lines <= MAX_LINES, "{name} has {lines} lines, more than {MAX_LINES}: does it have one topic?");
    }
}

#[test]
fn every_file_is_reached_by_a_mod() {
    let mut reached: BTreeSet<PathBuf> = BTreeSet::new();
    let root = |folder: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut pending = vec![root("src/main.rs")];
    pending.extend(CRATES.map(|folder| root(folder).join("lib.rs")));
    while let Some(path) = pending.pop() {
        let text = fs::read_to_string(&path).unwrap();
        let is_folder_root = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| path.ends_with(name));
        let folder = if is_folder_root { path.parent().unwrap().to_owned() } else { path.with_extension("") };
        for line in text.lines() {
            let declared = ["pub(crate) mod ", "pub(super) mod ", "pub mod ", "mod "]
                .iter()
                .find_map(|prefix| line.trim_start().strip_prefix(prefix))
                .and_then(|rest| rest.strip_suffix(';'));
            if let Some(name) = declared {
                let file = folder.join(format!("{name}.rs"));
                pending.push(if file.exists() { file } else { folder.join(name).join("mod.rs") });
            }
        }
        reached.insert(path);
    }
    for path in sources() {
        assert!(
            reached.contains(&path),
            "{} is reached by no `mod`: it does not compile into anything",
            relative(&path)
        );
    }
}

#[test]
fn modules_use_only_the_modules_they_may_use() {
    for path in sources() {
        let name = relative(&path);
        if name == "lib.rs"
            || is_test(&name)
            || path.starts_with(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/testing"))
        {
            continue;
        }
        let allowed = EDGES.iter().find(|(module_name, _)| *module_name == module(&name)).map(|(_, allowed)| *allowed);
        let allowed = allowed.unwrap_or_else(|| panic!("{name} is in no module of the table"));
        let text = fs::read_to_string(&path).unwrap();
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            for prefix in ["crate::", "fieldcache::", "fieldcache_core::"] {
                for (position, _) in line.match_indices(prefix) {
                    let used: String = line[position + prefix.len()..]
                        .chars()
                        .take_while(|character| character.is_ascii_lowercase() || *character == '_')
                        .collect();
                    let fine = used.is_empty() || used == module(&name) || allowed.contains(&&*used);
                    assert!(fine, "{name}:{}: module `{}` must not use `{used}`", index + 1, module(&name));
                }
            }
        }
    }
}

/// The name of the public type that a line declares; `None` if it declares none. `pub(crate)` and the like count as
/// public.
fn declared_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1 } else { rest };
    let (kind, name) = rest.strip_prefix(' ')?.split_once(' ')?;
    let end = name.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(name.len());
    ["struct", "enum", "trait", "type", "union"].contains(&kind).then_some(&name[..end])
}

#[test]
fn no_two_public_types_have_the_same_name() {
    let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in sources() {
        let name = relative(&path);
        if is_test(&name) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (index, line) in text.lines().enumerate() {
            if let Some(declared_name) = declared_type(line) {
                declared.entry(declared_name.to_owned()).or_default().push(format!("{name}:{}", index + 1));
            }
        }
    }
    assert!(declared.len() > 300, "{} types were found", declared.len());
    declared.retain(|_, places| places.len() > 1);
    assert!(declared.is_empty(), "a name means one thing; rename the less prominent type: {declared:#?}");
}

/// Which crates the core uses is in its Cargo.toml; what it may not use of the standard library is here.
#[test]
fn the_core_has_no_io_no_clock_and_no_environment() {
    let mut files = 0;
    for path in sources().iter().filter(|path| path.starts_with(Path::new(env!("CARGO_MANIFEST_DIR")).join(CORE))) {
        let name = relative(path);
        if is_test(&name) {
            continue;
        }
        files += 1;
        let text = fs::read_to_string(path).unwrap();
        for (index, line) in text.lines().enumerate() {
            let code = !line.trim_start().starts_with("//");
            let edge = ["std::env", "std::fs", "std::time::Instant", "SystemTime"];
            let found = edge.iter().find(|word| code && line.contains(**word));
            assert!(found.is_none(), "{name}:{}: the core names {}", index + 1, found.unwrap());
        }
    }
    assert!(files > 100, "{files} files of the core were found");
}

#[test]
fn base_images_are_named_by_digest() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Dockerfile")).unwrap();
    let images: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("FROM ")?.split(' ').next()).collect();
    assert!(images.contains(&"scratch"), "the last stage has no base: {images:?}");
    for image in images.into_iter().filter(|image| *image != "scratch") {
        let digest = image.split_once("@sha256:").map(|(_, digest)| digest).unwrap_or_default();
        let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_digest, "{image}: a tag can move, name the image by digest");
    }
}

/// The documents whose links are checked.
const DOCUMENTS: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "docs/agents.md",
    "docs/examples/README.md",
    "docs/your-operator.md",
];

/// The anchor that a heading has on a web page: lower case, without punctuation, with hyphens for blanks.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|character| if character == ' ' { '-' } else { character }).collect()
}

#[test]
fn links_of_documents_lead_to_files_and_headings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let anchors = |text: &str| -> BTreeSet<String> {
        text.lines()
            .filter(|line| line.starts_with('#'))
            .map(|line| anchor(line.trim_start_matches('#').trim()))
            .collect()
    };
    let mut links = 0;
    for name in DOCUMENTS {
        let text = fs::read_to_string(root.join(name)).unwrap();
        for (start, _) in text.match_indices("](") {
            let Some(link) = text[start + 2..].split_once(')').map(|(link, _)| link) else { continue };
            if link.is_empty() || link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            links += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let document = root.join(name);
            let target = if file.is_empty() { document } else { document.parent().unwrap().join(file) };
            assert!(target.exists(), "{name}: {link}: there is no such file");
            if !heading.is_empty() {
                let headings = anchors(&fs::read_to_string(&target).unwrap());
                assert!(headings.contains(heading), "{name}: {link}: there is no such heading in {headings:?}");
            }
        }
    }
    assert!(links > 5, "{links} links were found");
}

#[test]
fn the_architecture_document_names_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let names: Vec<&str> = text.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs")).collect();
    assert!(names.len() > 30, "{} names were found", names.len());
    for name in names {
        assert!(
            root.join(name).exists() || CRATES.iter().any(|folder| root.join(folder).join(name).exists()),
            "ARCHITECTURE.md names {name}"
        );
    }
}
