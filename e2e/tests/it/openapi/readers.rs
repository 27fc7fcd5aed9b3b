//! Public packages read all documents that fieldcache publishes, beside those of a real kube-apiserver.
//!
//! | package | documents | what it does |
//! |---|---|---|
//! | swagger-parser (npm) | v2, v3 | validates, and resolves every reference |
//! | openapi-typescript (npm) | v3 | generates types |
//! | openapi-spec-validator (PyPI) | v2, v3 | validates, also default values |
//!
//! The first two accept every document, and the third one every v2 document. Kubernetes' own v3 documents have the
//! default `{}` for objects with required fields, which the third one reports. So of v3 documents, it must report no
//! problem that it does not report of the document of kube-apiserver. Defects in documents show that each package can
//! reject one.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use e2e::clients::{Toolkit, script};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::run_directory::RunDirectory;
use e2e::viewed::Viewed;
use e2e::{fixtures, objects, unique};
use serde_json::{Value, json};

use super::{SOON, run, succeeded};

const SWAGGER_PARSER: &str = "swagger-parser";
const OPENAPI_TYPESCRIPT: &str = "openapi-typescript";
const OPENAPI_SPEC_VALIDATOR: &str = "openapi-spec-validator";

/// Documents by the names of their files.
type Documents = BTreeMap<String, Value>;

/// The problems that a package reports of a document, by package and file.
type Problems = BTreeMap<(String, String), Vec<String>>;

/// The file of the v2 document.
const V2: &str = "v2.json";

/// The file of the v3 document of a path in the index, such as `apis/apps/v1`.
fn v3(path: &str) -> String {
    format!("v3-{}.json", path.replace('/', "-"))
}

#[tokio::test]
async fn public_packages_accept_the_documents() -> Result<()> {
    // Other tests change the documents of the shared control plane all the time.
    let control_plane = Box::pin(ControlPlane::start(Settings::default())).await?;
    let writer = control_plane.client();
    let group = unique::group("readers");
    objects::create_definition(&writer, &fixtures::shirts(&group, &fixtures::no_conversion())).await?;
    objects::create_definition(&writer, &fixtures::host_ports(&group, &fixtures::no_conversion())).await?;
    let shown = [
        json!({ "group": group, "resource": "shirts", "prune": [".spec.size"] }),
        json!({ "group": "", "resource": "pods", "keep": [".spec.nodeName", ".status.phase"] }),
        json!({ "group": "apps", "resource": "deployments" }),
    ];
    let viewed = Box::pin(Viewed::with_resources(&control_plane, &shown, "Eventual")).await?;
    let view = viewed.endpoint(control_plane.administrator())?.client();
    let cluster = Fieldcache::serve_cluster(control_plane.kubeconfig(), &[]).await?;
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/samples");
    let folder = Fieldcache::serve_folder(samples.as_ref()).await?;
    let (theirs, ours) = eventually("the documents of both sides", SOON, async || {
        let (theirs, ours) = (documents(&writer).await?, documents(&cluster.client()).await?);
        let names = |documents: &Documents| documents.keys().cloned().collect::<BTreeSet<_>>();
        ensure!(names(&theirs) == names(&ours), "{:?}, not {:?}", names(&ours), names(&theirs));
        ensure!(fields(&ours, &v3(&format!("apis/{group}/v1")), "HostPort").is_some(), "no fields of HostPort");
        Ok((theirs, ours))
    })
    .await?;
    // What is judged has what fieldcache adds.
    ensure!(fields(&theirs, &v3("api/v1"), "Pod").is_none() && fields(&ours, &v3("api/v1"), "Pod").is_some(), "Pod");

    let reported_of_theirs = read(&theirs, &[Toolkit::Python]).await?;
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let (of_folder, of_view) = (documents(&folder.client()).await?, documents(&view).await?);
    for (side, documents, fewest) in [("a cluster", &ours, 40), ("a folder", &of_folder, 15), ("a View", &of_view, 4)] {
        ensure!(documents.len() >= fewest, "{side}: {:?}", documents.keys());
        let reported = read(documents, &[Toolkit::JavaScript, Toolkit::Python]).await?;
        for file in documents.keys() {
            let is_v3 = file != V2;
            let readers = [(SWAGGER_PARSER, true), (OPENAPI_TYPESCRIPT, is_v3), (OPENAPI_SPEC_VALIDATOR, true)];
            for (reader, _) in readers.into_iter().filter(|(_, reads)| *reads) {
                let key = (reader.to_owned(), file.clone());
                let problems = reported.get(&key).with_context(|| format!("{reader} did not read {file}"))?;
                let upstream = if reader == OPENAPI_SPEC_VALIDATOR && is_v3 {
                    reported_of_theirs.get(&key).map_or(&[][..], Vec::as_slice)
                } else {
                    &[]
                };
                let own = without(problems, upstream);
                ensure!(own.is_empty(), "{side}: {reader} rejects {file}: {own:#?}");
                *known.entry(side).or_default() += problems.len();
            }
        }
        println!("openapi: {side}: {} documents accepted by 3 packages", documents.len());
    }
    println!("openapi: problems that the documents of kube-apiserver have too: {known:?}");
    println!("openapi: {} defects rejected", reject_defects(&of_view).await?);
    Ok(())
}

