//! A folder of manifests as a source: files in, objects with versions, changes and problems out.
//!
//! Pure: the contents of all files come in as [`Files`], and each [`FolderState::update`] says what changed since the
//! last one. What holds of an object: it is served in the version of its file and, when its definition converts by
//! renaming only, in every served version; defaults, pruning and validation are those of its own version; its
//! resourceVersion is the same in all of them. An object that cannot be read, is refused or has lost its kind is
//! reported and its old version goes. Reading the disk is [`super::scan`]'s, the documents of a file are
//! [`super::yaml`]'s.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::object;
use super::yaml::{self, Broken, Document, Form};
use crate::crd::Crd;
use crate::model::{GroupVersion, Gvr, Key, Scope, Version};
use crate::schema::metadata::{self, NameRule};
use crate::schema::node::no_references;
use crate::schema::{Node, defaults, json, prune, validate};

/// The group of CustomResourceDefinition.
const DEFINITIONS_GROUP: &str = "apiextensions.k8s.io";
/// Its only version here; v1beta1 is gone since Kubernetes 1.22.
const DEFINITIONS_VERSION: &str = "v1";
const DEFINITIONS_KIND: &str = "CustomResourceDefinition";
const DEFINITIONS_PLURAL: &str = "customresourcedefinitions";
/// Where a namespaced object goes whose file names no namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// Its modification time, in seconds since 1970.
    pub modified: i64,
}

/// The files of a folder by their path, which is also how problems name them. Path order decides who is first.
pub type Files = BTreeMap<String, File>;

/// Something that is not served, with the place to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{file}:{line}: {cause}")]
pub struct FolderProblem {
    /// The path of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, naming the object where one could be read.
    pub cause: String,
}

/// What a built-in kind is.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltInKind {
    /// The plural name.
    pub plural: String,
    /// Whether its objects have namespaces.
    pub scope: Scope,
    /// Its schema without references; `None` checks and prunes nothing.
    pub schema: Option<Value>,
}

/// The table of built-in kinds: group, version and kind in.
pub type BuiltInKinds<'a> = &'a dyn Fn(&str, &str, &str) -> Option<BuiltInKind>;

/// The judge of selectable fields: one sentence for each field that is left out. The definition is served all the
/// same.
pub type FieldJudge<'a> = &'a dyn Fn(&Crd) -> Vec<String>;

/// One change of one object in one version of its resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new or different.
    Upsert {
        /// Its name.
        key: Key,
        /// Its new resourceVersion, which is also in the bytes.
        version: Version,
        /// The whole object as compact JSON, with kind and apiVersion.
        bytes: Bytes,
    },
    /// It is gone.
    Remove {
        /// Its name.
        key: Key,
        /// The version of the removal.
        version: Version,
    },
}

impl Change {
    /// The version of the change.
    pub fn version(&self) -> Version {
        match self {
            Change::Upsert { version, .. } | Change::Remove { version, .. } => *version,
        }
    }
}

/// What one update changed. The first one carries everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FolderDelta {
    /// All definitions and their documents, by name, when any of them changed.
    pub definitions: Option<Vec<(Crd, Value)>>,
    /// The changes of each resource, by rising version. A resource whose definition is gone has only removals.
    pub changes: BTreeMap<Gvr, Vec<Change>>,
    /// The version that every resource has reached now.
    pub version: Version,
    /// Everything that is wrong right now, in the order of files and lines.
    pub problems: Vec<FolderProblem>,
}

impl FolderDelta {
    /// Whether nothing changed except, perhaps, problems.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_none() && self.changes.is_empty()
    }
}

/// Everything that is served, and what it takes to number the next change.
pub struct FolderState {
    /// The last version given out.
    version: Version,
    objects: BTreeMap<Identity, Served>,
    definitions: Vec<(Crd, Value)>,
    /// Files as they were read last, so that an unchanged one is not parsed again.
    parsed: BTreeMap<String, Parsed>,
    built_in: HashMap<(String, String, String), Option<Arc<BuiltInKind>>>,
}

/// An object, whatever version its file speaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    group: String,
    plural: String,
    key: Key,
}

struct Served {
    version: Version,
    /// metadata.creationTimestamp, kept while the object lives although its file changes.
    created: String,
    generation: i64,
    /// Everything but metadata and status, by which the generation rises.
    specification: Value,
    /// The object in each version in which it is served, without a resourceVersion.
    forms: BTreeMap<Gvr, Value>,
}

struct Parsed {
    bytes: Arc<[u8]>,
    documents: Vec<Document>,
    broken: Vec<Broken>,
}

