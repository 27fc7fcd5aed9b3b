//! A folder of manifests as a source: takes files, and returns objects with versions, changes and problems.
//!
//! Pure: the contents of all files are passed in as [`Files`], and each [`FolderState::update`] returns what changed
//! since the last one. Only changed files are parsed (all of them when a definition changed). Of parsed objects only
//! names, problems and digests are stored, because values in memory are many times larger than their text.
//!
//! An object is served in the version of its file and, when its definition converts by renaming only, in every served
//! version. Defaults, pruning and validation are those of its own version; its resourceVersion is the same in all of
//! them. An object that cannot be read, is invalid or has lost its kind is reported, and its old version is removed.
//! Namespaces are served also without a file: see [`super::folder_namespaces`]. [`super::scan`] reads the disk, and
//! [`crate::manifest`] the documents of a file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::field_caches::own_definition;
use super::{folder_namespaces, object};
use crate::builtin;
use crate::crd::{Crd, Schema};
use crate::json;
use crate::manifest::yaml::{self, Document, InvalidDocument, Syntax};
use crate::model::{GroupVersion, Gvr, Key, Scope, Version};
use crate::schema::metadata;
use crate::schema::node::no_references;
use crate::schema::{SchemaNode, defaults, prune, validate};

/// The group of CustomResourceDefinition.
const DEFINITIONS_GROUP: &str = "apiextensions.k8s.io";
/// Its only version here; v1beta1 is gone since Kubernetes 1.22.
const DEFINITIONS_VERSION: &str = "v1";
const DEFINITIONS_KIND: &str = "CustomResourceDefinition";
const DEFINITIONS_PLURAL: &str = "customresourcedefinitions";
/// The namespace of a namespaced object whose file names none.
const DEFAULT_NAMESPACE: &str = "default";

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// Its modification time, in seconds since 1970.
    pub modified: i64,
}

/// The files of a folder by their path, which is also their name in problems. Path order decides which duplicate is
/// first.
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

/// A built-in kind, as far as folder mode needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltInKind {
    /// The plural name.
    pub plural: String,
    /// Whether its objects have namespaces.
    pub scope: Scope,
    /// Its schema without references; `None` checks and prunes nothing.
    pub schema: Option<Value>,
}

/// Looks up a built-in kind by group, version and kind; `None` if there is no such kind.
pub type BuiltInKindLookup<'a> = &'a dyn Fn(&str, &str, &str) -> Option<BuiltInKind>;

/// Validates the selectable fields of a definition. Returns one sentence for each field that is not served; the
/// definition is served all the same.
pub type FieldJudge<'a> = &'a dyn Fn(&Crd) -> Vec<String>;

/// One change of one object in one version of its resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectChange {
    /// The object is new or changed.
    Upsert {
        /// Its name.
        key: Key,
        /// Its new resourceVersion, which is also in the bytes.
        version: Version,
        /// The whole object as compact JSON, with kind and apiVersion.
        bytes: Bytes,
    },
    /// The object is gone.
    Remove {
        /// Its name.
        key: Key,
        /// The version of the removal.
        version: Version,
    },
}

/// The changes of one update. The first update returns everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FolderDelta {
    /// All definitions and their documents, by name; `None` if none of them changed.
    pub definitions: Option<Vec<(Crd, Value)>>,
    /// The changes of each resource, by rising version. A resource whose definition is gone has only removals.
    pub changes: BTreeMap<Gvr, Vec<ObjectChange>>,
    /// The version that every resource has reached now.
    pub version: Version,
    /// Everything that is wrong right now, in the order of files and lines.
    pub problems: Vec<FolderProblem>,
}

