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

/// The minimum length of the longest bar, in characters, also if the line of the terminal has less space.
const LEAST_BAR: usize = 10;

/// The kind Facets that a server returns, with the members that are printed.
#[derive(Debug, Deserialize)]
pub(super) struct Facets {
    /// The number of selected objects.
    total: u64,
    /// One facet for each requested field.
    facets: Vec<Facet>,
}

/// The values of a field.
#[derive(Debug, Deserialize)]
struct Facet {
    /// The name of the field.
    field: String,
    /// The number of different values.
    distinct: u64,
    /// The most frequent values, at most as many as `--facet-limit`.
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

/// Prints the number of objects (`--count`), or the facets of fields (`--facets`). Returns [`Exit::No`] if no object is
/// selected.
///
/// # Errors
/// The server returns neither Facets nor, for `--count`, a number of objects. The request fails, or the response is
/// invalid.
pub(super) async fn print(
    requests: &mut Requests<'_>,
    resource: &Discovered,
    arguments: &GetArguments,
    streams: &mut Streams<'_>,
) -> anyhow::Result<Exit> {
    let fields = arguments.facets.as_deref();
    let document = match requests.facets(resource, fields, streams).await? {
        Some(document) => document,
        None if fields.is_some() => bail!(requests.ignored("--facets", resource)),
        // A server without Facets, such as kube-apiserver, can still return a number for `--count`.
        None => match requests.remaining_count(resource, streams).await? {
            Some(total) => {
                json!({ "kind": "Facets", "apiVersion": format!("{GROUP}/{VERSION}"), "total": total, "facets": [] })
            }
            None => bail!(requests.ignored("selectors with --count", resource)),
        },
    };
    let facets = Facets::deserialize(&document).with_context(|| format!("{}: Facets", requests.connection.url()))?;
    streams.print(&text(&document, &facets, arguments, streams.width))?;
    Ok(if facets.total == 0 { Exit::No } else { Exit::Done })
}

/// Facets in the format of the options. `whole` is the document from which `facets` was read; JSON and YAML print all
/// of it. `width` is the number of characters of a line; `None` for no bars.
pub(super) fn text(whole: &Value, facets: &Facets, arguments: &GetArguments, width: Option<usize>) -> String {
    match arguments.output {
        OutputFormat::Json | OutputFormat::Yaml => document::printed(whole, arguments.output),
        _ if arguments.count => format!("{}\n", facets.total),
        OutputFormat::Name => facets.selectors(),
        OutputFormat::Table | OutputFormat::Wide => facets.histograms(!arguments.no_headers, width),
    }
}

impl Facets {
    /// A field selector for each value, one per line.
    fn selectors(&self) -> String {
        let lines = |facet: &Facet| {
            let lines = facet.values.iter().map(|value| format!("{}={}\n", facet.field, escaped(&value.value)));
            lines.collect::<String>()
        };
        self.facets.iter().map(lines).collect()
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
    /// A line for each value: the value, the number of objects, and a bar. `width` is the number of characters of a
    /// line, which the longest bar fills; `None` for no bars. Up to three lines follow: for all other values, for
    /// objects without a value, and for objects whose values are unknown. A line without objects is left out.
    fn histogram(&self, has_headers: bool, width: Option<usize>) -> String {
        let shown = u64::try_from(self.values.len()).unwrap_or(u64::MAX);
        let others = self.distinct.saturating_sub(shown);
        let other = match others {
            1 => "<1 other value>".to_owned(),
            _ => format!("<{others} other values>"),
        };
        let last = [(other, self.other), ("<none>".to_owned(), self.absent), ("<unknown>".to_owned(), self.unknown)];
        let values = self.values.iter().map(|value| (value.value.clone(), value.count));
        let counts: Vec<(String, u64)> = values.chain(last.into_iter().filter(|(_, count)| *count > 0)).collect();
        let mut rows: Vec<Vec<String>> = Vec::new();
        if has_headers {
            rows.push(vec![self.field.clone(), "COUNT".to_owned(), String::new()]);
        }
        rows.extend(counts.iter().map(|(value, count)| vec![value.clone(), count.to_string(), String::new()]));
        let mut alignment = Alignment::default();
        // Measures the columns before the bars: `alignment.width` is needed to find the length of the bars.
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

/// The length of the bar of `count`, in proportion to the greatest count `most`, whose bar has the length `longest`. At
/// least 1 for a count above 0, so that it does not look like 0.
fn bar_length(count: u64, most: u64, longest: usize) -> usize {
    let scaled = u128::from(count) * longest as u128 / u128::from(most.max(1));
    usize::try_from(scaled).unwrap_or(longest).clamp(usize::from(count > 0), longest)
}

/// A value with the escapes of a field selector.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}
