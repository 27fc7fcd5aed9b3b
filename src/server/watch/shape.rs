//! Encodes the events, bookmarks and errors of a watch in the negotiated form.
//!
//! The parent module decides which event is sent, and when. An event is a line of JSON or a frame of protobuf. It is
//! encoded once for all watches of the same form (`registry::event_dispatcher`): whole objects, PartialObjectMetadata
//! or Table rows, in JSON or protobuf.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::model::Version;
use crate::protobuf::{Encoder, Unencodable};
use crate::registry::dispatched_event::{DispatchedEvent, LINES, LineForm};
use crate::registry::fieldcache_protocol::LAG_ANNOTATION;
use crate::registry::{Resource, ResourceOrigin};
use crate::store::{Change, Object};
use crate::subscribe::Transition;

use super::super::clock::Clock;
use super::super::context::RequestContext;
use super::super::list;
use super::super::state::ServerState;
use super::batch::exact;
use crate::builtin;
use crate::flow_control::limit::Limited;
use crate::flow_control::long_work::ObjectWork;
use crate::flow_control::user::User;
use crate::flow_control::watches::Watches;
use crate::wire::api_error::ApiError;
use crate::wire::encode::{Shown, write_string, write_type};
use crate::wire::negotiate::Representation;
use crate::wire::protobuf;
use crate::wire::table::{Columns, Include, MOST_IN_EVENT, TooLongRow};

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchEventType {
    Added,
    Modified,
    Deleted,
}

impl WatchEventType {
    /// All types. Their number is the distance between the numbers of two forms in [`EventEncoder::routed_event`].
    pub(super) const ALL: [WatchEventType; 3] =
        [WatchEventType::Added, WatchEventType::Modified, WatchEventType::Deleted];

    /// The type of the event for a transition, and its object. `at` is the version of the change, which the object of a
    /// DELETED event shows.
    pub(super) fn from_transition(transition: &Transition, at: Version) -> (WatchEventType, Shown<'_>) {
        match transition {
            Transition::Added(object) => (WatchEventType::Added, Shown::as_is(object)),
            Transition::Modified(object) => (WatchEventType::Modified, Shown::as_is(object)),
            Transition::Deleted(object) => (WatchEventType::Deleted, Shown { object, version: at }),
        }
    }

    /// The type as events write it.
    fn as_str(self) -> &'static str {
        match self {
            WatchEventType::Added => "ADDED",
            WatchEventType::Modified => "MODIFIED",
            WatchEventType::Deleted => "DELETED",
        }
    }
}

/// The content of a bookmark.
pub(super) struct Mark {
    /// The resourceVersion.
    pub(super) at: Version,
    /// Whether the bookmark is the one after the initial events.
    pub(super) ends_initial_events: bool,
    /// For another fieldcache: the time since the last progress of the store.
    pub(super) lag: Option<Duration>,
}

impl Mark {
    /// Whether the bookmark has nothing but its version.
    fn is_bare(&self) -> bool {
        !self.ends_initial_events && self.lag.is_none()
    }

    /// Writes the member `annotations` of a bookmark, with a comma at the end; nothing if there are no annotations.
    fn write_annotations(&self, resource: &Resource, out: &mut Vec<u8>) {
        // kube-apiserver's conversion of a DaemonSet to apps/v1 adds an annotation, even to the empty object of a
        // bookmark.
        let is_daemon_set = resource.origin == ResourceOrigin::BuiltIn && resource.kind == "DaemonSet";
        let generation = is_daemon_set.then(|| ("deprecated.daemonset.template.generation", "0".to_owned()));
        let end = self.ends_initial_events.then(|| ("k8s.io/initial-events-end", "true".to_owned()));
        let lag = self.lag.map(|lag| (LAG_ANNOTATION, lag.as_millis().to_string()));
        let mut opening = "\"annotations\":{";
        // Annotations are in the order of their names, as Go writes a map.
        for (name, value) in generation.into_iter().chain(lag).chain(end) {
            out.extend_from_slice(std::mem::replace(&mut opening, ",").as_bytes());
            write_string(name, out);
            out.push(b':');
            write_string(&value, out);
        }
        if opening == "," {
            out.extend_from_slice(b"},");
        }
    }
}