/// Everything that is served, and the data to number the next change.
pub struct FolderState {
    /// The last version given out.
    version: Version,
    /// The time of the start, in seconds since 1970: the age of Namespaces without a file.
    started: i64,
    /// The served objects.
    objects: BTreeMap<Arc<Identity>, Served>,
    /// The valid definitions as the files have them, by name. Of several with one name, the first.
    written: Vec<Arc<Crd>>,
    /// The definitions as they are served, with the metadata and the status that folder mode sets.
    definitions: BTreeMap<Arc<Identity>, (Crd, Value)>,
    /// Whether the current update changed `definitions`.
    definitions_changed: bool,
    /// The files as they were read last, by path.
    files: BTreeMap<Arc<str>, Known>,
    /// The problems of the last update.
    problems: Vec<FolderProblem>,
    /// Results of the lookup of built-in kinds, by group, version and kind.
    built_in: HashMap<(String, String, String), Option<Arc<BuiltInKind>>>,
    /// The schemas that the current update has needed so far.
    schemas: Schemas,
}

/// The identity of an object, whatever version its file has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Identity {
    group: String,
    plural: String,
    key: Key,
}

impl Identity {
    /// Whether the object is a CustomResourceDefinition.
    fn is_definition(&self) -> bool {
        self.plural == DEFINITIONS_PLURAL && self.group == DEFINITIONS_GROUP
    }
}

/// SHA-256 of a text: equal digests are taken for equal texts.
type TextDigest = [u8; 32];

/// What is stored of a served object: enough to decide whether it has changed.
struct Served {
    /// metadata.creationTimestamp. It stays the same while the object exists, even if its file changes.
    created: String,
    /// metadata.generation, which objects of built-in kinds do not show.
    generation: i64,
    /// The digest of everything but metadata, status and apiVersion. The generation rises when it changes.
    specification: TextDigest,
    /// The digests of the object in each version in which it is served, without a resourceVersion; sorted.
    forms: Vec<(Gvr, TextDigest)>,
    /// The file of the object, and the index of its document there.
    file: Arc<str>,
    place: usize,
}

/// A file as it was read last.
struct Known {
    content: File,
    /// JSON or YAML, by the extension of the file.
    form: Syntax,
    /// The definitions in the file, valid or not.
    definitions: Vec<WrittenDefinition>,
    /// The documents that cannot be parsed.
    broken: Vec<InvalidDocument>,
    /// The other documents.
    places: Vec<Place>,
}

/// A parsed document of a file.
struct Place {
    line: usize,
    found: DocumentContent,
}

/// What a document of a file contains.
enum DocumentContent {
    /// An object and its kind.
    Object(Arc<Identity>, String),
    /// No object, for this reason.
    Invalid(String),
    /// A definition that is rejected; [`WrittenDefinition`] has the reason.
    InvalidDefinition,
}

/// A CustomResourceDefinition in a file.
struct WrittenDefinition {
    /// The index of its document in the file.
    place: usize,
    line: usize,
    /// The definition, with one sentence for each field that is not served; or why the definition is rejected.
    read: Result<(Arc<Crd>, Vec<String>), String>,
}

/// A validated object that is not in the state yet.
struct Candidate {
    kind: String,
    /// The object in the version of its file, without what folder mode sets.
    value: Value,
    /// The versions in which it is served.
    targets: Vec<Target>,
    /// The modification time of its file, in seconds since 1970.
    modified: i64,
    /// Whether it shows metadata.generation, as custom resources and definitions do.
    counts_generations: bool,
}

/// A version in which an object is served.
#[derive(Clone)]
struct Target {
    gvr: Gvr,
    /// The version's schema to prune by; `None` for the object's own version, which is pruned already.
    schema: Option<Arc<Value>>,
}

/// Parsed schemas of custom resources, by the address of their text. They are parsed once for all objects of an update,
/// and dropped with it.
#[derive(Default)]
struct Schemas(HashMap<usize, (Schema, Arc<Value>)>);

impl Schemas {
    /// The parsed schema, shared by all objects that use it.
    fn shared(&mut self, schema: &Schema) -> Arc<Value> {
        // The address of a text that is stored here does not change.
        let read = || (schema.clone(), Arc::new(schema.to_value()));
        self.0.entry(schema.json().as_ptr().addr()).or_insert_with(read).1.clone()
    }
}

/// The kind of an object, in the version of its file.
enum Kind<'a> {
    Definition,
    Custom { crd: &'a Crd, version: &'a str },
    BuiltIn(Arc<BuiltInKind>),
}

