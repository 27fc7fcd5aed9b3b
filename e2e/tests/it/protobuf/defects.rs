//! Planted errors of ours, one at a time: the comparison must find each.
//!
//! An error of a rule is planted in the table that the encoder reads; an error in what is written is planted in the bytes. So the code
//! itself stays free of them.

use anyhow::{Context, Result, bail, ensure};
use e2e::components::KUBERNETES_VERSION;
use fieldcache::protobuf::{Encoder, MessageTable};
use serde_json::Value;

use super::judge::{self, Judge};
use super::questions::OBJECTS;
use super::{encoded, table};

/// A field of a message as it is in the bytes: its tag, and its value without a length.
pub(super) type Field = (u64, Vec<u8>);

/// What is wrong with a planted error.
pub(super) enum Alteration {
    /// In a message, of which this line is another.
    Line(&'static str, &'static str, &'static str),
    /// Where a path of field numbers leads, in the first object made by hand.
    Bytes(&'static [u64], fn(&mut Vec<Field>)),
}

/// A planted error.
pub(super) struct Defect {
    pub(super) name: &'static str,
    pub(super) alteration: Alteration,
}

pub(super) const fn line(
    name: &'static str,
    message: &'static str,
    before: &'static str,
    after: &'static str,
) -> Defect {
    Defect { name, alteration: Alteration::Line(message, before, after) }
}

const fn bytes(name: &'static str, path: &'static [u64], alter: fn(&mut Vec<Field>)) -> Defect {
    Defect { name, alteration: Alteration::Bytes(path, alter) }
}

pub(super) const DEFECTS: [Defect; 26] = [
    line("a field is left out", "core/v1.PodSpec", "3 restartPolicy one string", "0 restartPolicy skip"),
    line("a field is unknown", "core/v1.PodSpec", "10 nodeName one string", "10 nodename one string"),
    line("another number", "core/v1.PodSpec", "8 serviceAccountName one string", "99 serviceAccountName one string"),
    line("another wire type", "core/v1.ContainerPort", "3 containerPort one int32", "3 containerPort one double"),
    line("a zero is not written", "core/v1.PodSpec", "6 dnsPolicy one string", "6 dnsPolicy opt string"),
    line("a false is not written", "core/v1.PodSpec", "11 hostNetwork one bool", "11 hostNetwork opt bool"),
    line(
        "a zero is written",
        "core/v1.PodSpec",
        "5 activeDeadlineSeconds opt int64",
        "5 activeDeadlineSeconds one int64",
    ),
    line(
        "an empty message is written",
        "core/v1.PodSpec",
        "14 securityContext opt core/v1.PodSecurityContext",
        "14 securityContext one core/v1.PodSecurityContext",
    ),
    line(
        "an empty message is not written",
        "core/v1.Container",
        "8 resources one core/v1.ResourceRequirements",
        "8 resources opt core/v1.ResourceRequirements",
    ),
    line(
        "an inner message is no message",
        "core/v1.ConfigMapVolumeSource",
        "1 - inline core/v1.LocalObjectReference",
        "1 name one string",
    ),
    line("base64 is not decoded", "core/v1.Secret", "2 data map bytes", "2 data map string"),
    line(
        "microseconds are lost",
        "coordination/v1.LeaseSpec",
        "4 renewTime opt meta/v1.MicroTime",
        "4 renewTime opt meta/v1.Time",
    ),
    line("a quantity is a text", "core/v1.ResourceQuotaSpec", "1 hard map resource.Quantity", "1 hard map string"),
    line("a number or text is a text", "core/v1.HTTPGetAction", "2 port one intstr.IntOrString", "2 port one string"),
    bytes("a map is not sorted", &[2, 1], |fields| reverse(fields, 11)),
    bytes("a list is reversed", &[2, 2], |fields| reverse(fields, 2)),
    bytes("fields are not in order", &[2, 1], |fields| fields.swap(0, 1)),
    bytes("a field is written twice", &[2, 1], |fields| fields.insert(1, fields[0].clone())),
    bytes("a quantity is not canonical", &[2, 2, 2, 8, 1, 2], |fields| fields[0].1 = b"0.5".to_vec()),
    bytes("a text is a number", &[2, 2, 2, 10, 1, 2, 2], |fields| fields[0].1 = vec![0]),
    bytes("nanoseconds are not written", &[2, 1, 8], |fields| {
        fields.pop();
    }),
    bytes("a moment is in milliseconds", &[2, 1, 8], |fields| fields[0].1 = varint(1_767_323_045_000)),
    bytes("any JSON is wrapped twice", &[2, 1, 17, 7], |fields| {
        let inner = written(fields);
        fields[0].1 = inner;
    }),
    bytes("any JSON is not wrapped", &[2, 1, 17], |fields| {
        let field = fields.iter_mut().find(|(tag, _)| *tag >> 3 == 7);
        field.unwrap_or(&mut (0, vec![])).1.drain(..2);
    }),
    bytes("a length is wrong", &[2, 2], |fields| fields[0].1.push(0)),
    bytes("the envelope has no kind", &[1], |fields| {
        fields.pop();
    }),
];

fn reverse(fields: &mut [Field], number: u64) {
    let places: Vec<usize> = (0..fields.len()).filter(|place| fields[*place].0 >> 3 == number).collect();
    for (first, last) in places.iter().zip(places.iter().rev()).take(places.len() / 2) {
        fields.swap(*first, *last);
    }
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn read_varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in 0..10 {
        let (first, rest) = bytes.split_first().context("a varint must end")?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << (shift * 7);
        if *first < 0x80 {
            return Ok(number);
        }
    }
    bail!("a varint is too long")
}

/// What is in a message.
pub(super) fn fields(mut bytes: &[u8]) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = read_varint(&mut bytes)?;
        let value = match tag & 7 {
            0 => varint(read_varint(&mut bytes)?),
            wire_type => {
                let length = if wire_type == 1 { 8 } else { read_varint(&mut bytes)? };
                let (value, rest) = bytes.split_at_checked(usize::try_from(length)?).context("a value must end")?;
                bytes = rest;
                value.to_vec()
            }
        };
        fields.push((tag, value));
    }
    Ok(fields)
}