/// A document and where it stands.
struct Placed<'a> {
    file: &'a str,
    modified: i64,
    line: usize,
    value: &'a Value,
}

/// A checked object on its way into the state.
struct Candidate {
    file: String,
    line: usize,
    kind: String,
    /// The object in the version of its file, without what folder mode sets.
    value: Value,
    /// The versions to serve and, for the others than its own, what prunes them.
    targets: Vec<Target>,
    modified: i64,
    counts_generations: bool,
}

#[derive(Clone)]
struct Target {
    gvr: Gvr,
    /// The version's schema to prune by; `None` for the object's own version, which is pruned already.
    schema: Option<Value>,
}

/// What is known of a kind in one version.
enum Kind<'a> {
    Definition,
    Custom { crd: &'a Crd, version: &'a str },
    BuiltIn(Arc<BuiltInKind>),
}

impl FolderState {
    /// An empty folder whose first change gets the version after `start_milliseconds`, the time of the start since
    /// 1970: a watch that resumes from a run before is below everything and is told so.
    pub fn new(start_milliseconds: u64) -> FolderState {
        FolderState {
            version: Version::new(start_milliseconds),
            objects: BTreeMap::new(),
            definitions: Vec::new(),
            parsed: BTreeMap::new(),
            built_in: HashMap::new(),
        }
    }

    /// The last version given out.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Takes the files as they are now.
    pub fn update(&mut self, files: &Files, built_in: BuiltInKinds<'_>, judge: FieldJudge<'_>) -> FolderDelta {
        let mut problems = self.parse(files);
        let parsed = std::mem::take(&mut self.parsed);
        let placed: Vec<Placed<'_>> = files
            .iter()
            .filter_map(|(file, content)| Some((file, content, parsed.get(file)?)))
            .flat_map(|(file, content, parsed)| {
                parsed.documents.iter().map(|document| Placed {
                    file,
                    modified: content.modified,
                    line: document.line,
                    value: &document.value,
                })
            })
            .collect();
        let definitions = self.read_definitions(&placed, judge, &mut problems);
        let mut candidates: BTreeMap<Identity, Candidate> = BTreeMap::new();
        for place in &placed {
            let (identity, candidate) = match self.candidate(place, &definitions, built_in) {
                Ok(found) => found,
                Err(cause) => {
                    problems.push(FolderProblem { file: place.file.to_owned(), line: place.line, cause });
                    continue;
                }
            };
            // A definition that could not be read has been reported already.
            let is_definition = identity.plural == DEFINITIONS_PLURAL && identity.group == DEFINITIONS_GROUP;
            if is_definition && !definitions.iter().any(|(crd, _)| crd.name == identity.key.as_str()) {
                continue;
            }
            match candidates.get(&identity) {
                None => {
                    candidates.insert(identity, candidate);
                }
                Some(first) => {
                    let name = named(&candidate.kind, &identity.key);
                    let cause =
                        format!("{name} stands also in {}:{}, which comes first and is served", first.file, first.line);
                    problems.push(FolderProblem { file: place.file.to_owned(), line: place.line, cause });
                    let cause = format!("{name} is served from here and stands also in {}:{}", place.file, place.line);
                    problems.push(FolderProblem { file: first.file.clone(), line: first.line, cause });
                }
            }
        }
        drop(placed);
        self.parsed = parsed;
        problems.sort();
        problems.dedup();
        let changes = self.apply(candidates);
        let definitions = self.established(definitions);
        let changed = (definitions != self.definitions).then(|| definitions.clone());
        self.definitions = definitions;
        FolderDelta { definitions: changed, changes, version: self.version, problems }
    }

    /// Reads the files that changed; returns the problems of all.
    fn parse(&mut self, files: &Files) -> Vec<FolderProblem> {
        self.parsed.retain(|path, _| files.contains_key(path));
        let mut problems = Vec::new();
        for (path, file) in files {
            let is_known = self.parsed.get(path).is_some_and(|parsed| parsed.bytes == file.bytes);
            if !is_known {
                let is_json = path.to_ascii_lowercase().ends_with(".json");
                let form = if is_json { Form::Json } else { Form::Yaml };
                let (documents, broken) = yaml::documents(&file.bytes, form);
                self.parsed.insert(path.clone(), Parsed { bytes: file.bytes.clone(), documents, broken });
            }
            for broken in self.parsed.get(path).into_iter().flat_map(|parsed| &parsed.broken) {
                problems.push(FolderProblem { file: path.clone(), line: broken.line, cause: broken.cause.clone() });
            }
        }
        problems
    }

