//! The seeded corpora of the benchmarks: the same objects from the same settings, on every machine.
//!
//! [`shirts`] are custom resources with selectable fields, [`pods`] built-in objects with managedFields, [`secrets`]
//! those of applications that Helm installs, [`placement`] a cluster to place pods in. Object `i` is made from the seed and `i` alone. So objects can be made in any order and
//! in parallel, and a million need no memory. Each corpus makes an object in two forms: as a client sends it
//! (`object`), and as kube-apiserver stores and serves it (`stored`). A generator source or a folder needs the second
//! one. A test compares that with what a real kube-apiserver serves. [`load`] sends a corpus to kube-apiserver.
//!
//! The makers know nothing of fieldcache.

pub mod load;
mod managed_fields;
pub mod placement;
pub mod pods;
pub mod secrets;
pub mod shirts;
mod words;

/// How much of the free text in the objects is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Text {
    /// Every object has words of its own: about 5:1 under zstd at level 3.
    #[default]
    Varied,
    /// All objects share a few paragraphs: about 20:1.
    Repeated,
}

impl std::str::FromStr for Text {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Text> {
        match text {
            "varied" => Ok(Text::Varied),
            "repeated" => Ok(Text::Repeated),
            other => anyhow::bail!("text is {other:?}; it must be varied or repeated"),
        }
    }
}

/// A time so many seconds after the start of 2026, as RFC 3339. It uses only the first 28 days of a month, which is
/// enough for texts.
fn time(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let (month, day) = (days / 28 % 12 + 1, days % 28 + 1);
    format!("2026-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", hours % 24, minutes % 60, seconds % 60)
}
