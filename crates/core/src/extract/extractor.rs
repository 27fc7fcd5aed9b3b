//! The validated fields of one resource: extracts a [`Record`] from the bytes of an object.
//!
//! An extractor is compiled once for each version of a resource and is cheap to clone. It applies no schema default:
//! the value of an absent field is the empty text, or for built-in types that of the table. `validation` and `builtin`
//! decide which paths are valid; `scan` walks the bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::builtin::{BuiltinFields, LabelErrorFormat, LabelSource};
use super::extra::field::{CompiledField, TooComplex};
use super::field::{Field, FieldRef, Origin, UnsupportedLabel};
use super::invalid_object::InvalidObject;
use super::object_schema::ObjectSchema;
use super::prune::Prune;
use super::role_binding::{self, SubjectPaths};
use super::scan::{self, FoundSpans};
use super::trie::{PathStep, Paths, Trie, is_many};
use super::validation;
use super::value;
use crate::crd::Crd;
use crate::json::cursor::{Cursor, Span};
use crate::json::{SyntaxError, unescape};
use crate::model::{FieldIndex, IndexedValues, Key, OwnerHashes, Record, Scope, Version, fnv1a};

/// The maximum number of characters of an invalid resourceVersion that an error shows.
const LONGEST_VERSION: usize = 64;

/// The validated, compiled fields of one resource (one group, version and plural).
///
/// Extractors are equal when nothing that a client can see differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extractor {
    /// Shared with the extractors of all Views of the resource.
    whole: Arc<Whole>,
    /// For each field, whether it is hidden from selectors although its value is extracted. Empty if none is hidden.
    hidden: Arc<[bool]>,
    /// The schema of the objects.
    schema: ObjectSchema,
}

/// The parts of an extractor that do not depend on a View.
#[derive(Debug, PartialEq, Eq)]
struct Whole {
    labels: Labels,
    fields: Vec<Field>,
    reading: Reading,
    trie: Trie,
}

/// The maximum number of fields of an extractor: a [`FieldIndex`] has 16 bits. [`FieldIndex::SUBJECTS`] comes after
/// them.
const MAX_FIELDS: usize = FieldIndex::SUBJECTS.0 as usize;

/// The maximum number of trie nodes that the fields of a FieldCache add, and of steps that their paths have together.
/// Each version of each resource has such a trie, and authors of FieldCaches decide how large it is.
pub(super) const MAX_NODES: usize = 1_024;

/// The labels of field selectors that the resource accepts besides those of its fields, and the error for all others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Labels {
    /// Whether metadata.namespace is accepted.
    namespace: bool,
    /// The form of the error for a label that is not accepted.
    refusal: LabelErrorFormat,
    /// The version of the resource, which the error may name.
    version: String,
    /// Labels that mean the same as another label, which follows.
    aliases: Vec<(&'static str, &'static str)>,
    /// Labels that are empty for every object.
    never_populated: Vec<&'static str>,
}

/// The paths that are read from an object's bytes. The other fields have numbers of paths in `paths`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    paths: Paths,
    /// Where each field is read, in the order of the fields.
    sources: Vec<FieldSource>,
    /// The number of the path to metadata.
    metadata: usize,
    /// The number of the path to metadata.name.
    name: usize,
    /// The number of the path to metadata.namespace.
    namespace: usize,
    /// The number of the path to metadata.resourceVersion.
    resource_version: usize,
    /// The number of the path to metadata.uid.
    uid: usize,
    /// The number of the path to metadata.labels.
    labels: usize,
    /// The number of the path to the uids in metadata.ownerReferences.
    owners: usize,
    /// The paths to subjects and role; only for RoleBindings.
    subjects: Option<SubjectPaths>,
    /// The numbers of the paths to kind and apiVersion if records omit these two; `None`: records keep them.
    type_meta: Option<(usize, usize)>,
}

/// The paths that a field's value is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldSource {
    /// The numbers of its paths, in order of precedence: the first path with a text that is not empty counts.
    paths: Vec<usize>,
    /// The field's text if no path has one.
    when_absent: String,
    /// Whether the field can have several values: those of its only path.
    is_many: bool,
}

