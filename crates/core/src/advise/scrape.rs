//! Counts of reads by resource, from kube-apiserver's metrics: of one scrape, or the difference of two.
//!
//! Metrics change between Kubernetes versions. These were compared with the servers of 1.32, 1.33, 1.36 and 1.37:
//!
//! | what | metric |
//! |---|---|
//! | objects | `apiserver_resource_objects`, before 1.34 `apiserver_storage_objects`; counted once a minute |
//! | watches | `apiserver_longrunning_requests` with verb WATCH |
//! | events | `apiserver_watch_events_total`, before 1.34 by kind instead of resource |
//! | lists | `apiserver_request_duration_seconds` with verb LIST, and `apiserver_watch_list_duration_seconds` for lists that come as the beginning of a watch |
//! | bytes of lists | `apiserver_response_sizes` with verb LIST |
//! | objects that lists read and returned | `apiserver_cache_list_*_objects_total` from the watch cache (before 1.34 by etcd's prefix), and `apiserver_storage_list_*_objects_total` from etcd, since 1.37 from both |
//!
//! Subresources are left out: they are not listed.

use std::collections::BTreeMap;
use std::fmt;

use super::exposition::{self, MetricSample, SampleError};

/// A resource without its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName {
    /// The plural name.
    pub resource: String,
    /// The API group; empty for the core group.
    pub group: String,
}

impl ResourceName {
    /// The resource with this plural name and group.
    pub fn new(resource: &str, group: &str) -> ResourceName {
        ResourceName { resource: resource.to_owned(), group: group.to_owned() }
    }

    /// Parses `PLURAL.GROUP`, or `PLURAL` for the core group.
    pub fn parse(text: &str) -> ResourceName {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        ResourceName::new(resource, group)
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(formatter, ".{}", self.group) }
    }
}

/// Counts of one resource, as Prometheus' floats. Whole numbers are exact up to 2^53.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceCounts {
    /// Objects in storage; `None`: the server could not count them.
    pub objects: Option<f64>,
    /// Open watches.
    pub watches: f64,
    /// Open watches of one object by its name.
    pub single_watches: f64,
    /// Events sent to watches.
    pub events: f64,
    /// Responses to list requests.
    pub lists: f64,
    /// The sum of the durations of lists, from the request to the end of the response, in seconds.
    pub list_seconds: f64,
    /// Bytes of the responses to lists.
    pub list_bytes: f64,
    /// Objects that were read for lists.
    pub fetched: f64,
    /// Objects that lists returned.
    pub returned: f64,
}

impl ResourceCounts {
    /// The maximum number of copies of objects that the clients of open watches hold. Selectors can reduce the actual
    /// number, but metrics do not contain them.
    pub fn copies(&self) -> f64 {
        let objects = self.objects.unwrap_or_default();
        objects * (self.watches - self.single_watches).max(0.0) + objects.min(1.0) * self.single_watches
    }

    /// Whether clients read the resource.
    pub fn is_read(&self) -> bool {
        self.watches > 0.0 || self.events > 0.0 || self.lists > 0.0
    }

    /// The increase of the counters since an earlier scrape, at least 0. Objects and open watches are not counters:
    /// their numbers are those of this scrape.
    fn since(&self, earlier: &ResourceCounts) -> ResourceCounts {
        let difference = |now: f64, before: f64| (now - before).max(0.0);
        ResourceCounts {
            events: difference(self.events, earlier.events),
            lists: difference(self.lists, earlier.lists),
            list_seconds: difference(self.list_seconds, earlier.list_seconds),
            list_bytes: difference(self.list_bytes, earlier.list_bytes),
            fetched: difference(self.fetched, earlier.fetched),
            returned: difference(self.returned, earlier.returned),
            ..self.clone()
        }
    }
}

/// The metrics of one API server at one moment, or between two.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scrape {
    /// The start of the process and of its counters, in seconds since 1970. It identifies the process.
    pub started: f64,
    /// Counts by resource.
    pub resources: BTreeMap<ResourceName, ResourceCounts>,
}

