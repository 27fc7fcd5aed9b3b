//! fieldcache's side: the extractor of a plan made from the definition, in this process.
//!
//! One thread allocates, reads and frees; nothing is kept, so that the figure is the extractor's and not a store's.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use fieldcache::crd::Crd;
use fieldcache::extract::Extractor;
use fieldcache::model::Record;
use serde_json::{Value, json};

use super::Nanoseconds;
use super::upstream::Attributes;

/// The extractor for some selectable fields.
pub(crate) struct Own {
    plan: Extractor,
}

impl Own {
    /// The plan of version v1 of a definition whose selectable fields are these paths.
    pub(crate) fn new(definition: &Value, paths: &[&str]) -> Result<Own> {
        let mut definition = definition.clone();
        let version = definition.pointer_mut("/spec/versions/0").context("the definition has no version")?;
        version["selectableFields"] = paths.iter().map(|path| json!({ "jsonPath": path })).collect();
        let crd = Crd::read(&definition).context("reading the definition")?;
        let plan = Extractor::custom_resource(&crd, "v1");
        let refused = paths.len() - plan.fields().len();
        ensure!(refused == 0, "the plan leaves out {refused} of {paths:?}: see the schema of the shirts");
        Ok(Own { plan })
    }

    /// Compares what the plan reads from each object with what the other side answered for it, in the same order.
    pub(crate) fn compare(&self, objects: &[Bytes], theirs: &[Attributes]) -> Result<()> {
        ensure!(objects.len() == theirs.len(), "{} answers for {} objects", theirs.len(), objects.len());
        for (number, (object, theirs)) in objects.iter().zip(theirs).enumerate() {
            let record = self.plan.extract(object.clone()).with_context(|| format!("object {number}"))?;
            let ours = self.attributes(&record);
            ensure!(ours == *theirs, "object {number}: fieldcache reads {ours:?}, kube-apiserver {theirs:?}");
        }
        Ok(())
    }

    fn attributes(&self, record: &Record) -> Attributes {
        let mut fields: BTreeMap<String, String> = record
            .texts
            .values()
            .map(|(index, text)| (self.plan.fields()[usize::from(index.0)].label.clone(), text.to_owned()))
            .collect();
        fields.insert("metadata.name".to_owned(), record.key.name().to_owned());
        fields.insert("metadata.namespace".to_owned(), record.key.namespace().to_owned());
        let labels = record.texts.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Attributes { labels, fields }
    }

    /// CPU time per object, of passes over all objects that take at least the duration.
    pub(crate) fn measure(&self, objects: &[Bytes], duration: Duration) -> Result<Nanoseconds> {
        self.pass(objects)?;
        let cpu_before = thread_time()?;
        let start = Instant::now();
        let mut passes = 0_u32;
        while passes == 0 || start.elapsed() < duration {
            self.pass(objects)?;
            passes += 1;
        }
        let spent = thread_time()? - cpu_before;
        Ok(spent.as_secs_f64() * 1e9 / (f64::from(passes) * objects.len() as f64))
    }

    fn pass(&self, objects: &[Bytes]) -> Result<()> {
        for object in objects {
            black_box(self.plan.extract(black_box(object).clone())?);
        }
        Ok(())
    }
}

/// CPU time of the main thread so far, which is the only one here (Linux `/proc`).
fn thread_time() -> Result<Duration> {
    // The kernel books the running time slice when it looks for another thread to run, and else only at the next tick.
    std::thread::yield_now();
    let path = "/proc/self/schedstat";
    let text = fs::read_to_string(path).context(path)?;
    let nanoseconds = text.split_whitespace().next().context(path)?.parse().context(path)?;
    Ok(Duration::from_nanos(nanoseconds))
}