    /// The definitions of the folder, by name; the first of a name wins.
    fn read_definitions(
        &self,
        placed: &[Placed<'_>],
        judge: FieldJudge<'_>,
        problems: &mut Vec<FolderProblem>,
    ) -> Vec<(Crd, Value)> {
        let mut definitions: BTreeMap<String, (Crd, Value)> = BTreeMap::new();
        for place in placed {
            let Ok((group_version, kind)) = type_of(place.value) else { continue };
            if group_version.group != DEFINITIONS_GROUP || kind != DEFINITIONS_KIND {
                continue;
            }
            let mut report = |cause: String| {
                problems.push(FolderProblem { file: place.file.to_owned(), line: place.line, cause });
            };
            // Another version is reported as an unknown kind.
            if group_version.version != DEFINITIONS_VERSION {
                continue;
            }
            let crd = match Crd::read(place.value) {
                Ok(crd) => crd,
                Err(error) => {
                    let name = object::metadata_text(place.value, "name");
                    report(format!("CustomResourceDefinition {name:?} is refused: {error}"));
                    continue;
                }
            };
            let expected = format!("{}.{}", crd.names.plural, crd.group);
            if crd.name != expected {
                report(format!(
                    "CustomResourceDefinition {:?} is refused: metadata.name: Invalid value: {:?}: must be \
                     spec.names.plural+\".\"+spec.group",
                    crd.name, crd.name
                ));
                continue;
            }
            if definitions.contains_key(&crd.name) {
                continue;
            }
            for sentence in judge(&crd) {
                report(format!("CustomResourceDefinition {:?} is served without a field: {sentence}", crd.name));
            }
            definitions.insert(crd.name.clone(), (crd, place.value.clone()));
        }
        definitions.into_values().collect()
    }

    /// The definitions as they are served, with the metadata and the status that folder mode sets.
    fn established(&self, definitions: Vec<(Crd, Value)>) -> Vec<(Crd, Value)> {
        let gvr = Gvr::new(DEFINITIONS_GROUP, DEFINITIONS_VERSION, DEFINITIONS_PLURAL);
        definitions
            .into_iter()
            .filter_map(|(crd, _)| {
                let identity = Identity {
                    group: DEFINITIONS_GROUP.to_owned(),
                    plural: DEFINITIONS_PLURAL.to_owned(),
                    key: Key::new("", &crd.name),
                };
                let form = self.objects.get(&identity)?.forms.get(&gvr)?;
                Some((Crd::read(form).ok()?, form.clone()))
            })
            .collect()
    }

    fn candidate(
        &mut self,
        place: &Placed<'_>,
        definitions: &[(Crd, Value)],
        built_in: BuiltInKinds<'_>,
    ) -> Result<(Identity, Candidate), String> {
        let (group_version, kind) = type_of(place.value)?;
        let known = self.kind(&group_version, &kind, definitions, built_in)?;
        let mut value = place.value.clone();
        let (plural, scope) = match &known {
            Kind::Definition => (DEFINITIONS_PLURAL, Scope::Cluster),
            Kind::Custom { crd, .. } => (&*crd.names.plural, crd.scope),
            Kind::BuiltIn(built_in) => (&*built_in.plural, built_in.scope),
        };
        let metadata = object::metadata_of(&mut value).ok_or("metadata is not a mapping")?;
        if scope == Scope::Namespaced && metadata.get("namespace").is_none_or(|namespace| *namespace == "") {
            metadata.insert("namespace".to_owned(), Value::from(DEFAULT_NAMESPACE));
        }
        json::normalize_numbers(&mut value);
        let mut problems = metadata::validate(&value, scope, NameRule::of(&group_version.group, &kind));
        match &known {
            Kind::Definition => {}
            Kind::Custom { crd, version } => {
                if let Some(schema) = crd.version(version).and_then(|version| version.schema.as_ref()) {
                    let schema = Node::new(schema, &no_references);
                    defaults::apply(&mut value, schema);
                    if !crd.preserve_unknown_fields {
                        prune::prune(&mut value, schema);
                    }
                    json::normalize_numbers(&mut value);
                    problems.extend(validate::validate(&value, schema));
                }
            }
            Kind::BuiltIn(built_in) => {
                if let Some(schema) = &built_in.schema {
                    let schema = Node::new(schema, &no_references);
                    prune::decode_built_in(&mut value, schema);
                    problems.extend(validate::validate_built_in(&value, schema));
                }
            }
        }
        let name = object::metadata_text(&value, "name").to_owned();
        let key = Key::new(object::metadata_text(&value, "namespace"), &name);
        let mut causes: Vec<String> = problems.iter().map(ToString::to_string).collect();
        if let Some(created) = value["metadata"].get("creationTimestamp").filter(|created| !created.is_null())
            && created.as_str().and_then(object::normal_timestamp).is_none()
        {
            causes.push(format!("metadata.creationTimestamp: Invalid value: {created}: must be an RFC 3339 time"));
        }
        if !causes.is_empty() {
            return Err(format!("{} is refused: {}", named(&kind, &key), causes.join("; ")));
        }
        let targets = targets(&known, &group_version, plural);
        if targets.is_empty() {
            return Err(format!("{} is refused: version {group_version} is not served", named(&kind, &key)));
        }
        let counts_generations = !matches!(known, Kind::BuiltIn(_));
        let identity = Identity { group: group_version.group.clone(), plural: plural.to_owned(), key };
        let file = place.file.to_owned();
        let (line, modified) = (place.line, place.modified);
        Ok((identity, Candidate { file, line, kind, value, targets, modified, counts_generations }))
    }

    fn kind<'a>(
        &mut self,
        group_version: &GroupVersion,
        kind: &str,
        definitions: &'a [(Crd, Value)],
        built_in: BuiltInKinds<'_>,
    ) -> Result<Kind<'a>, String> {
        let GroupVersion { group, version } = group_version;
        if group == DEFINITIONS_GROUP && version == DEFINITIONS_VERSION && kind == DEFINITIONS_KIND {
            return Ok(Kind::Definition);
        }
        let of_kind = definitions.iter().filter(|(crd, _)| crd.group == *group && crd.names.kind == kind);
        for (crd, _) in of_kind.clone() {
            if let Some(version) = crd.version(version) {
                return Ok(Kind::Custom { crd, version: &version.name });
            }
        }
        let found = self
            .built_in
            .entry((group.clone(), version.clone(), kind.to_owned()))
            .or_insert_with(|| built_in(group, version, kind).map(Arc::new));
        if let Some(found) = found {
            return Ok(Kind::BuiltIn(found.clone()));
        }
        let versions: Vec<&str> = of_kind.flat_map(|(crd, _)| &crd.versions).map(|version| &*version.name).collect();
        Err(if versions.is_empty() {
            format!(
                "no kind {kind} in {group_version}: neither built in nor defined by a CustomResourceDefinition in this \
                 folder"
            )
        } else {
            format!("no kind {kind} in {group_version}: its CustomResourceDefinition has {}", versions.join(", "))
        })
    }

    /// Makes the state what the candidates say; returns what that changed.
    fn apply(&mut self, candidates: BTreeMap<Identity, Candidate>) -> BTreeMap<Gvr, Vec<Change>> {
        let mut changes: BTreeMap<Gvr, Vec<Change>> = BTreeMap::new();
        let gone: Vec<Identity> =
            self.objects.keys().filter(|identity| !candidates.contains_key(*identity)).cloned().collect();
        for identity in gone {
            let Some(served) = self.objects.remove(&identity) else { continue };
            self.version = self.version.next();
            for gvr in served.forms.into_keys() {
                let change = Change::Remove { key: identity.key.clone(), version: self.version };
                changes.entry(gvr).or_default().push(change);
            }
        }
        // In path order, so that versions rise as a reader of the files would expect.
        let mut candidates: Vec<(Identity, Candidate)> = candidates.into_iter().collect();
        candidates.sort_by(|(_, left), (_, right)| (&left.file, left.line).cmp(&(&right.file, right.line)));
        for (identity, candidate) in candidates {
            self.apply_one(identity, candidate, &mut changes);
        }
        changes
    }

    fn apply_one(&mut self, identity: Identity, candidate: Candidate, changes: &mut BTreeMap<Gvr, Vec<Change>>) {
        let old = self.objects.get(&identity);
        let written = object::metadata_text(&candidate.value, "creationTimestamp");
        let created = object::normal_timestamp(written)
            .or_else(|| old.map(|old| old.created.clone()))
            .unwrap_or_else(|| object::timestamp(candidate.modified));
        let specification = specification(&candidate.value);
        let generation = old.map_or(1, |old| old.generation + i64::from(old.specification != specification));
        let forms = forms(&identity, &candidate, &created, generation);
        if old.is_some_and(|old| old.forms == forms) {
            return;
        }
        self.version = self.version.next();
        let version = self.version;
        let old_forms = self.objects.remove(&identity).map(|old| old.forms).unwrap_or_default();
        for gvr in old_forms.keys().filter(|gvr| !forms.contains_key(*gvr)) {
            let change = Change::Remove { key: identity.key.clone(), version };
            changes.entry(gvr.clone()).or_default().push(change);
        }
        for (gvr, form) in &forms {
            // A version that looks as before still gets the new resourceVersion: there is one for all versions.
            let bytes = Bytes::from(json::to_text(&with_version(form.clone(), version)));
            let change = Change::Upsert { key: identity.key.clone(), version, bytes };
            changes.entry(gvr.clone()).or_default().push(change);
        }
        self.objects.insert(identity, Served { version, created, generation, specification, forms });
    }

    /// The version of an object, if it is served.
    pub fn version_of(&self, gvr: &Gvr, key: &Key) -> Option<Version> {
        let identity = Identity { group: gvr.group.clone(), plural: gvr.resource.clone(), key: key.clone() };
        self.objects.get(&identity).filter(|served| served.forms.contains_key(gvr)).map(|served| served.version)
    }
}