impl Reading {
    /// The paths that are read from each object: key, version, labels and owners. Fields are added later. For built-in
    /// kinds, kind and apiVersion are located too, because they are cut out of the record.
    fn new(is_built_in: bool) -> Reading {
        let mut paths = Paths::default();
        let mut path = |keys: &[&str]| {
            let steps: Vec<PathStep> = keys.iter().map(|&key| PathStep::Key(key.to_owned())).collect();
            paths.insert(&steps)
        };
        let metadata = path(&["metadata"]);
        let name = path(&["metadata", "name"]);
        let namespace = path(&["metadata", "namespace"]);
        let resource_version = path(&["metadata", "resourceVersion"]);
        let uid = path(&["metadata", "uid"]);
        let labels = path(&["metadata", "labels"]);
        let type_meta = is_built_in.then(|| (path(&["kind"]), path(&["apiVersion"])));
        let key = |name: &str| PathStep::Key(name.to_owned());
        let owners = paths.insert(&[key("metadata"), key("ownerReferences"), PathStep::Any, key("uid")]);
        let (sources, subjects) = (Vec::new(), None);
        Reading {
            sources,
            metadata,
            name,
            namespace,
            resource_version,
            uid,
            labels,
            owners,
            subjects,
            type_meta,
            paths,
        }
    }
}

impl Extractor {
    /// The extractor of one version of a custom resource. Fields that `validation` rejects are left out.
    ///
    /// A list with more fields than are permitted remains whole, up to `MAX_FIELDS`: API servers keep such lists across
    /// updates. A version that the definition does not have yields an extractor without fields.
    pub fn custom_resource(crd: &Crd, version: &str) -> Extractor {
        let mut reading = Reading::new(false);
        let mut fields = Vec::new();
        let accepted = crd.version(version).map(validation::accepted_fields).unwrap_or_default();
        for (field, segments) in accepted.into_iter().take(MAX_FIELDS) {
            let steps: Vec<PathStep> = segments.into_iter().map(PathStep::Key).collect();
            let paths = vec![reading.paths.insert(&steps)];
            reading.sources.push(FieldSource { paths, when_absent: String::new(), is_many: false });
            fields.push(field);
        }
        let labels = Labels {
            namespace: crd.scope == Scope::Namespaced,
            refusal: LabelErrorFormat::NotSupported,
            version: version.to_owned(),
            aliases: Vec::new(),
            never_populated: Vec::new(),
        };
        let schema =
            crd.version(version).filter(|_| !crd.preserve_unknown_fields).and_then(|found| found.schema.clone());
        let schema = schema.map_or(ObjectSchema::Unknown, ObjectSchema::Custom);
        Extractor::from_parts(labels, fields, reading).with_schema(schema)
    }

    /// The extractor of a built-in kind in one version. `row` is its entry in the table; `None`: the kind has only
    /// metadata.name and metadata.namespace, even if it is cluster-scoped.
    pub fn built_in(row: Option<&BuiltinFields>, version: &str) -> Extractor {
        let mut labels = Labels {
            namespace: row.is_none_or(|row| row.namespace),
            refusal: row.map_or(LabelErrorFormat::NotKnown, |row| row.refusal),
            version: version.to_owned(),
            aliases: Vec::new(),
            never_populated: Vec::new(),
        };
        let mut reading = Reading::new(true);
        let mut fields = Vec::new();
        for label in row.map_or(&[][..], |row| row.labels) {
            match label.source {
                LabelSource::Alias(target) => labels.aliases.push((label.label, target)),
                LabelSource::NeverPopulated => labels.never_populated.push(label.label),
                LabelSource::Value { paths, kind, when_absent, names_default, description } => {
                    let numbers = paths.iter().map(|path| reading.paths.insert(&wire_steps(path))).collect();
                    reading.sources.push(FieldSource {
                        paths: numbers,
                        when_absent: when_absent.to_owned(),
                        is_many: false,
                    });
                    fields.push(Field {
                        label: label.label.to_owned(),
                        json_path: paths.first().copied().unwrap_or_default().to_owned(),
                        kind: kind.to_owned(),
                        allowed: Arc::default(),
                        format: String::new(),
                        default: names_default.then(|| when_absent.to_owned()),
                        description: description.to_owned(),
                        origin: Origin::BuiltIn,
                    });
                }
            }
        }
        Extractor::from_parts(labels, fields, reading)
    }