impl FolderState {
    /// An empty folder whose first change gets the version after `start_milliseconds`, the time of the start since
    /// 1970. A watch that resumes from an earlier run is thus older than everything and gets 410.
    pub fn new(start_milliseconds: u64) -> FolderState {
        FolderState {
            version: Version::new(start_milliseconds),
            started: i64::try_from(start_milliseconds / 1_000).unwrap_or(i64::MAX),
            objects: BTreeMap::new(),
            written: Vec::new(),
            definitions: BTreeMap::new(),
            definitions_changed: false,
            files: BTreeMap::new(),
            problems: Vec::new(),
            built_in: HashMap::new(),
            schemas: Schemas::default(),
        }
    }

    /// The last resourceVersion that was assigned.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The file and line of a served object; `None` if it is not served.
    pub fn place(&self, group: &str, plural: &str, key: &Key) -> Option<(&str, usize)> {
        let identity = Identity { group: group.to_owned(), plural: plural.to_owned(), key: key.clone() };
        let served = self.objects.get(&identity)?;
        let line = self.files.get(&served.file)?.places.get(served.place)?.line;
        Some((&served.file, line))
    }

    /// Compares the current files with those of the last call, and returns what changed. Costs almost nothing when no
    /// file has changed.
    pub fn update(&mut self, files: &Files, built_in: BuiltInKindLookup<'_>, judge: FieldJudge<'_>) -> FolderDelta {
        let Some(changed) = self.update_files(files, judge) else {
            return FolderDelta { version: self.version, problems: self.problems.clone(), ..FolderDelta::default() };
        };
        let mut problems = Vec::new();
        let written = self.valid_definitions(&mut problems);
        // A definition decides what the objects of every file become.
        let all_changed = written != self.written;
        self.written.clone_from(&written);
        self.definitions_changed = false;
        let mut known_files = std::mem::take(&mut self.files);
        let mut changes = BTreeMap::new();
        let mut firsts: HashMap<Arc<Identity>, (Arc<str>, usize)> = HashMap::new();
        // In path order, so that versions rise as a reader of the files would expect. One file at a time, so that its
        // values are gone before the next one is parsed.
        for (path, known) in &mut known_files {
            let mut candidates =
                (all_changed || changed.contains(path)).then(|| self.parse_file(known, &written, built_in));
            for broken in &known.broken {
                problems.push(problem(path, broken.line, broken.cause.clone()));
            }
            for index in 0..known.places.len() {
                let line = known.places[index].line;
                let (identity, kind) = match &known.places[index].found {
                    DocumentContent::Object(identity, kind) => (identity.clone(), kind),
                    DocumentContent::Invalid(cause) => {
                        problems.push(problem(path, line, cause.clone()));
                        continue;
                    }
                    DocumentContent::InvalidDefinition => continue,
                };
                if let Some((first, first_line)) = firsts.get(&identity) {
                    let name = named(kind, &identity.key);
                    let cause = format!("duplicate: {name} is ignored here; the one of {first}:{first_line} is served");
                    problems.push(problem(path, line, cause));
                    let cause = format!("duplicate: {name} is served from here; the one of {path}:{line} is ignored");
                    problems.push(problem(first, *first_line, cause));
                    continue;
                }
                firsts.insert(identity.clone(), (path.clone(), line));
                let is_from_here =
                    self.objects.get(&identity).is_some_and(|served| served.file == *path && served.place == index);
                if candidates.is_none() && is_from_here {
                    continue;
                }
                // An unchanged file is parsed again when one of its objects was the ignored duplicate of an object that
                // is gone.
                let candidates = candidates.get_or_insert_with(|| self.parse_file(known, &written, built_in));
                if let Some(candidate) = candidates.get_mut(index).and_then(Option::take) {
                    self.apply(identity, &candidate, (path, index), &mut changes);
                }
            }
        }
        self.files = known_files;
        self.add_namespaces(&written, built_in, &mut firsts, &mut changes);
        self.schemas = Schemas::default();
        self.remove_all_but(&firsts, &mut changes);
        problems.sort();
        problems.dedup();
        self.problems.clone_from(&problems);
        let definitions = self.definitions_changed.then(|| self.definitions.values().cloned().collect());
        FolderDelta { definitions, changes, version: self.version, problems }
    }

