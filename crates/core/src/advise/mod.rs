//! Estimates by resource how much load a cache would save: a ranking from kube-apiserver's metrics.
//!
//! [`exposition`] parses the text that kube-apiserver serves at `/metrics`, and [`scrape`] turns it into counts of each
//! resource. [`rank`] sorts the resources by cost and gives reasons. Metrics do not name clients, so users must find
//! out which clients could read from a cache. This module has no IO and no clock: `cli::advise` reads the texts and
//! prints the advice.

pub mod exposition;
pub mod scrape;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use scrape::{ResourceCounts, ResourceName, Scrape};

/// The load of a resource that a cache would take over.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The resource.
    pub resource: ResourceName,
    /// Its share of the cost of all resources, 0 to 1. This is the mean of three shares: of the objects that clients of
    /// watches store, of the events sent, and of the time of lists. Amounts that are zero for all resources are left
    /// out.
    pub share: f64,
    /// The counts from which the share is computed.
    pub counts: ResourceCounts,
    /// Whether a FieldCache names the resource; `None`: unknown.
    pub is_cached: Option<bool>,
    /// The reason of its rank: one sentence, without a full stop.
    pub reason: String,
}

/// A part of the cost of reading. Each has its own unit, so that only shares can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Objects that the clients of watches store, as a number.
    Copies,
    /// Events sent to watches, as a number.
    Events,
    /// The time of lists, in seconds.
    ListTime,
}

impl Part {
    const ALL: [Part; 3] = [Part::Copies, Part::Events, Part::ListTime];

    /// The amount of this part in the counts of a resource, in the unit of the part.
    fn amount_in(self, counts: &ResourceCounts) -> f64 {
        match self {
            Part::Copies => counts.copies(),
            Part::Events => counts.events,
            Part::ListTime => counts.list_seconds,
        }
    }
}

/// Ranks the resources that clients read, the most expensive first. `cached` are the resources that FieldCaches name;
/// `None`: unknown.
pub fn rank(scrape: &Scrape, cached: Option<&BTreeSet<ResourceName>>) -> Vec<Advice> {
    let totals =
        Part::ALL.map(|part| (part, scrape.resources.values().map(|counts| part.amount_in(counts)).sum::<f64>()));
    let non_zero: Vec<(Part, f64)> = totals.into_iter().filter(|(_, total)| *total > 0.0).collect();
    let mut rows: Vec<Advice> = scrape
        .resources
        .iter()
        .filter(|(_, counts)| counts.is_read())
        .map(|(resource, counts)| {
            let shares: Vec<(Part, f64)> =
                non_zero.iter().map(|(part, total)| (*part, part.amount_in(counts) / total)).collect();
            let share = match shares.len() {
                0 => 0.0,
                parts => shares.iter().map(|(_, share)| share).sum::<f64>() / parts as f64,
            };
            let is_cached = cached.map(|cached| cached.contains(resource));
            let greatest = shares.into_iter().filter(|(_, share)| *share > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
            let mut reason = reason(greatest.map(|(part, _)| part), counts);
            if is_cached == Some(true) {
                reason.push_str("; the resource is cached, so these clients could read from fieldcache");
            }
            Advice { resource: resource.clone(), share, counts: counts.clone(), is_cached, reason }
        })
        .collect();
    rows.sort_by(|one, other| other.share.total_cmp(&one.share).then_with(|| one.resource.cmp(&other.resource)));
    rows
}

/// A sentence about `part`, the largest part of the load of a resource; `None`: all parts are zero.
fn reason(part: Option<Part>, counts: &ResourceCounts) -> String {
    let watches = plural(counts.watches, "watch", "watches");
    match part {
        Some(Part::ListTime) => {
            let lists = plural(counts.lists, "list", "lists");
            let took = format!("{lists} took {}", duration(counts.list_seconds));
            if counts.returned < 1.0 && counts.fetched >= 1.0 {
                format!("{took} and read {} to return none", plural(counts.fetched, "object", "objects"))
            } else if counts.fetched >= 2.0 * counts.returned && counts.returned >= 1.0 {
                format!(
                    "{took} and read {} objects for each that they returned",
                    number(counts.fetched / counts.returned)
                )
            } else if counts.lists > 1.0 {
                format!("{took}, {} each", duration(counts.list_seconds / counts.lists))
            } else {
                took
            }
        }
        Some(Part::Copies) => {
            let objects = plural(counts.objects.unwrap_or_default(), "object", "objects");
            let hold = if counts.watches == 1.0 { "holds" } else { "hold" };
            format!("{watches} {hold} up to {} of {objects}", plural(counts.copies(), "copy", "copies"))
        }
        Some(Part::Events) => {
            let events = plural(counts.events, "event", "events");
            if counts.watches < 1.0 {
                format!("{events} went to watches")
            } else {
                format!("{events} went to watches, {watches} open now")
            }
        }
        None if counts.watches >= 1.0 => format!("{watches} without events"),
        None => "clients rarely read the resource".to_owned(),
    }
}

/// A rounded count with its noun: `one` if the count is 1, otherwise `many`.
fn plural(count: f64, one: &str, many: &str) -> String {
    let count = count.round();
    format!("{} {}", number(count), if count == 1.0 { one } else { many })
}

/// A count as text: `1,234,567`. Fractions are rounded, and negative counts are 0.
pub fn number(count: f64) -> String {
    let digits = format!("{:.0}", count.max(0.0));
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration as text, with two or more digits: `0.62 ms`, `41 ms`, `3.1 s`, `5,310 s`.
pub fn duration(seconds: f64) -> String {
    let (amount, unit) = if seconds < 1.0 { (seconds * 1000.0, "ms") } else { (seconds, "s") };
    let amount = match amount {
        amount if amount <= 0.0 => "0".to_owned(),
        amount if amount < 1.0 => format!("{amount:.2}"),
        amount if amount < 10.0 => format!("{amount:.1}"),
        amount => number(amount),
    };
    format!("{amount} {unit}")
}