/// The v2 document of a server, and all v3 documents of its index.
async fn documents(client: &Client) -> Result<Documents> {
    let mut documents = Documents::from([(V2.to_owned(), client.get_json("/openapi/v2").await?)]);
    let index = client.get_json("/openapi/v3").await?;
    for path in index["paths"].as_object().context("an index has paths")?.keys() {
        documents.insert(v3(path), client.get_json(&format!("/openapi/v3/{path}")).await?);
    }
    Ok(documents)
}

/// The selectable fields of a kind in a document.
fn fields<'a>(documents: &'a Documents, file: &str, kind: &str) -> Option<&'a Value> {
    let schemas = documents.get(file)?["components"]["schemas"].as_object()?;
    let suffix = format!(".{kind}");
    schemas.iter().find(|(name, _)| name.ends_with(&suffix))?.1.get("x-kubernetes-selectable-fields")
}

/// Has the packages of these families read documents.
async fn read(documents: &Documents, families: &[Toolkit]) -> Result<Problems> {
    let folder = RunDirectory::create("readers")?;
    let mut files = Vec::new();
    for (name, document) in documents {
        files.push(folder.write(name, document.to_string())?.display().to_string());
    }
    let mut problems = Problems::new();
    for family in families {
        let name = if *family == Toolkit::Python { "check_openapi.py" } else { "check_openapi.mjs" };
        let ended = run(family.folder(), script(*family, name)?.arguments(files.clone()), &folder).await?;
        for line in succeeded(name, ended)?.lines() {
            let report: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            let text = |member: &str| report[member].as_str().unwrap_or_default().to_owned();
            let found = report["problems"].as_array().with_context(|| line.to_owned())?;
            let found = found.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            problems.insert((text("reader"), text("file")), found);
        }
    }
    Ok(problems)
}

/// The problems that are not among the others. A problem that occurs more often than there is left over.
fn without(problems: &[String], others: &[String]) -> Vec<String> {
    let mut others = others.to_vec();
    let mut left = problems.to_vec();
    left.retain(|problem| match others.iter().position(|other| other == problem) {
        Some(position) => {
            others.swap_remove(position);
            false
        }
        None => true,
    });
    left
}

/// A defect of one schema, and who must reject a document that has it.
struct Defect {
    name: &'static str,
    /// A member of the schema, and its wrong value.
    member: (&'static str, Value),
    rejected_by: &'static [&'static str],
}

/// Checks that documents with a defect are rejected, v2 and v3, and returns how many were. Those of a View are short.
async fn reject_defects(of_view: &Documents) -> Result<usize> {
    let all = &[SWAGGER_PARSER, OPENAPI_TYPESCRIPT, OPENAPI_SPEC_VALIDATOR];
    // A generator of types does not validate the rest.
    let validators = &[SWAGGER_PARSER, OPENAPI_SPEC_VALIDATOR];
    let missing = |root: &str| json!({ "spec": { "$ref": format!("{root}/missing") } });
    let extension = ("kubernetes-selectable-fields", json!([{ "fieldPath": "spec.replicas" }]));
    let mut defective = Documents::new();
    let mut expected = Vec::new();
    for (version, file, pointer, root) in [
        ("v2", V2.to_owned(), "/definitions", "#/definitions"),
        ("v3", v3("apis/apps/v1"), "/components/schemas", "#/components/schemas"),
    ] {
        let original = of_view.get(&file).with_context(|| format!("there is no {file}"))?;
        let defects = [
            Defect { name: "reference", member: ("properties", missing(root)), rejected_by: all },
            Defect { name: "type", member: ("type", "struct".into()), rejected_by: validators },
            Defect { name: "required", member: ("required", "spec".into()), rejected_by: validators },
            Defect { name: "extension", member: extension.clone(), rejected_by: validators },
        ];
        let control = format!("{version}-no-defect.json");
        defective.insert(control.clone(), original.clone());
        for Defect { name, member: (member, value), rejected_by } in defects {
            let mut document = original.clone();
            let schemas = document.pointer_mut(pointer).context("no schemas")?;
            let schema = schemas.get_mut("io.k8s.api.apps.v1.Deployment").context("no Deployment")?;
            schema[member] = value;
            let file = format!("{version}-{name}.json");
            defective.insert(file.clone(), document);
            let readers = rejected_by.iter().filter(|reader| version == "v3" || **reader != OPENAPI_TYPESCRIPT);
            expected.extend(readers.map(|reader| (*reader, file.clone(), control.clone())));
        }
    }
    let reported = read(&defective, &[Toolkit::JavaScript, Toolkit::Python]).await?;
    for (reader, file, control) in &expected {
        let of = |file: &String| reported.get(&((*reader).to_owned(), file.clone())).context("it was not read");
        let more = without(of(file)?, of(control)?);
        ensure!(!more.is_empty(), "{reader} accepts {file}");
    }
    Ok(expected.len())
}
