//! Responses in Kubernetes protobuf, encoded from the JSON that would be sent instead.
//!
//! Objects of built-in kinds are encoded with the messages of the source's minor version. Of custom resources, only
//! the metadata has a message. The source can be newer than the message definitions of this server, or an object may
//! not fit its message. Then the response is JSON with a warning, or 406 for a client that accepts only protobuf. No
//! field is ever omitted. Documents of fieldcache itself, such as Status, have fixed fields.
//!
//! Objects that a response does not show have no influence on its format. A watch that must send an object that
//! cannot be encoded ends with an error, and the key of the object is stored. The next watch that shows this object
//! is sent as JSON.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Response;
use serde_json::Value;
use tokio::time::Instant;

use crate::flow_control::long_work::{may_read, wait_to_read};
use crate::protobuf::envelope::{END, List, ListFields, ProtobufEnvelope, begin_event};
use crate::protobuf::table::{NEWEST, OLDEST};
use crate::protobuf::{Encoder, FieldKind, MessageTable, Unencodable};
use crate::query::work::yield_to_others;
use crate::query::{CompactSelection, Selection, Work};
use crate::registry::{Catalog, Resource, ResourceOrigin};
use crate::store::{Object, Snapshot};

use super::encode::{CHUNK, ListMeta, Shown, json_bytes};
use super::negotiate::{Messages, Protobuf, Representation};
use super::warnings;

/// The warning for clients to which kube-apiserver would have sent protobuf.
const WARNING: &str = "the response is not sent as application/vnd.kubernetes.protobuf, because fieldcache does not know all of its fields";

/// The interval between log lines about objects that cannot be encoded.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// The maximum number of characters of a key or an error in a log line.
const LONGEST_LOGGED: usize = 512;

/// The protobuf messages of the source's Kubernetes version; `None` if this server does not have them.
pub(crate) fn table(catalog: &Catalog) -> Option<&'static MessageTable> {
    u32::try_from(catalog.version.minor()).ok().and_then(|minor| MessageTable::for_minor(minor).ok())
}

/// The most memory that writing a list holds between two pieces, in bytes. It consists of a slot for each value of
/// the last object, its strings, its JSON, and fields that consecutive objects share, which take two chunks.
pub(crate) const MOST_HELD: u64 = 6 * CHUNK as u64;

/// Counts a response that kube-apiserver would have sent as protobuf, and adds a Warning header that says why it is
/// not.
pub(crate) fn add_missed_header<B>(resource: &Resource, response: &mut Response<B>) {
    resource.state.count_missed_protobuf();
    warnings::add(response.headers_mut(), [WARNING]);
}

/// Which representations of a resource fieldcache and kube-apiserver can send in protobuf.
pub(crate) fn offered(catalog: &Catalog, resource: &Resource) -> Protobuf {
    let is_custom = resource.origin == ResourceOrigin::Custom;
    let upstream = if is_custom { Messages::Metadata } else { Messages::Everything };
    let here = match table(catalog) {
        None => Messages::None,
        Some(_) if is_custom => Messages::Metadata,
        Some(table) => match table.kind(&resource.gvr.api_version(), &resource.kind) {
            Some(_) => Messages::Everything,
            // A resource of an aggregated API server, which may have messages that are not known here.
            None => Messages::Metadata,
        },
    };
    Protobuf { here, upstream }
}

/// Encodes objects of one resource, in one representation.
#[derive(Clone)]
pub(crate) struct Objects {
    table: &'static MessageTable,
    /// The message of one object.
    kind: FieldKind<'static>,
    /// The apiVersion in envelopes of objects and lists.
    api_version: String,
    /// The kind in the envelope of an object.
    name: String,
    /// The kind in the envelope of a list.
    list_name: String,
    fields: ListFields,
    /// The number of the message version and the representation, from 1 on: see [`Object::note_length`].
    note: u8,
}

impl Objects {
    /// The encoder for a representation; `None` if it has no message, or this server does not have the messages of the
    /// source's version.
    pub(crate) fn for_format(catalog: &Catalog, resource: &Resource, form: &Representation) -> Option<Objects> {
        let table = table(catalog)?;
        let note = |is_partial: bool| {
            let minor = u32::try_from(catalog.version.minor()).ok()?.checked_sub(OLDEST)?;
            u8::try_from(2 * minor + u32::from(is_partial) + 1).ok()
        };
        match form {
            Representation::Whole => {
                let api_version = resource.gvr.api_version();
                let kind = table.kind(&api_version, &resource.kind)?;
                let (name, list_name) = (resource.kind.clone(), resource.list_kind.clone());
                Some(Objects {
                    table,
                    kind,
                    api_version,
                    name,
                    list_name,
                    fields: ListFields::USUAL,
                    note: note(false)?,
                })
            }
            Representation::Partial(version) | Representation::PartialList(version) => Some(Objects {
                table,
                kind: table.partial()?,
                api_version: format!("meta.k8s.io/{version}"),
                name: "PartialObjectMetadata".to_owned(),
                list_name: "PartialObjectMetadataList".to_owned(),
                fields: if version == "v1beta1" { ListFields::PARTIAL_V1BETA1 } else { ListFields::USUAL },
                note: note(true)?,
            }),
            Representation::Table(_) | Representation::AggregatedDiscovery | Representation::Facets => None,
        }
    }