    /// Stores the current files, and parses the definitions in new and changed ones. Returns the paths of those; `None`
    /// if no file was added, changed or removed.
    fn update_files(&mut self, files: &Files, judge: FieldJudge<'_>) -> Option<BTreeSet<Arc<str>>> {
        let count = self.files.len();
        self.files.retain(|path, _| files.contains_key(&**path));
        let mut is_as_before = self.files.len() == count;
        let mut changed = BTreeSet::new();
        for (path, content) in files {
            if let Some(known) = self.files.get_mut(&**path)
                && (Arc::ptr_eq(&known.content.bytes, &content.bytes) || known.content.bytes == content.bytes)
            {
                known.content = content.clone();
                continue;
            }
            is_as_before = false;
            let path: Arc<str> = Arc::from(&**path);
            let form = syntax_of(&path);
            let definitions = written_definitions(&content.bytes, form, judge);
            let known = Known { content: content.clone(), form, definitions, broken: Vec::new(), places: Vec::new() };
            self.files.insert(path.clone(), known);
            changed.insert(path);
        }
        // Before the first update, not even the initial Namespaces are served.
        (!is_as_before || self.objects.is_empty()).then_some(changed)
    }

    /// The valid definitions of all files, by name. Of several with one name, the first. Adds the problems of
    /// definitions to `problems`.
    fn valid_definitions(&self, problems: &mut Vec<FolderProblem>) -> Vec<Arc<Crd>> {
        let mut found: BTreeMap<&str, Arc<Crd>> = BTreeMap::new();
        for (path, known) in &self.files {
            for definition in &known.definitions {
                match &definition.read {
                    Err(cause) => problems.push(problem(path, definition.line, cause.clone())),
                    Ok((crd, _)) if found.contains_key(&*crd.name) => {}
                    Ok((crd, sentences)) => {
                        problems.extend(sentences.iter().map(|cause| problem(path, definition.line, cause.clone())));
                        found.insert(&crd.name, crd.clone());
                    }
                }
            }
        }
        found.into_values().collect()
    }

    /// Parses a file and validates its objects. Returns one element for each document: the object, or `None` if it
    /// cannot be served; `known` then has the reason. `written`: the valid definitions of the folder.
    fn parse_file(
        &mut self,
        known: &mut Known,
        written: &[Arc<Crd>],
        built_in: BuiltInKindLookup<'_>,
    ) -> Vec<Option<Candidate>> {
        let (documents, broken) = yaml::documents(&known.content.bytes, known.form);
        known.broken = broken;
        known.places.clear();
        let mut candidates = Vec::with_capacity(documents.len());
        for (index, Document { line, value, .. }) in documents.into_iter().enumerate() {
            let refused = |definition: &WrittenDefinition| definition.place == index && definition.read.is_err();
            let (found, candidate) = if known.definitions.iter().any(refused) {
                (DocumentContent::InvalidDefinition, None)
            } else {
                match self.make_candidate(value, known.content.modified, written, built_in) {
                    Ok((identity, candidate)) => {
                        (DocumentContent::Object(Arc::new(identity), candidate.kind.clone()), Some(candidate))
                    }
                    Err(cause) => (DocumentContent::Invalid(cause), None),
                }
            };
            known.places.push(Place { line, found });
            candidates.push(candidate);
        }
        candidates
    }