    /// The extractor, without fields of a FieldCache, that also extracts the subjects and the role of RoleBindings, as
    /// [`FieldIndex::SUBJECTS`].
    #[must_use]
    pub fn with_subjects(&self) -> Extractor {
        let Whole { labels, fields, reading, .. } = &*self.whole;
        let mut reading = reading.clone();
        let key = |name: &str| PathStep::Key(name.to_owned());
        reading.subjects = Some(SubjectPaths {
            subjects: reading.paths.insert(&[key("subjects"), PathStep::Any]),
            role: reading.paths.insert(&[key("roleRef")]),
        });
        let schema = self.schema.clone();
        Extractor { schema, ..Extractor::from_parts(labels.clone(), fields.clone(), reading) }
    }

    /// An extractor of these fields, with the paths of `reading` compiled into a trie.
    fn from_parts(labels: Labels, fields: Vec<Field>, reading: Reading) -> Extractor {
        let trie = reading.paths.merge(usize::MAX).expect("any number of nodes must be allowed");
        let whole = Arc::new(Whole { labels, fields, reading, trie });
        Extractor { whole, hidden: Arc::default(), schema: ObjectSchema::Unknown }
    }

    /// The extractor with another schema of the objects, which changes nothing of what it extracts.
    pub fn with_schema(self, schema: ObjectSchema) -> Extractor {
        Extractor { schema, ..self }
    }

    /// The schema of the objects; unknown for pruned objects.
    pub fn schema(&self) -> &ObjectSchema {
        &self.schema
    }

    /// The extractor, which must not be pruned yet, with a FieldCache's fields after its own. [`super::extra::accept`]
    /// must have accepted these fields.
    ///
    /// # Errors
    /// [`TooComplex`] if their paths have too many steps together, if their wildcards overlap in too many ways, or if
    /// there are too many fields.
    pub fn with_extra(&self, extra: &[CompiledField]) -> Result<Extractor, TooComplex> {
        if extra.is_empty() {
            return Ok(self.clone());
        }
        let Whole { labels, fields, reading, .. } = &*self.whole;
        if fields.len() + extra.len() > MAX_FIELDS {
            return Err(TooComplex);
        }
        if extra.iter().map(|field| field.steps().len()).sum::<usize>() > MAX_NODES {
            return Err(TooComplex);
        }
        let (mut fields, mut reading) = (fields.clone(), reading.clone());
        for field in extra {
            let paths = vec![reading.paths.share(field.steps())];
            let is_many = is_many(field.steps());
            reading.sources.push(FieldSource { paths, when_absent: String::new(), is_many });
            fields.push(field.field().clone());
        }
        // The resource's own fields have a node for each step, and no wildcards.
        let most = self.whole.trie.nodes() + MAX_NODES;
        let trie = reading.paths.merge(most).map_err(|_| TooComplex)?;
        Ok(Extractor {
            whole: Arc::new(Whole { labels: labels.clone(), fields, reading, trie }),
            hidden: Arc::default(),
            schema: self.schema.clone(),
        })
    }

    /// The extractor for pruned objects: selectors cannot use fields that are read from a pruned part. All fields keep
    /// their indexes.
    ///
    /// Every View has its own extractors, so they share everything but the list of hidden fields.
    pub fn pruned(&self, prune: &Prune) -> Extractor {
        if prune.is_empty() {
            return self.clone();
        }
        let reading = &self.whole.reading;
        let touches = |source: &FieldSource| {
            source.paths.iter().any(|path| reading.paths.steps(*path).is_some_and(|steps| prune.touches(steps)))
        };
        let is_hidden = |(index, source)| self.is_hidden(index) || touches(source);
        let hidden: Vec<bool> = reading.sources.iter().enumerate().map(is_hidden).collect();
        let hidden: Arc<[bool]> = if hidden.contains(&true) { hidden.into() } else { self.hidden.clone() };
        // The schema names the fields that are pruned.
        Extractor { whole: self.whole.clone(), hidden, schema: ObjectSchema::Unknown }
    }

    /// Whether selectors can use a field: a View can hide it.
    pub fn is_offered(&self, field: FieldIndex) -> bool {
        !self.is_hidden(usize::from(field.0))
    }