/// The number of JSON forms that are not Table rows: whole objects, and PartialObjectMetadata of two versions. The
/// forms of protobuf frames are numbered after them.
const FORMS: usize = 3;

/// Encodes the events of a watch.
pub(super) struct EventEncoder {
    form: ShapeForm,
    /// Whether no event has been sent yet: only the first one has the column definitions of a Table.
    is_first: bool,
    /// The current time, from which the ages in Table rows are computed for each event.
    clock: Clock,
    /// Encodes frames of protobuf; `None` for lines of JSON.
    encoded: Option<Box<protobuf::Objects>>,
    /// Whether the watch is quiet: it sends no event for a change that does not alter what is shown of the object.
    is_quiet: bool,
}

/// The form of the objects in events.
enum ShapeForm {
    /// The objects as the View shows them.
    Whole,
    /// PartialObjectMetadata of this version of meta.k8s.io.
    Partial(String),
    /// Tables of one row, with these columns.
    Table(Arc<Columns>),
}

impl EventEncoder {
    /// An encoder for a watch, in the representation `form` that was negotiated. `encoded` encodes protobuf; `None` for
    /// JSON. `is_quiet`: changes that do not alter what is shown send no event.
    ///
    /// # Errors
    /// 406 for a representation that only lists have, 400 for an invalid `includeObject`.
    pub(super) fn new(
        server: &ServerState,
        context: &RequestContext<'_>,
        resource: &Resource,
        form: Representation,
        encoded: Option<protobuf::Objects>,
        is_quiet: bool,
    ) -> Result<EventEncoder, ApiError> {
        let include = Include::read(&context.info.query, &form)?;
        let form = match form {
            Representation::Whole | Representation::AggregatedDiscovery | Representation::Facets => ShapeForm::Whole,
            Representation::Partial(version) => ShapeForm::Partial(version),
            Representation::PartialList(_) => {
                return Err(ApiError::NotAcceptable(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                    list::go_type(resource, &resource.kind)
                )));
            }
            Representation::Table(version) => ShapeForm::Table(server.columns.get(resource, &version, include)),
        };
        let encoded = encoded.map(Box::new);
        Ok(EventEncoder { form, is_first: true, clock: server.settings.clock.clone(), encoded, is_quiet })
    }

    /// The encoder for frames of protobuf, if the watch sends them.
    pub(super) fn encoded(&self) -> Option<&protobuf::Objects> {
        self.encoded.as_deref()
    }

    /// Whether an event is more work than a copy of the object. A Table row must be computed, and a quiet watch
    /// compares the object before and after the change.
    pub(super) fn is_work(&self) -> bool {
        self.is_table() || self.is_quiet
    }

    /// Whether the events are Table rows. Each is made from a whole object, which is as much work as a list.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.form, ShapeForm::Table(_))
    }

    /// Counts the memory of the columns of a Table for the user, if it is not counted yet.
    ///
    /// # Errors
    /// 429 when the user's watches hold as much memory as they may.
    pub(super) fn count(&self, watches: &Watches, user: &User) -> Result<(), Limited> {
        match &self.form {
            ShapeForm::Table(columns) => columns.charge(watches, user),
            ShapeForm::Whole | ShapeForm::Partial(_) => Ok(()),
        }
    }

    /// The number of this form, under which watches of the same form share lines. Table rows have numbers of their own,
    /// which can be equal to the numbers of other forms.
    fn number(&self) -> usize {
        let json_number = match &self.form {
            ShapeForm::Whole => 0,
            ShapeForm::Partial(version) => 1 + usize::from(version != "v1"),
            ShapeForm::Table(columns) => columns.form_number(),
        };
        json_number + if self.encoded.is_some() { FORMS } else { 0 }
    }

    /// The line or frame of the event for a change from the mailbox. It is empty if the object cannot be shown, or if a
    /// quiet watch sees no difference. It is created once for all watches of this form that show the same part of the
    /// object. Rows are shared only within a second, because they show ages. The first event of a Table is a copy with
    /// the column definitions.
    ///
    /// # Errors
    /// A row that is too long, or 410 for an object that has no protobuf form.
    pub(super) fn routed_event(
        &mut self,
        resource: &Resource,
        routed: &DispatchedEvent,
        transition: &Transition,
    ) -> Result<Bytes, ApiError> {
        let at = routed.change.version;
        let (kind, shown) = WatchEventType::from_transition(transition, at);
        let number = self.number() * WatchEventType::ALL.len() + kind as usize;
        let columns = match &self.form {
            ShapeForm::Table(columns) => Some(columns.clone()),
            ShapeForm::Whole | ShapeForm::Partial(_) => None,
        };
        // The usual case: the line depends only on its number.
        if columns.is_none() && resource.is_shown_whole() && !self.is_quiet {
            let mut written = Ok(());
            let line = routed.line(number, || {
                let mut line = Vec::with_capacity(shown.object.length() + 256);
                written = self.write_event(resource, kind, shown, &mut line);
                Bytes::from(line)
            });
            // The line is empty because another watch has failed to create it, so this watch fails too.
            if line.is_empty() && written.is_ok() {
                written = Err(not_sent(resource, shown));
            }
            return written.map(|()| line);
        }
        // Otherwise the line depends also on what the View prunes, on whether the watch is quiet, and on the time.
        let now = (self.clock)();
        let form = LineForm {
            // Rows are numbered after all lines.
            number: number + if columns.is_some() { LINES } else { 0 },
            prune: resource.prune().cloned(),
            is_quiet: self.is_quiet,
            second: columns.is_some().then(|| now.as_second()),
        };
        let line = routed.made(&form, || {
            if self.is_silent(resource, transition, &routed.change) {
                return Some(Bytes::new());
            }
            let Some(transition) = transition.clone().map(|object| resource.show(object)) else {
                return Some(Bytes::new());
            };
            let (kind, shown) = WatchEventType::from_transition(&transition, at);
            let mut line = Vec::new();
            match &columns {
                Some(columns) => {
                    open_row(kind, columns, shown.version, false, &mut line);
                    columns.write_only_row(shown, now, &mut line).ok()?;
                    line.extend_from_slice(b"}\n");
                }
                None => self.write_event(resource, kind, shown, &mut line).ok()?,
            }
            Some(exact(line))
        });
        // Only two forms can fail: protobuf for this object, and a row by its length.
        let line = line.ok_or_else(|| match &self.encoded {
            Some(_) => not_sent(resource, shown),
            None => too_long_row(resource, shown),
        })?;
        let is_first = !line.is_empty() && std::mem::take(&mut self.is_first);
        let Some(columns) = columns.filter(|_| is_first) else { return Ok(line) };
        // In a copy of the line, a beginning with column definitions replaces the beginning without them.
        let mut first = Vec::new();
        open_row(kind, &columns, shown.version, false, &mut first);
        let opened = first.len();
        first.clear();
        open_row(kind, &columns, shown.version, true, &mut first);
        first.extend_from_slice(line.get(opened..).unwrap_or_default());
        Ok(exact(first))
    }

    /// The work of writing a change, as the number of bytes that could be read in the same time. The object after the
    /// change is read, or the object before a deletion. A quiet watch reads both.
    pub(super) fn bytes_to_read(&self, change: &Change) -> usize {
        let [before, after] = [&change.before, &change.after].map(|object| object.as_ref().map_or(0, Object::length));
        let read = if after == 0 || self.is_quiet { before + after } else { after };
        self.work().bytes(read)
    }

    /// The work of writing an event, as a function of the length of its object.
    pub(super) fn work(&self) -> ObjectWork {
        match &self.form {
            ShapeForm::Table(columns) => columns.work(),
            ShapeForm::Whole | ShapeForm::Partial(_) => ObjectWork::Times(1),
        }
    }

    /// Whether the watch is quiet and sends no event for a change. This is the case if what it shows of the object
    /// before and after the change differs only in the version. `transition` is the change as the selection sees it.
    pub(super) fn is_silent(&mut self, resource: &Resource, transition: &Transition, change: &Change) -> bool {
        let (true, Transition::Modified(after), Some(before)) = (self.is_quiet, transition, &change.before) else {
            return false;
        };
        // Both objects are written as events without column definitions and with the same version, and compared. The
        // first event that is sent still needs the definitions, so `is_first` is restored.
        let is_first = std::mem::take(&mut self.is_first);
        let mut written = |object: &Object| {
            let shown = resource.show(object.clone())?;
            let mut line = Vec::new();
            let shown = Shown { object: &shown, version: change.version };
            self.write_event(resource, WatchEventType::Modified, shown, &mut line).ok().map(|()| line)
        };
        let before = written(before);
        let is_same = before.is_some() && before == written(after);
        self.is_first = is_first;
        is_same
    }

    /// Writes an event of the type `kind` with the object `shown`.
    ///
    /// # Errors
    /// A row that is too long, or 410 for an object that has no protobuf form. Nothing is written then.
    pub(super) fn write_event(
        &mut self,
        resource: &Resource,
        kind: WatchEventType,
        shown: Shown<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        if let Some(encoded) = &self.encoded {
            let mut json = Vec::with_capacity(shown.object.length() + 256);
            shown.write_item(&mut json);
            let written = encoded.write_event(&mut Encoder::default(), kind.as_str(), &json, out);
            return written.map_err(|error| unencodable(resource, shown, &error));
        }
        let start = out.len();
        open_event(kind.as_str(), out);
        let is_first = std::mem::take(&mut self.is_first);
        match &self.form {
            ShapeForm::Whole => shown.write_single(resource, out),
            ShapeForm::Partial(version) => shown.write_partial(&format!("meta.k8s.io/{version}"), out),
            ShapeForm::Table(columns) => {
                if let Err(TooLongRow) = columns.write_single(shown, (self.clock)(), is_first, out) {
                    out.truncate(start);
                    return Err(too_long_row(resource, shown));
                }
            }
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    /// Writes a bookmark: an event with an empty object, which has only a version and the annotations of `mark`.
    ///
    /// # Errors
    /// 500 if the bookmark has no protobuf form.
    pub(super) fn write_bookmark(
        &mut self,
        resource: &Resource,
        mark: &Mark,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        let start = out.len();
        open_event("BOOKMARK", out);
        let is_first = std::mem::take(&mut self.is_first);
        let at = mark.at.to_string();
        let own_version = resource.gvr.api_version();
        let mut object = Vec::new();
        match &self.form {
            // The members of custom objects are in alphabetical order, and the members of built-in kinds in the order
            // of the Go type.
            ShapeForm::Whole if resource.origin == ResourceOrigin::Custom => {
                object.extend_from_slice(b"{\"apiVersion\":");
                write_string(&own_version, &mut object);
                object.extend_from_slice(b",\"kind\":");
                write_string(&resource.kind, &mut object);
            }
            ShapeForm::Whole => write_type(&resource.kind, &own_version, &mut object),
            ShapeForm::Table(columns) if columns.include() == Include::Object => {
                write_type(&resource.kind, &own_version, &mut object);
            }
            ShapeForm::Table(columns) => write_type("PartialObjectMetadata", &columns.api_version(), &mut object),
            ShapeForm::Partial(version) => {
                write_type("PartialObjectMetadata", &format!("meta.k8s.io/{version}"), &mut object);
            }
        }
        object.extend_from_slice(b",\"metadata\":{");
        mark.write_annotations(resource, &mut object);
        object.extend_from_slice(b"\"resourceVersion\":");
        write_string(&at, &mut object);
        object.push(b'}');
        let is_whole = match &self.form {
            ShapeForm::Whole => true,
            ShapeForm::Partial(_) => false,
            ShapeForm::Table(columns) => columns.include() == Include::Object,
        };
        let bare = object.len();
        // kube-apiserver encodes an empty object of the kind's Go type, and writes some of its fields although they are
        // empty.
        if is_whole && resource.origin == ResourceOrigin::BuiltIn {
            let members = builtin::zero_values(&resource.gvr.group, &resource.gvr.version, &resource.kind);
            if !members.is_empty() {
                object.push(b',');
                object.extend_from_slice(members.as_bytes());
            }
        }
        object.push(b'}');
        match &self.form {
            ShapeForm::Table(columns) => {
                // Without annotations, the object would have only the version, which the metadata of the Table has too.
                // So with `includeObject=None` the object is null.
                let is_empty = columns.include() == Include::None && mark.is_bare();
                let object: &[u8] = if is_empty { b"null" } else { &object };
                columns.write_bookmark(mark.at, object, (self.clock)(), is_first, out);
            }
            ShapeForm::Whole | ShapeForm::Partial(_) => out.extend_from_slice(&object),
        }
        if let Some(encoded) = &self.encoded {
            // A frame of protobuf replaces the JSON that was written above.
            out.truncate(start);
            let mut written = encoded.write_event(&mut Encoder::default(), "BOOKMARK", &object, out);
            if written.is_err() {
                // The protobuf schema lacks some of these members. They are left out, because a client reads only the
                // metadata of a bookmark.
                object.truncate(bare);
                object.push(b'}');
                written = encoded.write_event(&mut Encoder::default(), "BOOKMARK", &object, out);
            }
            return written.map_err(|error| {
                protobuf::log_unencodable(resource, "", &error);
                ApiError::Internal(format!("a bookmark cannot be sent in protobuf: {error}"))
            });
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    /// Writes an ERROR event with the Status of `failure`. The caller must end the watch after it.
    pub(super) fn write_error(&self, failure: &ApiError, out: &mut Vec<u8>) {
        let status = failure.status();
        if self.encoded.is_some() {
            return out.extend_from_slice(&protobuf::error_event(&status).unwrap_or_default());
        }
        open_event("ERROR", out);
        out.extend_from_slice(&status);
        out.extend_from_slice(b"}\n");
    }
}

/// Logs that an object has no protobuf form, and returns the error that ends the watch. The client repeats the request,
/// and gets JSON if it still sees the object.
fn unencodable(resource: &Resource, shown: Shown<'_>, error: &Unencodable) -> ApiError {
    protobuf::log_unencodable(resource, shown.object.key(), error);
    not_sent(resource, shown)
}

/// The error that ends a watch because an object has no protobuf form. Records the object, so that later watches that
/// would send it use JSON.
fn not_sent(resource: &Resource, shown: Shown<'_>) -> ApiError {
    resource.state.note_unencodable(shown.object.key());
    let message = format!("too old resource version: the object {} cannot be sent in protobuf", shown.object.key());
    ApiError::Expired { message, continue_token: None }
}

/// The error for a Table row that is longer than [`MOST_IN_EVENT`].
fn too_long_row(resource: &Resource, shown: Shown<'_>) -> ApiError {
    ApiError::TooLongRow { gvr: resource.gvr.clone(), key: shown.object.key().to_owned(), most: MOST_IN_EVENT as u64 }
}

/// Writes the beginning of an event that is a Table of one row, up to its row. `with_definitions`: with the column
/// definitions, as in the first event of a watch.
fn open_row(kind: WatchEventType, columns: &Columns, version: Version, with_definitions: bool, out: &mut Vec<u8>) {
    open_event(kind.as_str(), out);
    columns.open_single(version, with_definitions, out);
}

/// Writes the beginning of an event, up to its object. `kind` is the type, such as ADDED.
fn open_event(kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
}