/// Why a text is not a scrape of a kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrapeError {
    /// A line is truncated, or it is not in the text format.
    #[error("cannot parse line {line} of the metrics, because {cause}: {text}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// What is invalid.
        cause: SampleError,
        /// The beginning of the line.
        text: String,
    },
    /// Metrics of another program.
    #[error("these are not the metrics of a kube-apiserver: {STARTED} or {WATCHES} is missing")]
    NotKubeApiserver,
}

/// The scrapes are of different processes, so their counters cannot be subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the two scrapes come from different API server processes, so they cannot be compared")]
pub struct DifferentProcesses;

const STARTED: &str = "process_start_time_seconds";
const WATCHES: &str = "apiserver_longrunning_requests";

/// The count that a sample is added to.
#[derive(Clone, Copy)]
enum Target {
    Objects,
    Watches,
    Events,
    Lists,
    ListSeconds,
    ListBytes,
    Fetched,
    Returned,
}

/// The name of the metric, the count that it is added to, and the verb that its sample must have.
const METRICS: [(&str, Target, Option<&str>); 13] = [
    ("apiserver_resource_objects", Target::Objects, None),
    ("apiserver_storage_objects", Target::Objects, None),
    (WATCHES, Target::Watches, Some("WATCH")),
    ("apiserver_watch_events_total", Target::Events, None),
    ("apiserver_request_duration_seconds_count", Target::Lists, Some("LIST")),
    ("apiserver_request_duration_seconds_sum", Target::ListSeconds, Some("LIST")),
    ("apiserver_watch_list_duration_seconds_count", Target::Lists, None),
    ("apiserver_watch_list_duration_seconds_sum", Target::ListSeconds, None),
    ("apiserver_response_sizes_sum", Target::ListBytes, Some("LIST")),
    ("apiserver_cache_list_fetched_objects_total", Target::Fetched, None),
    ("apiserver_storage_list_fetched_objects_total", Target::Fetched, None),
    ("apiserver_cache_list_returned_objects_total", Target::Returned, None),
    ("apiserver_storage_list_returned_objects_total", Target::Returned, None),
];

/// How a sample names its resource.
enum Named {
    /// By plural name and group.
    Resource(ResourceName),
    /// By group and kind.
    Kind(String, String),
    /// By the prefix of its keys in etcd, without a leading slash.
    Prefix(String),
}

impl Scrape {
    /// Parses all metrics of a kube-apiserver, as it serves them at `/metrics`.
    ///
    /// # Errors
    /// [`ScrapeError`].
    pub fn parse(text: &str) -> Result<Scrape, ScrapeError> {
        let mut started = None;
        let mut scrape = Scrape::default();
        let mut saw_watches = false;
        // The resources of these samples are looked up after all lines, when all resources have been read.
        let mut later = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let name = exposition::name(line);
            let metric = METRICS.iter().find(|(metric, ..)| *metric == name);
            if metric.is_none() && name != STARTED {
                continue;
            }
            let sample = exposition::sample(line).map_err(|cause| ScrapeError::Line {
                line: index + 1,
                cause,
                text: line.chars().take(120).collect(),
            })?;
            let Some((metric, target, verb)) = metric else {
                started = Some(sample.value);
                continue;
            };
            saw_watches |= *metric == WATCHES;
            let is_other_verb = verb.is_some_and(|verb| sample.label("verb") != Some(verb));
            let is_subresource = sample.label("subresource").is_some_and(|subresource| !subresource.is_empty());
            if is_other_verb || is_subresource {
                continue;
            }
            let is_single = sample.label("scope") == Some("resource");
            match named(&sample) {
                Some(Named::Resource(resource)) => {
                    add(scrape.resources.entry(resource).or_default(), *target, sample.value, is_single);
                }
                Some(other) => later.push((other, *target, sample.value)),
                None => {}
            }
        }
        for (named, target, value) in later {
            let found = match named {
                Named::Resource(resource) => Some(resource),
                Named::Kind(group, kind) => by_kind(&scrape.resources, &group, &kind),
                Named::Prefix(prefix) => by_prefix(&scrape.resources, &prefix),
            };
            if let Some(resource) = found {
                add(scrape.resources.entry(resource).or_default(), target, value, false);
            }
        }
        match started {
            Some(started) if saw_watches => Ok(Scrape { started, ..scrape }),
            _ => Err(ScrapeError::NotKubeApiserver),
        }
    }

    /// The counts since an earlier scrape.
    ///
    /// # Errors
    /// [`DifferentProcesses`].
    pub fn since(&self, earlier: &Scrape) -> Result<Scrape, DifferentProcesses> {
        if self.started != earlier.started {
            return Err(DifferentProcesses);
        }
        let nothing = ResourceCounts::default();
        let difference = |(resource, counts): (&ResourceName, &ResourceCounts)| {
            (resource.clone(), counts.since(earlier.resources.get(resource).unwrap_or(&nothing)))
        };
        Ok(Scrape { started: self.started, resources: self.resources.iter().map(difference).collect() })
    }
}