    /// Whether selectors cannot use the field of this index.
    fn is_hidden(&self, index: usize) -> bool {
        self.hidden.get(index).copied().unwrap_or_default()
    }

    /// The fields that selectors can use, in the order in which OpenAPI lists them.
    pub fn offered(&self) -> impl Iterator<Item = &Field> {
        let fields = self.whole.fields.iter().enumerate();
        fields.filter(|(index, _)| !self.is_hidden(*index)).map(|(_, field)| field)
    }

    /// Whether an object can have several values of a field.
    pub fn is_many(&self, field: FieldIndex) -> bool {
        self.whole.reading.sources.get(usize::from(field.0)).is_some_and(|source| source.is_many)
    }

    /// Whether a field is read from one path. Only then does the index of the field answer for a path in an expression.
    pub fn has_one_path(&self, field: FieldIndex) -> bool {
        self.whole.reading.sources.get(usize::from(field.0)).is_some_and(|source| source.paths.len() == 1)
    }

    /// Whether the values of a field are integers, except for objects older than the schema.
    pub fn is_integer(&self, field: FieldIndex) -> bool {
        self.whole.fields.get(usize::from(field.0)).is_some_and(|field| field.kind == "integer")
    }

    /// The fields whose values are integers.
    pub fn integers(&self) -> impl Iterator<Item = FieldIndex> {
        let indexes = (0..self.whole.fields.len()).filter_map(|index| u16::try_from(index).ok().map(FieldIndex));
        indexes.filter(|index| self.is_integer(*index))
    }

    /// All fields, hidden ones too, in the order in which OpenAPI lists them. A [`FieldIndex`] is a position in this
    /// list.
    pub fn fields(&self) -> &[Field] {
        &self.whole.fields
    }

    /// Whether a field selector may name metadata.namespace, as in kube-apiserver; it may always name metadata.name.
    ///
    /// This is not the scope of the resource. kube-apiserver accepts metadata.namespace for most cluster-scoped built-in
    /// kinds, and rejects it for the namespaced PodCertificateRequest.
    pub fn accepts_namespace(&self) -> bool {
        self.whole.labels.namespace
    }

    /// Resolves a label of a field selector to a field.
    ///
    /// # Errors
    /// The resource does not accept the label, or the field is hidden. The error is kube-apiserver's for this kind.
    pub fn resolve(&self, label: &str) -> Result<FieldRef, UnsupportedLabel> {
        let labels = &self.whole.labels;
        match label {
            "metadata.name" => return Ok(FieldRef::Name),
            "metadata.namespace" if labels.namespace => return Ok(FieldRef::Namespace),
            _ => {}
        }
        let target = labels.aliases.iter().find(|(alias, _)| *alias == label).map_or(label, |&(_, target)| target);
        let is_offered = |(index, field): &(usize, &Field)| field.label == target && !self.is_hidden(*index);
        if let Some((position, _)) = self.whole.fields.iter().enumerate().find(is_offered) {
            let index = u16::try_from(position).expect("an extractor must not have more fields than MAX_FIELDS");
            return Ok(FieldRef::Field(FieldIndex(index)));
        }
        if labels.never_populated.contains(&label) {
            return Ok(FieldRef::Empty);
        }
        Err(UnsupportedLabel { message: labels.refusal.message(&labels.version, label) })
    }

    /// Reads an object in one pass over its bytes. The record of a built-in kind has the form in which a list of an API
    /// server has the object: without kind and apiVersion. Events of a watch have both, so they are cut out.
    ///
    /// # Errors
    /// The bytes are not a Kubernetes object: not JSON, without a valid name or resourceVersion, or of 4 GiB or more.
    pub fn extract(&self, bytes: Bytes) -> Result<Record, InvalidObject> {
        let reading = &self.whole.reading;
        if u32::try_from(bytes.len()).is_err() {
            return Err(SyntaxError { offset: 0, expected: "an object of less than 4 GiB" }.into());
        }
        let found = scan::locate(&self.whole.trie, &bytes)?;
        if let Some((kind, api_version)) = reading.type_meta
            && !(found.spans[kind].is_absent() && found.spans[api_version].is_absent())
        {
            // The usual case is one copy. In any other case, the object is scanned again, because all positions change.
            return match leading_type_meta(&bytes, &found, found.spans[kind], found.spans[api_version]) {
                Some(cut) => {
                    let mut shorter = Vec::with_capacity(found.object.end - cut);
                    shorter.push(b'{');
                    shorter.extend_from_slice(&bytes[cut + 1..found.object.end]);
                    // The brace replaces the comma; everything after it moves by `cut`.
                    self.record(Bytes::from(shorter), &found, cut)
                }
                None => {
                    let shorter = Bytes::from(without_type_meta(&bytes[found.object.start..found.object.end])?);
                    let found = scan::locate(&self.whole.trie, &shorter)?;
                    self.record(shorter, &found, 0)
                }
            };
        }
        let start = found.object.start;
        let object =
            if start == 0 && found.object.end == bytes.len() { bytes } else { bytes.slice(start..found.object.end) };
        self.record(object, &found, start)
    }

