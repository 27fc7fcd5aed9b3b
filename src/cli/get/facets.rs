//! `--count` and `--facets`: numbers of objects, and a histogram for each field in plain text. Its bars are for people:
//! without a terminal, they are left out.

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments::GetArguments;
use super::document;
use super::requests::Requests;
use super::streams::Streams;
use super::table::Alignment;
use crate::cli::exit::Exit;
use crate::cli::shared_arguments::OutputFormat;
use crate::source::discovery::Discovered;
use crate::wire::facets::{GROUP, VERSION};

/// The shortest longest bar, in characters.
const LEAST_BAR: usize = 10;

/// Facets of a server, as far as they are printed.
#[derive(Debug, Deserialize)]
pub(super) struct Facets {
    total: u64,
    facets: Vec<Facet>,
}

/// The values of a field.
#[derive(Debug, Deserialize)]
struct Facet {
    field: String,
    /// The number of different values.
    distinct: u64,
    values: Vec<FacetValue>,
    /// The sum of the numbers of objects over the values that are not in `values`.
    other: u64,
    /// The number of objects without a value.
    absent: u64,
    /// The number of objects whose values are unknown.
    #[serde(default)]
    unknown: u64,
}

/// A value and the number of objects that have it.
#[derive(Debug, Deserialize)]
struct FacetValue {
    value: String,
    count: u64,
}

/// Prints the number of objects, or the facets of fields. [`Exit::No`] if no object is selected.
///
/// # Errors
/// The server has no Facets, the request fails, or the response is invalid.
pub(super) async fn print(
    requests: &mut Requests<'_>,
    resource: &Discovered,
    arguments: &GetArguments,
    streams: &mut Streams<'_>,
) -> anyhow::Result<Exit> {
    let fields = arguments.facets.as_deref();
    let found = match requests.facets(resource, fields, streams).await? {
        Some(found) => found,
        None if fields.is_some() => bail!(requests.ignored("--facets", resource)),
        None => match requests.remaining_count(resource, streams).await? {
            Some(total) => {
                json!({ "kind": "Facets", "apiVersion": format!("{GROUP}/{VERSION}"), "total": total, "facets": [] })
            }
            None => bail!(requests.ignored("selectors with --count", resource)),
        },
    };
    let facets = Facets::deserialize(&found).with_context(|| format!("{}: Facets", requests.connection.url()))?;
    streams.print(&text(&found, &facets, arguments, streams.width))?;
    Ok(if facets.total == 0 { Exit::No } else { Exit::Done })
}

/// Facets in the format of the options. `found` is their document, and `width` the number of characters of a line;
/// `None` for no bars.
pub(super) fn text(found: &Value, facets: &Facets, arguments: &GetArguments, width: Option<usize>) -> String {
    match arguments.output {
        OutputFormat::Json | OutputFormat::Yaml => document::printed(found, arguments.output),
        _ if arguments.count => format!("{}\n", facets.total),
        OutputFormat::Name => facets.selectors(),
        OutputFormat::Table | OutputFormat::Wide => facets.histograms(!arguments.no_headers, width),
    }
}

impl Facets {
    /// A field selector for each value, one per line.
    fn selectors(&self) -> String {
        let of = |facet: &Facet| {
            let lines = facet.values.iter().map(|found| format!("{}={}\n", facet.field, escaped(&found.value)));
            lines.collect::<String>()
        };
        self.facets.iter().map(of).collect()
    }

    /// A histogram for each field, with a blank line after it, and the total.
    fn histograms(&self, has_headers: bool, width: Option<usize>) -> String {
        let mut text = String::new();
        for facet in &self.facets {
            text.push_str(&facet.histogram(has_headers, width));
            text.push('\n');
        }
        text.push_str(&format!("total: {}\n", self.total));
        text
    }
}

impl Facet {
    /// A line for each value: value, number of objects, and a bar, if there is a width. The longest bar fills the line.
    /// The last lines are those of all other values, and of objects without a value or with unknown ones, if there are any.
    fn histogram(&self, has_headers: bool, width: Option<usize>) -> String {
        let shown = u64::try_from(self.values.len()).unwrap_or(u64::MAX);
        let others = self.distinct.saturating_sub(shown);
        let other = match others {
            1 => "<1 other value>".to_owned(),
            _ => format!("<{others} other values>"),
        };
        let rest = [(other, self.other), ("<none>".to_owned(), self.absent), ("<unknown>".to_owned(), self.unknown)];
        let values = self.values.iter().map(|found| (found.value.clone(), found.count));
        let counts: Vec<(String, u64)> = values.chain(rest.into_iter().filter(|(_, count)| *count > 0)).collect();
        let mut rows: Vec<Vec<String>> = Vec::new();
        if has_headers {
            rows.push(vec![self.field.clone(), "COUNT".to_owned(), String::new()]);
        }
        rows.extend(counts.iter().map(|(value, count)| vec![value.clone(), count.to_string(), String::new()]));
        let mut alignment = Alignment::default();
        alignment.print(&rows);
        let without_blanks = |text: &str| text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        let Some(width) = width else { return without_blanks(&alignment.print(&rows)) };
        let most = counts.iter().map(|(_, count)| *count).max().unwrap_or_default();
        let longest = width.saturating_sub(alignment.width()).max(LEAST_BAR);
        for (row, (_, count)) in rows.iter_mut().skip(usize::from(has_headers)).zip(&counts) {
            if let Some(bar) = row.last_mut() {
                *bar = "#".repeat(bar_length(*count, most, longest));
            }
        }
        without_blanks(&alignment.print(&rows))
    }
}

/// The length of the bar of `count`, if that of `most` is `longest`. At least 1, so that no count looks like 0.
fn bar_length(count: u64, most: u64, longest: usize) -> usize {
    let scaled = u128::from(count) * longest as u128 / u128::from(most.max(1));
    usize::try_from(scaled).unwrap_or(longest).clamp(usize::from(count > 0), longest)
}

/// A value with the escapes of a field selector.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}
