//! Kubernetes protobuf: what fieldcache writes of an object's JSON, and what upstream's serializers write of it.
//!
//! The [`judge`] is `e2e/go/cmd/protobuf-judge`. It fills objects of every kind with upstream's fuzzers. It also
//! encodes the hand-made [`questions`], for what fuzzers do not write: lists and events. All must be equal byte by
//! byte. [`defects`] are planted errors. [`readable`] makes JSON of responses for suites that compare it. [`fuzzed`]
//! compares fuzzed objects of a real kube-apiserver, and [`spoiled`] plants errors there.

mod defects;
mod fuzzed;
mod judge;
mod questions;
pub(crate) mod readable;
mod spoiled;

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use e2e::components::KUBERNETES_VERSION;
use fieldcache::protobuf::envelope::{END, ProtobufEnvelope};
use fieldcache::protobuf::{Encoder, MessageTable};

use judge::Generated;

/// Where the fuzzers start; any other number makes other objects.
const SEED: u64 = 42;

/// Objects of every kind.
const OF_EACH_KIND: usize = 60;

/// The table of the version that the judge is built of.
fn table() -> Result<&'static MessageTable> {
    let minor = KUBERNETES_VERSION.split('.').nth(1).context("a version must have a minor")?;
    Ok(MessageTable::for_minor(minor.parse()?)?)
}

/// An object's whole answer.
fn encoded(encoder: &mut Encoder, table: &MessageTable, api_version: &str, kind: &str, json: &[u8]) -> Result<Vec<u8>> {
    let message = table.kind(api_version, kind).with_context(|| format!("{api_version} {kind} has no message"))?;
    let message = encoder.read(message, json)?;
    let envelope = ProtobufEnvelope { api_version, kind };
    let mut out = Vec::new();
    envelope.begin(message.length(), &mut out);
    let start = out.len();
    message.write(&mut out);
    ensure!(
        out.len() - start == message.length(),
        "{} bytes were announced, {} written",
        message.length(),
        out.len() - start
    );
    out.extend_from_slice(&END);
    ensure!(out.len() == envelope.length(message.length()), "the length of the envelope is wrong");
    Ok(out)
}

#[test]
fn fuzzed_objects_of_every_kind_are_written_as_upstream_writes_them() -> Result<()> {
    let table = table()?;
    let mut encoder = Encoder::default();
    let (mut count, mut lossless, mut kinds) = (0, 0, BTreeSet::new());
    judge::generate(SEED, OF_EACH_KIND, |object| {
        let Generated { api_version, kind, json, expected, itself } = object;
        let ours = encoded(&mut encoder, table, api_version, kind, json);
        match ours {
            Ok(ours) if ours == *expected => {}
            Ok(ours) => {
                let place = ours.iter().zip(expected.iter()).take_while(|(left, right)| left == right).count();
                bail!("{api_version} {kind}: differs at byte {place}: {}", String::from_utf8_lossy(json));
            }
            Err(error) => bail!("{api_version} {kind}: {error}: {}", String::from_utf8_lossy(json)),
        }
        count += 1;
        lossless += usize::from(expected == itself);
        kinds.insert(format!("{api_version} {kind}"));
        Ok(())
    })?;
    println!(
        "protobuf: {count} objects of {} kinds are equal; JSON lost something of {}",
        kinds.len(),
        count - lossless
    );
    ensure!(kinds.len() > 300, "only {} kinds were made", kinds.len());
    ensure!(lossless * 100 >= count * 98, "JSON lost something of {} of {count} objects", count - lossless);
    Ok(())
}