    /// Builds the record of the object in `bytes`. The spans in `found` are positions in longer bytes, of which the
    /// first `shift` have been removed. A field of a FieldCache becomes unknown in the record if its values are too
    /// many. The same applies if they exceed [`MOST_VALUE_BYTES`], together with those of the earlier fields that are
    /// known.
    fn record(&self, bytes: Bytes, found: &FoundSpans, shift: usize) -> Result<Record, InvalidObject> {
        let reading = &self.whole.reading;
        let span = |path: usize| {
            let span = found.spans[path];
            if span.is_absent() { span } else { Span { start: span.start - shift, end: span.end - shift } }
        };
        let metadata = span(reading.metadata);
        let name = required_text(&bytes, span(reading.name), "metadata.name")?;
        // A cluster-scoped object has no namespace.
        let namespace = match span(reading.namespace).slice(&bytes) {
            b"" | b"null" => Cow::Borrowed(""),
            _ => required_text(&bytes, span(reading.namespace), "metadata.namespace")?,
        };
        if name.is_empty() {
            return Err(InvalidObject::Missing { path: "metadata.name" });
        }
        let version_value = span(reading.resource_version);
        let version_text = required_text(&bytes, version_value, "metadata.resourceVersion")?;
        let Some(version) = Version::parse(&version_text) else {
            return Err(InvalidObject::Version { text: version_text.chars().take(LONGEST_VERSION).collect() });
        };
        // A value that is no text cannot come from an API server.
        let uid_hash = fnv1a(&required_text(&bytes, span(reading.uid), "metadata.uid").unwrap_or_default());
        let mut texts = labels(&bytes, span(reading.labels), reading.sources.len())?;
        texts.owners = owners(&bytes, found, reading.owners, shift);
        let mut unknown = Vec::new();
        let mut room = MOST_VALUE_BYTES;
        for ((index, source), field) in (0..).zip(&reading.sources).zip(&self.whole.fields) {
            if field.origin == Origin::FieldCache {
                // A path has a value either in `spans` or, if it can lead to several, in `values`. The other one
                // is empty.
                let single = source.paths.iter().map(|path| found.spans[*path]);
                let spans = single.chain(source.paths.iter().flat_map(|path| found.values(*path)));
                let bytes = spans.map(|span| span.end - span.start).sum();
                let left = room.checked_sub(bytes).filter(|_| !(source.is_many && found.has_too_many));
                let Some(left) = left else {
                    unknown.push(FieldIndex(index));
                    continue;
                };
                room = left;
            }
            if source.is_many {
                let values = distinct_values(&bytes, source.paths.iter().flat_map(|path| found.values(*path)), shift)?;
                values.iter().for_each(|value| texts.push_value(FieldIndex(index), value));
                continue;
            }
            // The first path with a text counts.
            let mut text = Cow::Borrowed("");
            for &path in &source.paths {
                text = text_at(&bytes, span(path))?;
                if !text.is_empty() {
                    break;
                }
            }
            texts.push_value(FieldIndex(index), if text.is_empty() { &source.when_absent } else { &text });
        }
        if let Some(paths) = reading.subjects {
            // Without the limit on the values of FieldCaches: only one path leads to a subject, so all texts together
            // are not much longer than the object.
            if found.has_too_many {
                unknown.push(FieldIndex::SUBJECTS);
            } else {
                let subjects = role_binding::texts(&bytes, found, paths, (&namespace, shift));
                subjects.iter().for_each(|text| texts.push_value(FieldIndex::SUBJECTS, text));
            }
        }
        // The record lists unknown fields after all values.
        unknown.into_iter().for_each(|field| texts.push_unknown(field));
        Ok(Record {
            key: Key::new(&namespace, &name),
            version,
            texts,
            // Without the quotes.
            version_span: short(version_value.start + 1)..short(version_value.end - 1),
            metadata_span: short(metadata.start)..short(metadata.end),
            uid_hash,
            bytes,
        })
    }
}

