//! Responses in Kubernetes protobuf, made of the JSON that would be sent instead.
//!
//! Objects of built-in kinds are encoded with the messages of the source's minor version; of custom resources the
//! metadata has a message. A source can be newer than this server's message definitions, or an object may not fit its
//! message. Then JSON is sent with a warning, or 406 to a client that takes nothing else. No field is ever left out.
//! Documents of our own, such as Status, have fixed fields.
//!
//! Objects that a response does not show have no influence on its format. A watch that meets an object without a protobuf form ends with an
//! error, and the object is noted. A client that comes again is sent JSON if its watch shows such an object.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Response;
use serde_json::Value;
use tokio::time::Instant;

use crate::flow_control::long_work::wait_to_read;
use crate::protobuf::envelope::{END, List, ListFields, ProtobufEnvelope, begin_event};
use crate::protobuf::table::{NEWEST, OLDEST};
use crate::protobuf::{Encoder, FieldKind, MessageTable, Unencodable};
use crate::query::Selection;
use crate::query::work::yield_to_others;
use crate::registry::{Catalog, Resource, ResourceOrigin};
use crate::store::{Object, Snapshot};

use super::encode::{CHUNK, ListMeta, Shown, json_bytes};
use super::negotiate::{Messages, Protobuf, Representation};
use super::warnings;

/// The warning for clients that would have had protobuf of kube-apiserver.
const WARNING: &str =
    "not sent as application/vnd.kubernetes.protobuf: fieldcache does not know every field of the response";

/// How often it is logged that an object has no protobuf form.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// The number of characters of a name or a cause that are logged.
const LONGEST_LOGGED: usize = 512;

/// The messages of the source's version.
pub(crate) fn table(catalog: &Catalog) -> Option<&'static MessageTable> {
    u32::try_from(catalog.version.minor()).ok().and_then(|minor| MessageTable::for_minor(minor).ok())
}

/// What writing a list holds between two pieces. That is a slot for each value of the last object, its texts, its JSON,
/// and fields that neighbours share, which have two chunks. In bytes.
pub(crate) const MOST_HELD: u64 = 6 * CHUNK as u64;

/// Adds a header that says why a client does not get protobuf, which kube-apiserver would have sent.
pub(crate) fn add_missed_header<B>(resource: &Resource, response: &mut Response<B>) {
    resource.state.count_missed_protobuf();
    warnings::add(response.headers_mut(), [WARNING]);
}

/// The protobuf forms of a resource.
pub(crate) fn offered(catalog: &Catalog, resource: &Resource) -> Protobuf {
    let is_custom = resource.origin == ResourceOrigin::Custom;
    let upstream = if is_custom { Messages::Metadata } else { Messages::Everything };
    let here = match table(catalog) {
        None => Messages::None,
        Some(_) if is_custom => Messages::Metadata,
        Some(table) => match table.kind(&resource.gvr.api_version(), &resource.kind) {
            Some(_) => Messages::Everything,
            // Of an aggregated API server, which may have messages that are not known here.
            None => Messages::Metadata,
        },
    };
    Protobuf { here, upstream }
}

/// How objects of one resource are written in one form.
#[derive(Clone)]
pub(crate) struct Objects {
    table: &'static MessageTable,
    kind: FieldKind<'static>,
    api_version: String,
    name: String,
    list_name: String,
    fields: ListFields,
    /// The number of the version's messages and of the form, from 1 on: see [`Object::note_length`].
    note: u8,
}

