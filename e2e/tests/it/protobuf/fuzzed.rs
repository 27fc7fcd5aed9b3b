//! Fuzzed objects of every built-in kind come back through fieldcache as they were written, in every form; planted errors are found.

use anyhow::{Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::fieldcache::Fieldcache;
use e2e::fuzz::{self, Found, Fuzz};
use e2e::versions::Kubernetes;
use fieldcache::protobuf::MessageTable;

use super::defects::{Alteration, DEFECTS, Defect, Field, line, text_with};
use super::spoiled::{Place, Spoiler, Spoiling};

/// Where the fillers start; `make fuzz` draws another number.
const SEED: u64 = 20;

/// Objects of each kind; `make fuzz` makes 500.
const OF_EACH_KIND: u64 = 20;

/// Sets of objects in which a planted error is looked for.
const SEEDS: u64 = 10;

#[expect(clippy::print_stdout, reason = "the report of a test")]
fn say(line: &str) {
    println!("{line}");
}

#[tokio::test]
async fn fuzzed_objects_come_back_as_they_were_written() -> Result<()> {
    let fuzz = Fuzz { seed: SEED, count: OF_EACH_KIND, only: Vec::new() };
    let found = Box::pin(fuzz::run(&fuzz, &say)).await?;
    let Found { objects, kinds, compared, as_written, .. } = found;
    println!("protobuf: {objects} objects of {kinds} kinds are equal in {compared} reads, {as_written} as written");
    Ok(())
}

const WHOLE: &str = "application/vnd.kubernetes.protobuf";
const PARTIAL: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PARTIAL_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1";

/// The object in an envelope.
const RAW: u64 = 2;

/// Errors that do not show in what kube-apiserver sends: it completes these fields.
const HIDDEN: [&str; 3] = ["a zero is not written", "an empty message is written", "an empty message is not written"];

/// The same errors in other fields. JSON of kube-apiserver has every empty message that is always written.
const SHOWN: [Defect; 2] = [
    line(
        "an empty text is not written",
        "core/v1.PodSpec",
        "8 serviceAccountName one string",
        "8 serviceAccountName opt string",
    ),
    line(
        "an absent message is written",
        "core/v1.PodSpec",
        "26 dnsConfig opt core/v1.PodDNSConfig",
        "26 dnsConfig one core/v1.PodDNSConfig",
    ),
];

/// An error in what is sent: its name, where it depends, in which form, and what becomes of the fields at a path.
type Planted = (&'static str, Place, &'static str, &'static [u64], fn(&mut Vec<Field>));

const PLANTED: [Planted; 10] = [
    ("an object has less metadata", Place::Object, PARTIAL, &[RAW, 1], drop_last),
    ("an object has another version", Place::Object, WHOLE, &[RAW, 1], |fields| alter(fields, 6)),
    ("a list lacks an item", Place::List, WHOLE, &[RAW], drop_last),
    ("an item has less metadata", Place::List, WHOLE, &[RAW, 2, 1], drop_last),
    ("an item of an old list of metadata has less", Place::List, PARTIAL_LIST, &[RAW, 1, 1], drop_last),
    ("a list has no kind", Place::List, WHOLE, &[1], drop_last),
    ("an event has less metadata", Place::Event("ADDED"), WHOLE, &[RAW, 1], drop_last),
    ("an event of metadata has less", Place::Event("ADDED"), PARTIAL, &[RAW, 1], drop_last),
    ("a deleted object has another version", Place::Event("DELETED"), WHOLE, &[RAW, 1], |fields| alter(fields, 6)),
    ("an envelope says that it is compressed", Place::Object, WHOLE, &[], |fields| alter(fields, 3)),
];

fn drop_last(fields: &mut Vec<Field>) {
    fields.pop();
}

fn alter(fields: &mut [Field], number: u64) {
    for (_, value) in fields.iter_mut().filter(|(tag, _)| tag >> 3 == number) {
        value.push(b'1');
    }
}

/// Messages of other kinds than Pods that a planted error is in.
const KINDS: [(&str, &str); 3] = [
    ("core/v1.Secret", "v1/Secret"),
    ("core/v1.ResourceQuotaSpec", "v1/ResourceQuota"),
    ("coordination/v1.LeaseSpec", "coordination.k8s.io/v1/Lease"),
];

/// The kind in which the error of a message shows.
fn kind_of(message: &str) -> &'static str {
    KINDS.iter().find(|(name, _)| *name == message).map_or("v1/Pod", |(_, kind)| kind)
}

#[tokio::test]
async fn planted_errors_are_found_in_fuzzed_objects() -> Result<()> {
    let minor = Kubernetes::under_test()?.minor();
    let mut spoilings = Vec::new();
    for defect in DEFECTS.iter().filter(|defect| !HIDDEN.contains(&defect.name)).chain(&SHOWN) {
        // Errors in bytes are planted where an object made by hand has them.
        if let Alteration::Line(message, before, after) = defect.alteration {
            let table = MessageTable::read(&text_with(message, before, after)?, minor)?;
            spoilings.push((defect.name, kind_of(message), Spoiling::Table(Box::new(table))));
        }
    }
    for (name, place, form, path, alter) in PLANTED {
        spoilings.push((name, "v1/Secret", Spoiling::Bytes { place, form, path, alter }));
    }
    spoilings.push(("JSON says something else", "v1/Secret", Spoiling::Json));

    let control_plane = ControlPlane::start(fuzz::settings()).await?;
    let fieldcache = Fieldcache::serve_cluster(control_plane.kubeconfig(), &[]).await?;
    let planted = spoilings.len();
    for kind in ["v1/Pod"].into_iter().chain(KINDS.map(|(_, kind)| kind)) {
        spoilings.push(("nothing", kind, Spoiling::Table(Box::new(MessageTable::read(MessageTable::text(), minor)?))));
    }
    let mut missed = Vec::new();
    for (name, kind, spoiling) in spoilings {
        let spoiler = Spoiler::start(fieldcache.endpoint(), spoiling).await?;
        let mut differences = 0;
        // Not all objects have every field.
        for seed in SEED..SEED + SEEDS {
            let fuzz = Fuzz { seed, count: OF_EACH_KIND, only: vec![kind.to_owned()] };
            differences = fuzz::compare(&control_plane, &spoiler.base(), &fuzz, &|_| {}).await?.differences;
            if differences > 0 || name == "nothing" {
                break;
            }
        }
        let spoiled = spoiler.count();
        ensure!(spoiled > 0, "{name}: nothing was spoiled");
        if name == "nothing" {
            ensure!(differences == 0, "{kind}: nothing is spoiled, but {differences} reads differ");
            continue;
        }
        println!("protobuf: {name}: {spoiled} responses spoiled in {kind}: {differences} reads differ");
        if differences == 0 {
            missed.push(name);
        }
    }
    println!("protobuf: {} of {planted} planted errors found in fuzzed objects", planted - missed.len());
    ensure!(missed.is_empty(), "not found: {missed:?}");
    Ok(())
}