/// An offset as 32 bits.
fn short(offset: usize) -> u32 {
    u32::try_from(offset).expect("an object must be shorter than 4 GiB; `extract` checks it")
}

/// The steps of a path of the built-in table, such as `.status.hostIPs[0].ip`.
fn wire_steps(path: &str) -> Vec<PathStep> {
    let mut steps = Vec::new();
    for segment in path.split('.').skip(1) {
        let key = segment.strip_suffix("[0]");
        steps.push(PathStep::Key(key.unwrap_or(segment).to_owned()));
        if key.is_some() {
            steps.push(PathStep::Element(0));
        }
    }
    steps
}

/// The different values of a field that can have several, sorted and without nulls. The spans are positions in longer
/// bytes, of which the first `shift` have been removed.
fn distinct_values(
    bytes: &[u8],
    spans: impl Iterator<Item = Span>,
    shift: usize,
) -> Result<Vec<Cow<'_, str>>, SyntaxError> {
    let mut values: Vec<Cow<'_, str>> = Vec::new();
    let mut full = USUAL_VALUES;
    for span in spans {
        let span = Span { start: span.start - shift, end: span.end - shift };
        if span.slice(bytes) == b"null" {
            continue;
        }
        values.push(text_at(bytes, span)?);
        // Duplicates are removed each time the number of values has doubled, so the different values bound the memory.
        if values.len() >= full {
            values.sort_unstable();
            values.dedup();
            full = USUAL_VALUES.max(2 * values.len());
        }
    }
    values.sort_unstable();
    values.dedup();
    Ok(values)
}

/// The owners of an object. `path` is the number of the path to their uids. The spans are positions in longer bytes, of
/// which the first `shift` have been removed. A uid that is no text cannot come from an API server, and is left out.
fn owners(bytes: &[u8], found: &FoundSpans, path: usize, shift: usize) -> OwnerHashes {
    if found.has_too_many {
        // Some of the values were not recorded.
        return OwnerHashes::TooMany;
    }
    OwnerHashes::from_uids(found.values(path).filter_map(|span| {
        let [b'"', inside @ .., b'"'] = &bytes[span.start - shift..span.end - shift] else { return None };
        unescape(inside)
    }))
}

/// The canonical text of the value at a span; empty if the span is absent.
fn text_at(bytes: &[u8], span: Span) -> Result<Cow<'_, str>, SyntaxError> {
    if span.is_absent() {
        return Ok(Cow::Borrowed(""));
    }
    value::text(span.slice(bytes)).ok_or(SyntaxError { offset: span.start, expected: "a value" })
}

/// The unescaped string at a span. `path` is its path, for the error.
///
/// # Errors
/// The span is absent, or the value is not a string.
fn required_text<'b>(bytes: &'b [u8], span: Span, path: &'static str) -> Result<Cow<'b, str>, InvalidObject> {
    let [b'"', inside @ .., b'"'] = span.slice(bytes) else {
        return Err(InvalidObject::Missing { path });
    };
    unescape(inside).ok_or(InvalidObject::Syntax(SyntaxError { offset: span.start, expected: "a string" }))
}

/// The expected length of a value's text, in bytes: values are colours and names, not paragraphs.
const USUAL_VALUE_BYTES: usize = 24;
/// The maximum length in bytes of JSON that the values of all fields of a FieldCache may have in one object. The paths
/// of 32 fields can lead to the same value.
const MOST_VALUE_BYTES: usize = 1 << 20;
/// The number of values of one field that usually suffices for an object.
const USUAL_VALUES: usize = 256;
/// The number of labels that usually suffices for an object.
const USUAL_LABELS: usize = 8;

