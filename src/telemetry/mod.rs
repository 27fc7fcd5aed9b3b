//! Logs: tracing-subscriber on stderr, so that stdout stays for what a command answers.
//!
//! Levels: WARN says that something was recovered, ERROR that someone must act, nothing per event above TRACE.

mod json;

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One flat JSON object a line.
    Json,
}

/// Starts logging for the whole process. `filter` is in tracing's directive syntax, such as `info,fieldcache=debug`.
///
/// # Errors
/// The text of what is wrong with the filter, or that logging was started already.
pub fn start(filter: &str, format: LogFormat, colors: bool) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("--log {filter:?}: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colors);
    match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.event_format(json::FlatJson).try_init(),
    }
    .map_err(|error| error.to_string())
}