    /// Validates an object of a file, and adds its namespace and defaults. `modified`: the modification time of the
    /// file, in seconds since 1970. `definitions`: the valid ones of the folder.
    ///
    /// # Errors
    /// Why the object is not served.
    fn make_candidate(
        &mut self,
        mut value: Value,
        modified: i64,
        definitions: &[Arc<Crd>],
        built_in: BuiltInKindLookup<'_>,
    ) -> Result<(Identity, Candidate), String> {
        let (group_version, kind) = type_of(&value)?;
        let known = self.kind(&group_version, &kind, definitions, built_in)?;
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
        let mut problems = metadata::validate(&value, scope, builtin::name_rule(&group_version.group, &kind));
        match &known {
            Kind::Definition => {}
            Kind::Custom { crd, version } => {
                if let Some(schema) = crd.version(version).and_then(|version| version.schema.as_ref()) {
                    let schema = self.schemas.shared(schema);
                    let schema = SchemaNode::new(&schema, &no_references);
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
                    let schema = SchemaNode::new(schema, &no_references);
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
            return Err(format!("{} is rejected: {}", named(&kind, &key), causes.join("; ")));
        }
        if plural == folder_namespaces::PLURAL && group_version.group.is_empty() {
            folder_namespaces::complete(&mut value);
        }
        let targets = targets(&known, &group_version, plural, &mut self.schemas);
        if targets.is_empty() {
            return Err(format!("{} is rejected: version {group_version} is not served", named(&kind, &key)));
        }
        let counts_generations = !matches!(known, Kind::BuiltIn(_));
        let identity = Identity { group: group_version.group.clone(), plural: plural.to_owned(), key };
        Ok((identity, Candidate { kind, value, targets, modified, counts_generations }))
    }

    /// Finds the kind of an object: a definition, a custom kind or a built-in one.
    ///
    /// # Errors
    /// There is no such kind, or not in this version.
    fn kind<'a>(
        &mut self,
        group_version: &GroupVersion,
        kind: &str,
        definitions: &'a [Arc<Crd>],
        built_in: BuiltInKindLookup<'_>,
    ) -> Result<Kind<'a>, String> {
        let GroupVersion { group, version } = group_version;
        if group == DEFINITIONS_GROUP && version == DEFINITIONS_VERSION && kind == DEFINITIONS_KIND {
            return Ok(Kind::Definition);
        }
        let of_kind = definitions.iter().filter(|crd| crd.group == *group && crd.names.kind == kind);
        for crd in of_kind.clone() {
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
        // A definition in the folder, even of other versions, replaces the one that this program contains.
        if let Some(crd) = own_definition(group, kind).filter(|_| of_kind.clone().next().is_none())
            && let Some(version) = crd.version(version)
        {
            return Ok(Kind::Custom { crd, version: &version.name });
        }
        let versions: Vec<&str> = of_kind.flat_map(|crd| &crd.versions).map(|version| &*version.name).collect();
        Err(if versions.is_empty() {
            format!(
                "no kind {kind} in {group_version}: neither built in nor defined by a CustomResourceDefinition in this \
                 folder"
            )
        } else {
            format!("no kind {kind} in {group_version}: its CustomResourceDefinition has {}", versions.join(", "))
        })
    }

    /// Replaces the stored object by a candidate, and adds the difference to `changes`. `file` and `place` are the file
    /// of the object, and the index of its document there. An object that is served as before gets no new version.
    fn apply(
        &mut self,
        identity: Arc<Identity>,
        candidate: &Candidate,
        (file, place): (&Arc<str>, usize),
        changes: &mut BTreeMap<Gvr, Vec<ObjectChange>>,
    ) {
        let old = self.objects.get_mut(&identity);
        let written = object::metadata_text(&candidate.value, "creationTimestamp");
        let created = object::normal_timestamp(written)
            .or_else(|| old.as_ref().map(|old| old.created.clone()))
            .unwrap_or_else(|| object::timestamp(candidate.modified));
        let specification = digest(&specification(&candidate.value));
        let generation = old.as_ref().map_or(1, |old| old.generation + i64::from(old.specification != specification));
        let shown = forms(&identity, candidate, &created, generation);
        let forms: Vec<(Gvr, TextDigest)> = shown.iter().map(|(gvr, form)| (gvr.clone(), digest(form))).collect();
        let mut old_forms = Vec::new();
        if let Some(old) = old {
            if old.forms == forms {
                (old.file, old.place) = (file.clone(), place);
                return;
            }
            old_forms = std::mem::take(&mut old.forms);
        }
        self.version = self.version.next();
        let version = self.version;
        for (gvr, _) in old_forms.into_iter().filter(|(gvr, _)| !shown.contains_key(gvr)) {
            changes.entry(gvr).or_default().push(ObjectChange::Remove { key: identity.key.clone(), version });
        }
        for (gvr, form) in shown {
            if identity.is_definition() {
                self.definitions_changed = true;
                match Crd::read(&form) {
                    Ok(crd) => self.definitions.insert(identity.clone(), (crd, form.clone())),
                    Err(_) => self.definitions.remove(&identity),
                };
            }
            // A version that looks as before still gets the new resourceVersion: there is one for all versions.
            let bytes = Bytes::from(json::to_text(&with_version(form, version)));
            let change = ObjectChange::Upsert { key: identity.key.clone(), version, bytes };
            changes.entry(gvr).or_default().push(change);
        }
        let served = Served { created, generation, specification, forms, file: file.clone(), place };
        self.objects.insert(identity, served);
    }

    /// Serves the Namespaces that no file has, and adds them to `served`, which has all objects of the files.
    fn add_namespaces(
        &mut self,
        written: &[Arc<Crd>],
        built_in: BuiltInKindLookup<'_>,
        served: &mut HashMap<Arc<Identity>, (Arc<str>, usize)>,
        changes: &mut BTreeMap<Gvr, Vec<ObjectChange>>,
    ) {
        let no_file: Arc<str> = Arc::from("");
        let names = folder_namespaces::names(served.keys().map(|identity| &identity.key));
        let identity = |name: &str| {
            let (group, plural) = (String::new(), folder_namespaces::PLURAL.to_owned());
            Arc::new(Identity { group, plural, key: Key::new("", name) })
        };
        let missing: Vec<_> = names.into_iter().map(identity).filter(|wanted| !served.contains_key(wanted)).collect();
        for identity in missing {
            served.insert(identity.clone(), (no_file.clone(), 0));
            if self.objects.get(&identity).is_some_and(|served| served.file == no_file) {
                continue;
            }
            let manifest = folder_namespaces::manifest(identity.key.name());
            if let Ok((_, candidate)) = self.make_candidate(manifest, self.started, written, built_in) {
                self.apply(identity, &candidate, (&no_file, 0), changes);
            }
        }
    }

    /// Removes the objects that are not keys of `kept`, and adds their removals to `changes`.
    fn remove_all_but<T>(&mut self, kept: &HashMap<Arc<Identity>, T>, changes: &mut BTreeMap<Gvr, Vec<ObjectChange>>) {
        let gone: Vec<Arc<Identity>> =
            self.objects.keys().filter(|identity| !kept.contains_key(*identity)).cloned().collect();
        for identity in gone {
            let Some(served) = self.objects.remove(&identity) else { continue };
            self.definitions_changed |= self.definitions.remove(&identity).is_some();
            self.version = self.version.next();
            for (gvr, _) in served.forms {
                let change = ObjectChange::Remove { key: identity.key.clone(), version: self.version };
                changes.entry(gvr).or_default().push(change);
            }
        }
    }
}

impl fmt::Debug for FolderState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = self.objects.len();
        formatter.debug_struct("FolderState").field("version", &self.version).field("objects", &objects).finish()
    }
}