impl Objects {
    /// The messages for a form; `None` where the form has none.
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
            Representation::Table(_) | Representation::AggregatedDiscovery => None,
        }
    }

    /// The length of an item in a list.
    pub(crate) fn item_length(&self, encoder: &mut Encoder, json: &[u8]) -> Result<usize, Unencodable> {
        Ok(List::item_length(encoder.read(self.kind, json)?.length()))
    }

    /// The length of an item, if it was noted at the object. The number of the note names all that the length depends
    /// on.
    pub(crate) fn noted_item_length(&self, object: &Object) -> Option<usize> {
        object.noted_length(self.note)
    }

    /// Notes the length of an item at the object.
    pub(crate) fn note_item_length(&self, object: &Object, length: usize) {
        object.note_length(self.note, length);
    }

    /// Appends an item of a list.
    pub(crate) fn write_item(&self, encoder: &mut Encoder, json: &[u8], out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let message = encoder.read(self.kind, json)?;
        self.list(&[]).begin_item(message.length(), out);
        message.write(out);
        Ok(())
    }

    /// What precedes the items of this total length, and what follows them.
    pub(crate) fn around(
        &self,
        encoder: &mut Encoder,
        meta: &ListMeta,
        items: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), Unencodable> {
        let mut json = Vec::new();
        meta.write_typed(&mut json);
        let mut metadata = Vec::new();
        if let Some(kind) = self.table.list_meta() {
            encoder.read(kind, &json)?.write(&mut metadata);
        }
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        let list = self.list(&metadata);
        list.begin(items, &mut head);
        list.end(&mut tail);
        Ok((head, tail))
    }

    fn list<'l>(&'l self, metadata: &'l [u8]) -> List<'l> {
        let envelope = ProtobufEnvelope { api_version: &self.api_version, kind: &self.list_name };
        List { envelope, metadata, fields: self.fields }
    }

    fn envelope(&self) -> ProtobufEnvelope<'_> {
        ProtobufEnvelope { api_version: &self.api_version, kind: &self.name }
    }

    /// A single object in protobuf.
    pub(crate) fn single(&self, json: &[u8]) -> Result<Vec<u8>, Unencodable> {
        let mut encoder = Encoder::default();
        let message = encoder.read(self.kind, json)?;
        let mut out = Vec::with_capacity(self.envelope().length(message.length()));
        self.envelope().begin(message.length(), &mut out);
        message.write(&mut out);
        out.extend_from_slice(&END);
        Ok(out)
    }

    /// Appends the frame of an event.
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

/// Logs that an object has no protobuf form, once a second at most: each response that shows such an object finds that out. Its author
/// chooses how long its texts are.
pub(crate) fn log(resource: &Resource, key: &str, error: &Unencodable) {
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

/// A single object in protobuf; `None` when it has no protobuf form.
pub(crate) fn single(
    catalog: &Catalog,
    resource: &Resource,
    form: &Representation,
    object: &Object,
    json: &[u8],
) -> Option<Vec<u8>> {
    let objects = Objects::for_format(catalog, resource, form)?;
    objects.single(json).inspect_err(|error| log(resource, object.key(), error)).ok()
}

/// Bytes of objects, as JSON, that are encoded between two turns.
const BYTES_OF_A_TURN: usize = 64 << 10;

/// Whether a watch of this selection would meet an object that another watch could not send in protobuf. The object
/// must still have no protobuf form as it is shown here. Other work takes its turns in between: each of these objects
/// can have megabytes.
pub(crate) async fn meets_unencodable(
    resource: &Resource,
    snapshot: &Snapshot,
    selection: &Selection,
    objects: &Objects,
) -> bool {
    let noted = resource.state.unencodable();
    let (mut encoder, mut json, mut read) = (Encoder::default(), Vec::new(), 0);
    for key in &noted {
        let Some(object) = snapshot.get(key) else {
            resource.state.forget_unencodable(key);
            continue;
        };
        let Some(object) = Some(object).filter(|object| selection.matches(object)).cloned() else { continue };
        wait_to_read(object.length()).await;
        read += object.length();
        let Some(object) = resource.show(object) else { continue };
        json.clear();
        Shown::as_is(&object).write_item(&mut json);
        if objects.item_length(&mut encoder, &json).is_err() {
            return true;
        }
        // A View can leave out what has no protobuf form, and so does metadata.
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

/// A document of ours, whose fields exist in every version.
pub(crate) fn document(api_version: &str, kind: &str, json: &[u8]) -> Option<Vec<u8>> {
    let message = MessageTable::for_minor(NEWEST).ok()?.kind(api_version, kind)?;
    enclosed(message, &ProtobufEnvelope { api_version, kind }, json)
}

/// A document of discovery. The oldest ones have a kind and no version, in protobuf too.
pub(crate) fn discovery(document: &Value) -> Option<Vec<u8>> {
    let text = |name: &str| document[name].as_str().unwrap_or_default();
    let message = MessageTable::for_minor(NEWEST).ok()?.kind("v1", text("kind"))?;
    let envelope = ProtobufEnvelope { api_version: text("apiVersion"), kind: text("kind") };
    enclosed(message, &envelope, &json_bytes(document))
}

/// An object in the protobuf envelope.
fn enclosed(kind: FieldKind<'_>, envelope: &ProtobufEnvelope<'_>, json: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = Encoder::default();
    let message = encoder.read(kind, json).ok()?;
    let mut out = Vec::with_capacity(envelope.length(message.length()));
    envelope.begin(message.length(), &mut out);
    message.write(&mut out);
    out.extend_from_slice(&END);
    Some(out)
}

/// The frame of an ERROR event.
pub(crate) fn error_event(status: &[u8]) -> Option<Vec<u8>> {
    let object = document("v1", "Status", status)?;
    let mut out = Vec::new();
    begin_event("ERROR", object.len(), &mut out);
    out.extend_from_slice(&object);
    Some(out)
}