/// A message of these fields.
pub(super) fn written(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, value) in fields {
        out.extend(varint(*tag));
        if tag & 7 == 2 {
            out.extend(varint(value.len() as u64));
        }
        out.extend(value);
    }
    out
}

/// Alters what is under the first field of each number of the path.
pub(super) fn altered(message: &[u8], path: &[u64], alter: fn(&mut Vec<Field>)) -> Result<Vec<u8>> {
    let mut fields = fields(message)?;
    if let Some((number, rest)) = path.split_first() {
        let field = fields.iter_mut().find(|(tag, _)| tag >> 3 == *number);
        let field = field.with_context(|| format!("there is no field {number}"))?;
        field.1 = altered(&field.1, rest, alter)?;
    } else {
        alter(&mut fields);
    }
    Ok(written(&fields))
}

/// The text of the table, with another line in a message.
pub(super) fn text_with(message: &str, before: &str, after: &str) -> Result<String> {
    let head = format!("\nmessage {message} ");
    let start = MessageTable::text().find(&head).with_context(|| format!("there is no message {message}"))?;
    let (ahead, of_message) = MessageTable::text().split_at(start);
    let end = of_message[1..].find("\nmessage ").map_or(of_message.len(), |end| end + 1);
    let changed = of_message[..end].replacen(&format!("\n{before}"), &format!("\n{after}"), 1);
    ensure!(changed != of_message[..end], "{message} has no {before:?}");
    Ok(format!("{ahead}{changed}{}", &of_message[end..]))
}

struct Case {
    api_version: String,
    kind: String,
    json: Vec<u8>,
    expected: Vec<u8>,
}

fn cases() -> Result<Vec<Case>> {
    let mut judge = Judge::start()?;
    let mut cases = Vec::new();
    for json in OBJECTS {
        let object: Value = serde_json::from_str(&json.replace("\\ud800\"", "\""))?;
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        let expected = judge.object(json.as_bytes())?;
        cases.push(Case { api_version: text("apiVersion"), kind: text("kind"), json: json.into(), expected });
    }
    judge::generate(1, 3, |object| {
        if object.api_version == "v1" {
            cases.push(Case {
                api_version: object.api_version.to_owned(),
                kind: object.kind.to_owned(),
                json: object.json.to_vec(),
                expected: object.expected.to_vec(),
            });
        }
        Ok(())
    })?;
    Ok(cases)
}

/// The first case that is red with a defect.
fn found_by<'c>(cases: &'c [Case], defect: &Defect) -> Result<Option<&'c Case>> {
    let minor = KUBERNETES_VERSION.split('.').nth(1).context("a version must have a minor")?.parse()?;
    match defect.alteration {
        Alteration::Line(message, before, after) => {
            let table = MessageTable::read(&text_with(message, before, after)?, minor)?;
            let mut encoder = Encoder::default();
            let mut is_same = |case: &Case| {
                let ours = encoded(&mut encoder, &table, &case.api_version, &case.kind, &case.json);
                ours.is_ok_and(|ours| ours == case.expected)
            };
            Ok(cases.iter().find(|case| !is_same(case)))
        }
        Alteration::Bytes(path, alter) => {
            let Some(case) = cases.first() else { bail!("there are no cases") };
            let ours = encoded(&mut Encoder::default(), table()?, &case.api_version, &case.kind, &case.json)?;
            let (magic, envelope) = ours.split_at(4);
            let unaltered = [magic, &altered(envelope, path, |_| {})?].concat();
            ensure!(unaltered == case.expected, "what is not altered must stay");
            let ours = [magic, &altered(envelope, path, alter)?].concat();
            Ok((ours != case.expected).then_some(case))
        }
    }
}

#[test]
fn every_planted_error_is_found() -> Result<()> {
    let cases = cases()?;
    let sound = Defect { name: "none", alteration: Alteration::Line("core/v1.Binding", "2 target", "2 target") };
    ensure!(found_by(&cases, &sound).is_err(), "an alteration that changes nothing must be refused");
    let mut missed = Vec::new();
    for defect in &DEFECTS {
        match found_by(&cases, defect).with_context(|| defect.name)? {
            None => missed.push(defect.name),
            Some(case) => println!("protobuf: {}: found, first by {} {}", defect.name, case.api_version, case.kind),
        }
    }
    println!("protobuf: {} of {} planted errors found", DEFECTS.len() - missed.len(), DEFECTS.len());
    ensure!(missed.is_empty(), "not found: {missed:?}");
    Ok(())
}