/// A problem of a file.
fn problem(file: &str, line: usize, cause: String) -> FolderProblem {
    FolderProblem { file: file.to_owned(), line, cause }
}

/// The syntax of a file, by its extension.
fn syntax_of(path: &str) -> Syntax {
    if path.to_ascii_lowercase().ends_with(".json") { Syntax::Json } else { Syntax::Yaml }
}

/// The definitions of a file. A file is only parsed if it can contain one: the kind is literally in it unless it is
/// written with an escape.
fn written_definitions(bytes: &[u8], form: Syntax, judge: FieldJudge<'_>) -> Vec<WrittenDefinition> {
    let kind = DEFINITIONS_KIND.as_bytes();
    if !bytes.contains(&b'\\') && !bytes.windows(kind.len()).any(|part| part == kind) {
        return Vec::new();
    }
    let (documents, _) = yaml::documents(bytes, form);
    let mut found = Vec::new();
    for (place, Document { line, value, .. }) in documents.iter().enumerate() {
        let Ok((group_version, kind)) = type_of(value) else { continue };
        // Another version is reported as an unknown kind.
        if group_version != GroupVersion::new(DEFINITIONS_GROUP, DEFINITIONS_VERSION) || kind != DEFINITIONS_KIND {
            continue;
        }
        found.push(WrittenDefinition { place, line: *line, read: written_definition(value, judge) });
    }
    found
}