impl fmt::Debug for FolderState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = self.objects.len();
        formatter.debug_struct("FolderState").field("version", &self.version).field("objects", &objects).finish()
    }
}

/// apiVersion and kind of a document.
fn type_of(value: &Value) -> Result<(GroupVersion, String), String> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version.is_empty() || kind.is_empty() {
        return Err("not an object: apiVersion and kind must be texts".to_owned());
    }
    match GroupVersion::parse(api_version) {
        Some(group_version) => Ok((group_version, kind.to_owned())),
        None => Err(format!("apiVersion {api_version:?} is not VERSION or GROUP/VERSION")),
    }
}

fn named(kind: &str, key: &Key) -> String {
    format!("{kind} {:?}", key.as_str())
}

fn targets(kind: &Kind<'_>, group_version: &GroupVersion, plural: &str) -> Vec<Target> {
    let own = Target { gvr: Gvr::new(&*group_version.group, &*group_version.version, plural), schema: None };
    let Kind::Custom { crd, version: own_version } = kind else { return vec![own] };
    let served = crd.versions.iter().filter(|version| version.served);
    let served = served.filter(|version| version.name == *own_version || crd.converts_by_renaming);
    served
        .map(|version| {
            if version.name == *own_version {
                return own.clone();
            }
            let schema = version.schema.clone().filter(|_| !crd.preserve_unknown_fields);
            Target { gvr: crd.gvr(&version.name), schema }
        })
        .collect()
}

