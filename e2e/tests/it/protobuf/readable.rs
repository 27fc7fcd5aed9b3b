//! Responses in protobuf as JSON, so that they are compared like those in JSON.
//!
//! Upstream decodes them. What it would write of the same object is compared with the bytes, so that these are compared too.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::defects::{fields, written};
use super::judge::Judge;

const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Where it is reported whether upstream would write the same bytes.
const BYTES: &str = "bytes";

/// Whether a response of this media type is in protobuf.
pub(crate) fn is_protobuf(media_type: &str) -> bool {
    media_type.starts_with(MEDIA_TYPE)
}

/// The JSON of a response: of one object, or of the events of a watch, one a line.
pub(crate) fn readable(media_type: &str, body: &[u8]) -> Vec<u8> {
    if !media_type.contains(";stream=watch") {
        return object(body).to_string().into_bytes();
    }
    let (mut lines, mut rest) = (Vec::new(), body);
    while let Some(length) = rest.first_chunk().map(|length| 4 + u32::from_be_bytes(*length) as usize) {
        let (frame, behind) = rest.split_at(length.min(rest.len()));
        lines.extend_from_slice(event(frame).to_string().as_bytes());
        lines.push(b'\n');
        rest = behind;
    }
    lines
}

/// An object; what upstream cannot read is shown as it is.
pub(crate) fn object(bytes: &[u8]) -> Value {
    reported(bytes, read_object(bytes))
}

/// The event in a frame.
pub(crate) fn event(frame: &[u8]) -> Value {
    reported(frame, read_event(frame))
}

fn reported(bytes: &[u8], read: Result<Value>) -> Value {
    read.unwrap_or_else(|error| json!({ "unreadable": format!("{error:#}"), BYTES: bytes.escape_ascii().to_string() }))
}

fn read_object(bytes: &[u8]) -> Result<Value> {
    static READ: LazyLock<Mutex<HashMap<Vec<u8>, Value>>> = LazyLock::new(Mutex::default);
    let mut known = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(object) = known.get(bytes) {
        return Ok(object.clone());
    }
    let (versioned, names_none) = versioned(bytes)?;
    let (json, again) = with_judge(|judge| {
        let json = judge.decoded(&versioned)?;
        let again = judge.object(&json)?;
        Ok((json, again))
    })?;
    let mut object: Value = serde_json::from_slice(&json)?;
    object[BYTES] = if again == versioned { "as upstream writes them" } else { "otherwise" }.into();
    if names_none {
        object["apiVersion"] = Value::Null;
    }
    known.insert(bytes.to_vec(), object.clone());
    Ok(object)
}

/// The same with the version of discovery where it names none, as its oldest documents do; whether it named none.
fn versioned(bytes: &[u8]) -> Result<(Vec<u8>, bool)> {
    let (magic, unknown) = bytes.split_at_checked(4).context("an answer has magic bytes")?;
    let mut unknown = fields(unknown)?;
    let (_, type_meta) = unknown.first_mut().context("an answer names its kind")?;
    let mut names = fields(type_meta)?;
    let Some((_, version)) = names.first_mut().filter(|(tag, value)| *tag >> 3 == 1 && value.is_empty()) else {
        return Ok((bytes.to_vec(), false));
    };
    *version = b"v1".to_vec();
    *type_meta = written(&names);
    Ok(([magic, &written(&unknown)].concat(), true))
}

fn read_event(frame: &[u8]) -> Result<Value> {
    let length = frame.first_chunk().map(|length| u32::from_be_bytes(*length) as usize);
    ensure!(length == Some(frame.len().saturating_sub(4)), "a frame of {} bytes says {length:?}", frame.len());
    let event = fields(&frame[4..])?;
    let value = |number: u64| event.iter().find(|(tag, _)| tag >> 3 == number).map(|(_, value)| value.as_slice());
    let event_type = std::str::from_utf8(value(1).context("an event has a type")?)?.to_owned();
    let extension = fields(value(2).context("an event has an object")?)?;
    let [(_, raw)] = &extension[..] else { anyhow::bail!("an object has {} fields around it", extension.len()) };
    let object = read_object(raw)?;
    let mut plain = object.clone();
    if let Some(members) = plain.as_object_mut() {
        members.remove(BYTES);
    }
    let mut event = json!({ "type": event_type, "object": object });
    let question = json!({ "type": event_type, "object": plain });
    let again = with_judge(|judge| judge.event(question.to_string().as_bytes()))?;
    if again != frame {
        event[BYTES] = "otherwise".into();
    }
    Ok(event)
}

fn with_judge<T>(use_judge: impl FnOnce(&mut Judge) -> Result<T>) -> Result<T> {
    static JUDGE: LazyLock<Mutex<Option<Judge>>> = LazyLock::new(Mutex::default);
    let mut judge = JUDGE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut requested = match judge.take() {
        Some(running) => running,
        None => Judge::start()?,
    };
    let answer = use_judge(&mut requested);
    *judge = Some(requested);
    answer
}