/// Adds the value of a sample to the counts of its resource. `is_single`: the sample is about requests for one object
/// by its name.
fn add(counts: &mut ResourceCounts, target: Target, value: f64, is_single: bool) {
    match target {
        // Two metrics have the same number. Minus one means that counting failed.
        Target::Objects if value >= 0.0 => counts.objects = Some(value.max(counts.objects.unwrap_or_default())),
        Target::Objects => {}
        Target::Watches => {
            counts.watches += value;
            if is_single {
                counts.single_watches += value;
            }
        }
        Target::Events => counts.events += value,
        Target::Lists => counts.lists += value,
        Target::ListSeconds => counts.list_seconds += value,
        Target::ListBytes => counts.list_bytes += value,
        Target::Fetched => counts.fetched += value,
        Target::Returned => counts.returned += value,
    }
}

/// How the labels of a sample name its resource; `None` if the sample is not about a resource.
fn named(sample: &MetricSample<'_>) -> Option<Named> {
    match (sample.label("group"), sample.label("resource"), sample.label("kind"), sample.label("resource_prefix")) {
        // Requests without a resource have an empty one.
        (_, Some(""), ..) => None,
        (Some(group), Some(resource), ..) => Some(Named::Resource(ResourceName::new(resource, group))),
        (None, Some(name), ..) => Some(Named::Resource(ResourceName::parse(name))),
        (Some(group), None, Some(kind), _) => Some(Named::Kind(group.to_owned(), kind.to_owned())),
        (_, None, _, Some(prefix)) => Some(Named::Prefix(prefix.trim_start_matches('/').to_owned())),
        _ => None,
    }
}

/// The resource of a kind, guessed from the kind as Kubernetes does (`meta.UnsafeGuessKindToResource`). `None` if
/// `resources` does not have it.
fn by_kind(resources: &BTreeMap<ResourceName, ResourceCounts>, group: &str, kind: &str) -> Option<ResourceName> {
    let singular = kind.to_lowercase();
    let guess = match singular.as_str() {
        "endpoints" => singular,
        name if name.ends_with('s') => format!("{name}es"),
        name => match name.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{name}s"),
        },
    };
    Some(ResourceName::new(&guess, group)).filter(|guess| resources.contains_key(guess))
}

/// The resource whose keys in etcd have this prefix; `None` if `resources` has no such built-in resource. The prefix of
/// custom resources has their group. That of built-in ones is the plural, or for a few of them a historical name
/// (`SpecialDefaultResourcePrefixes` of pkg/kubeapiserver).
fn by_prefix(resources: &BTreeMap<ResourceName, ResourceCounts>, prefix: &str) -> Option<ResourceName> {
    let plural = match prefix {
        "controllers" => "replicationcontrollers",
        "ingress" => "ingresses",
        "minions" => "nodes",
        "services/endpoints" => "endpoints",
        "services/specs" => "services",
        other => match other.split_once('/') {
            Some((group, resource)) => return Some(ResourceName::new(resource, group)),
            None => other,
        },
    };
    let is_built_in = |group: &str| !group.contains('.') || group.ends_with(".k8s.io");
    // Only stored resources are counted, and no plural is stored twice.
    let mut stored = resources.iter().filter(|(_, counts)| counts.objects.is_some()).map(|(resource, _)| resource);
    stored.find(|resource| resource.resource == plural && is_built_in(&resource.group)).cloned()
}