    /// The encoded length of an object as an item of a list, in bytes.
    ///
    /// # Errors
    /// The object does not fit its message.
    pub(crate) fn item_length(&self, encoder: &mut Encoder, json: &[u8]) -> Result<usize, Unencodable> {
        Ok(List::item_length(encoder.read(self.kind, json)?.length()))
    }

    /// The encoded length of an object as an item of a list, if [`Objects::note_item_length`] stored it before.
    /// `note` identifies everything that the length depends on, besides the object.
    pub(crate) fn noted_item_length(&self, object: &Object) -> Option<usize> {
        object.noted_length(self.note)
    }

    /// Stores the encoded length of an item with the object.
    pub(crate) fn note_item_length(&self, object: &Object, length: usize) {
        object.note_length(self.note, length);
    }

    /// Appends an object as an item of a list. `json`: the object.
    ///
    /// # Errors
    /// The object does not fit its message.
    pub(crate) fn write_item(&self, encoder: &mut Encoder, json: &[u8], out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let message = encoder.read(self.kind, json)?;
        self.list(&[]).begin_item(message.length(), out);
        message.write(out);
        Ok(())
    }

    /// The bytes of a list before and after its items. `items`: the total encoded length of the items.
    ///
    /// # Errors
    /// The metadata of the list does not fit its message.
    pub(crate) fn list_envelope(
        &self,
        encoder: &mut Encoder,
        meta: &ListMeta,
        items: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), Unencodable> {
        let mut json = Vec::new();
        meta.write_typed(&mut json);
        let mut metadata = Vec::new();
        // Only the newest versions have the field shardInfo, which clients of others skip.
        let table = match meta.shard {
            Some(_) => MessageTable::for_minor(NEWEST).unwrap_or(self.table),
            None => self.table,
        };
        if let Some(kind) = table.list_meta() {
            encoder.read(kind, &json)?.write(&mut metadata);
        }
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        let list = self.list(&metadata);
        list.begin(items, &mut head);
        list.end(&mut tail);
        Ok((head, tail))
    }

    /// The list with this encoded metadata.
    fn list<'l>(&'l self, metadata: &'l [u8]) -> List<'l> {
        let envelope = ProtobufEnvelope { api_version: &self.api_version, kind: &self.list_name };
        List { envelope, metadata, fields: self.fields }
    }

    /// The envelope of a single object.
    fn envelope(&self) -> ProtobufEnvelope<'_> {
        ProtobufEnvelope { api_version: &self.api_version, kind: &self.name }
    }

    /// Encodes a single object with its envelope.
    ///
    /// # Errors
    /// The object does not fit its message.
    pub(crate) fn single(&self, json: &[u8]) -> Result<Vec<u8>, Unencodable> {
        let mut encoder = Encoder::default();
        let message = encoder.read(self.kind, json)?;
        let mut out = Vec::with_capacity(self.envelope().length(message.length()));
        self.envelope().begin(message.length(), &mut out);
        message.write(&mut out);
        out.extend_from_slice(&END);
        Ok(out)
    }

    /// Appends the frame of a watch event. `event_type`: such as `ADDED`; `json`: the object.
    ///
    /// # Errors
    /// The object does not fit its message.
    pub(crate) fn write_event(
        &self,
        encoder: &mut Encoder,
        event_type: &str,
        json: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Unencodable> {
        let message = encoder.read(self.kind, json)?;
        begin_event(event_type, self.envelope().length(message.length()), out);
        self.envelope().begin(message.length(), out);
        message.write(out);
        out.extend_from_slice(&END);
        Ok(())
    }
}