/// Everything but metadata and status.
fn specification(value: &Value) -> Value {
    let members = value.as_object().into_iter().flatten();
    let kept = members.filter(|(name, _)| !matches!(&***name, "metadata" | "status" | "apiVersion"));
    Value::Object(kept.map(|(name, member)| (name.clone(), member.clone())).collect())
}

/// The object in every version in which it is served.
fn forms(identity: &Identity, candidate: &Candidate, created: &str, generation: i64) -> BTreeMap<Gvr, Value> {
    let mut own = candidate.value.clone();
    let uid = object::uid(&identity.group, &candidate.kind, identity.key.namespace(), identity.key.name());
    if let Some(metadata) = object::metadata_of(&mut own) {
        metadata.insert("uid".to_owned(), Value::from(uid));
        metadata.insert("creationTimestamp".to_owned(), Value::from(created));
        for set_by_servers in ["resourceVersion", "selfLink"] {
            metadata.remove(set_by_servers);
        }
        if candidate.counts_generations {
            metadata.insert("generation".to_owned(), Value::from(generation));
        }
    }
    if identity.plural == DEFINITIONS_PLURAL
        && identity.group == DEFINITIONS_GROUP
        && let Ok(crd) = Crd::read(&own)
    {
        object::establish(&mut own, &crd.names.singular, &crd.names.list_kind, created);
    }
    let form = |target: &Target| {
        let mut form = own.clone();
        form["apiVersion"] = Value::from(target.gvr.group_version().to_string());
        if let Some(schema) = &target.schema {
            prune::prune(&mut form, Node::new(schema, &no_references));
        }
        (target.gvr.clone(), form)
    };
    candidate.targets.iter().map(form).collect()
}

fn with_version(mut form: Value, version: Version) -> Value {
    if let Some(metadata) = object::metadata_of(&mut form) {
        metadata.insert("resourceVersion".to_owned(), Value::from(version.to_string()));
    }
    form
}