/// Reads a definition. Returns it with one sentence for each field that is not served.
///
/// # Errors
/// Why the definition is rejected.
fn written_definition(value: &Value, judge: FieldJudge<'_>) -> Result<(Arc<Crd>, Vec<String>), String> {
    let crd = Crd::read(value).map_err(|error| {
        format!("CustomResourceDefinition {:?} is rejected: {error}", object::metadata_text(value, "name"))
    })?;
    let expected = format!("{}.{}", crd.names.plural, crd.group);
    if crd.name != expected {
        return Err(format!(
            "CustomResourceDefinition {:?} is rejected: metadata.name: Invalid value: {:?}: must be \
             spec.names.plural+\".\"+spec.group",
            crd.name, crd.name
        ));
    }
    let sentence = |cause| format!("CustomResourceDefinition {:?} is served without a field: {cause}", crd.name);
    let sentences = judge(&crd).into_iter().map(sentence).collect();
    Ok((Arc::new(crd), sentences))
}

/// The SHA-256 of a value as compact JSON.
fn digest(value: &Value) -> TextDigest {
    Sha256::digest(json::to_text(value)).into()
}

/// The apiVersion and the kind of a document.
///
/// # Errors
/// One of them is missing, not a string, or invalid.
fn type_of(value: &Value) -> Result<(GroupVersion, String), String> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version.is_empty() || kind.is_empty() {
        return Err("not a Kubernetes object: apiVersion and kind must be strings".to_owned());
    }
    match GroupVersion::parse(api_version) {
        Some(group_version) => Ok((group_version, kind.to_owned())),
        None => Err(format!("apiVersion {api_version:?} is not VERSION or GROUP/VERSION")),
    }
}

/// Names an object in messages by its kind and key.
fn named(kind: &str, key: &Key) -> String {
    format!("{kind} {:?}", key.as_str())
}

/// The versions in which an object is served: the version of its file (`group_version`) and, if its definition converts
/// by renaming only, the others. Versions that the definition does not serve are left out.
fn targets(kind: &Kind<'_>, group_version: &GroupVersion, plural: &str, schemas: &mut Schemas) -> Vec<Target> {
    let own = Target { gvr: Gvr::new(&*group_version.group, &*group_version.version, plural), schema: None };
    let Kind::Custom { crd, version: own_version } = kind else { return vec![own] };
    let served = crd.versions.iter().filter(|version| version.served);
    let served = served.filter(|version| version.name == *own_version || crd.converts_by_renaming);
    served
        .map(|version| {
            if version.name == *own_version {
                return own.clone();
            }
            let schema = version.schema.as_ref().filter(|_| !crd.preserve_unknown_fields);
            Target { gvr: crd.gvr(&version.name), schema: schema.map(|schema| schemas.shared(schema)) }
        })
        .collect()
}

/// The fields that determine the generation: all but metadata, status and apiVersion.
fn specification(value: &Value) -> Value {
    let members = value.as_object().into_iter().flatten();
    let kept = members.filter(|(name, _)| !matches!(&***name, "metadata" | "status" | "apiVersion"));
    Value::Object(kept.map(|(name, member)| (name.clone(), member.clone())).collect())
}

/// The object in every version in which it is served, without a resourceVersion. `created` is its
/// metadata.creationTimestamp.
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
            prune::prune(&mut form, SchemaNode::new(schema, &no_references));
        }
        (target.gvr.clone(), form)
    };
    candidate.targets.iter().map(form).collect()
}

/// The object with `version` as its resourceVersion.
fn with_version(mut form: Value, version: Version) -> Value {
    if let Some(metadata) = object::metadata_of(&mut form) {
        metadata.insert("resourceVersion".to_owned(), Value::from(version.to_string()));
    }
    form
}