/// Logs that an object cannot be encoded. Writes at most one line a second, because every response that shows the
/// object calls this. Shortens the key and the error, because the author of the object chooses their length. `key`:
/// namespace and name of the object; empty for a bookmark.
pub(crate) fn log_unencodable(resource: &Resource, key: &str, error: &Unencodable) {
    static LOGGED: Mutex<Option<Instant>> = Mutex::new(None);
    let now = Instant::now();
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    if logged.is_some_and(|logged| now.duration_since(logged) < LOG_EVERY) {
        return;
    }
    *logged = Some(now);
    drop(logged);
    let short = |text: &str| text.chars().take(LONGEST_LOGGED).collect::<String>();
    let (key, error) = (short(key), short(&error.to_string()));
    tracing::warn!(resource = %resource.gvr, key, error, "cannot encode an object as protobuf; responses that contain it are sent as JSON");
}

/// Encodes a single object with its envelope. `object`: the stored object, whose key is logged on failure; `json`:
/// what the response shows of it. `None` if it cannot be encoded.
pub(crate) fn single(
    catalog: &Catalog,
    resource: &Resource,
    form: &Representation,
    object: &Object,
    json: &[u8],
) -> Option<Vec<u8>> {
    let objects = Objects::for_format(catalog, resource, form)?;
    objects.single(json).inspect_err(|error| log_unencodable(resource, object.key(), error)).ok()
}

/// The bytes of objects, as JSON, that are encoded in one turn of work.
const BYTES_OF_A_TURN: usize = 64 << 10;

/// Whether a watch of this selection would show an object that cannot be encoded. Checks only objects that earlier
/// watches could not encode, in the form that this watch shows. Forgets objects that no longer exist, or can be
/// encoded whole. Each object can have megabytes, so the work is divided into turns.
pub(crate) async fn meets_unencodable(
    resource: &Resource,
    snapshot: &Snapshot,
    selection: &Selection,
    objects: &Objects,
) -> bool {
    let noted = resource.state.unencodable();
    let (mut encoder, mut json, mut read) = (Encoder::default(), Vec::new(), 0);
    let (selection, mut work) = (CompactSelection::new(selection), Work::with_reads(may_read));
    for key in &noted {
        let Some(object) = snapshot.get(key) else {
            resource.state.forget_unencodable(key);
            continue;
        };
        if !selection.test(object, &mut work).await {
            continue;
        }
        let object = object.clone();
        wait_to_read(object.length()).await;
        read += object.length();
        let Some(object) = resource.show(object) else { continue };
        json.clear();
        Shown::as_is(&object).write_item(&mut json);
        if objects.item_length(&mut encoder, &json).is_err() {
            return true;
        }
        // Only for whole objects: a View or PartialObjectMetadata can omit the part that cannot be encoded.
        if objects.name == resource.kind && resource.is_shown_whole() {
            resource.state.forget_unencodable(key);
        }
        if read >= BYTES_OF_A_TURN {
            read = 0;
            yield_to_others().await;
        }
    }
    false
}

/// Encodes a document of fieldcache, such as a Status, with its envelope. Its fields exist in every Kubernetes version.
/// `None` if the kind has no message, or the document does not fit it.
pub(crate) fn document(api_version: &str, kind: &str, json: &[u8]) -> Option<Vec<u8>> {
    let message = MessageTable::for_minor(NEWEST).ok()?.kind(api_version, kind)?;
    encode_in_envelope(message, &ProtobufEnvelope { api_version, kind }, json)
}

/// Encodes a discovery document with its envelope; `None` if it does not fit its message. The oldest documents have a
/// kind and no apiVersion, in protobuf too.
pub(crate) fn discovery(document: &Value) -> Option<Vec<u8>> {
    let text = |name: &str| document[name].as_str().unwrap_or_default();
    let message = MessageTable::for_minor(NEWEST).ok()?.kind("v1", text("kind"))?;
    let envelope = ProtobufEnvelope { api_version: text("apiVersion"), kind: text("kind") };
    encode_in_envelope(message, &envelope, &json_bytes(document))
}

/// Encodes JSON by the message `kind`, with an envelope; `None` if it does not fit the message.
fn encode_in_envelope(kind: FieldKind<'_>, envelope: &ProtobufEnvelope<'_>, json: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = Encoder::default();
    let message = encoder.read(kind, json).ok()?;
    let mut out = Vec::with_capacity(envelope.length(message.length()));
    envelope.begin(message.length(), &mut out);
    message.write(&mut out);
    out.extend_from_slice(&END);
    Some(out)
}

/// The frame of an ERROR event. `status`: the Status as JSON. `None` if it does not fit its message.
pub(crate) fn error_event(status: &[u8]) -> Option<Vec<u8>> {
    let object = document("v1", "Status", status)?;
    let mut out = Vec::new();
    begin_event("ERROR", object.len(), &mut out);
    out.extend_from_slice(&object);
    Some(out)
}