/// Reads metadata.labels, sorted by key; of equal keys the last one counts. A value that is not an object has no
/// labels. The result has capacity for `values` values of fields too.
fn labels(bytes: &[u8], span: Span, values: usize) -> Result<IndexedValues, SyntaxError> {
    let raw = span.slice(bytes);
    let misplaced = |error: SyntaxError| SyntaxError { offset: span.start + error.offset, ..error };
    let mut texts = IndexedValues::with_capacity(raw.len() + values * USUAL_VALUE_BYTES, USUAL_LABELS, values);
    let mut is_sorted = true;
    each_label(raw, |key, value| {
        // Go writes maps in order, so this is how all labels of an API server come.
        is_sorted &= texts.last_label_key().is_none_or(|before| before < &*key);
        if is_sorted {
            texts.push_label(&key, &value);
        }
    })
    .map_err(misplaced)?;
    if !is_sorted {
        let mut labels = BTreeMap::new();
        each_label(raw, |key, value| {
            labels.insert(key, value);
        })
        .map_err(misplaced)?;
        texts = IndexedValues::new(labels.iter().map(|(key, value)| (&**key, &**value)), []);
    }
    Ok(texts)
}

/// Calls `visit` with each label of a raw `metadata.labels` object.
fn each_label<'b>(raw: &'b [u8], mut visit: impl FnMut(Cow<'b, str>, Cow<'b, str>)) -> Result<(), SyntaxError> {
    each_member(raw, |member| {
        let key = unescape(member.key);
        let key = key.ok_or(SyntaxError { offset: member.whole.start, expected: "a key" })?;
        visit(key, text_at(raw, member.value)?);
        Ok(())
    })
}

/// A member of an object.
struct Member<'b> {
    /// The bytes between the quotes.
    key: &'b [u8],
    /// Key, colon and value.
    whole: Span,
    value: Span,
}

/// Calls `visit` for each member of an object; for none if the bytes are any other value.
fn each_member<'b>(
    raw: &'b [u8],
    mut visit: impl FnMut(Member<'b>) -> Result<(), SyntaxError>,
) -> Result<(), SyntaxError> {
    if raw.first() != Some(&b'{') {
        return Ok(());
    }
    let mut cursor = Cursor::new(raw);
    cursor.advance();
    let mut is_first = true;
    while !cursor.skip_closing(b'}') {
        if !is_first {
            cursor.expect(b',', "a comma or the end of an object")?;
            cursor.space();
        }
        is_first = false;
        let start = cursor.position();
        let key = cursor.string("a key")?.raw;
        cursor.space();
        cursor.expect(b':', "a colon")?;
        cursor.space();
        let value_start = cursor.position();
        // One container is open: this object.
        cursor.skip_value(1)?;
        let end = cursor.position();
        visit(Member { key, whole: Span { start, end }, value: Span { start: value_start, end } })?;
    }
    Ok(())
}

/// The position of the comma after kind and apiVersion, if the object begins with exactly these two, in Go's order and
/// without white space: as in every event of a watch. Then one copy removes both. `None` for any other object.
fn leading_type_meta(bytes: &[u8], found: &FoundSpans, kind: Span, api_version: Span) -> Option<usize> {
    const KIND: &[u8] = b"{\"kind\":";
    const API_VERSION: &[u8] = b",\"apiVersion\":";
    let start = found.object.start;
    let is_usual = kind.start == start + KIND.len()
        && api_version.start == kind.end + API_VERSION.len()
        && bytes[start..].starts_with(KIND)
        && bytes[kind.end..].starts_with(API_VERSION)
        && bytes.get(api_version.end) == Some(&b',');
    is_usual.then_some(api_version.end)
}

/// Copies an object without its kind and apiVersion, wherever and however often they occur.
fn without_type_meta(object: &[u8]) -> Result<Vec<u8>, SyntaxError> {
    let mut shorter = Vec::with_capacity(object.len());
    shorter.push(b'{');
    each_member(object, |member| {
        if !matches!(unescape(member.key).as_deref(), Some("kind" | "apiVersion")) {
            if shorter.len() > 1 {
                shorter.push(b',');
            }
            shorter.extend_from_slice(member.whole.slice(object));
        }
        Ok(())
    })?;
    shorter.push(b'}');
    Ok(shorter)
}
