//! Logs: tracing-subscriber on stderr, so that stdout has the output of commands only.
//!
//! Levels: WARN means that an error is handled, ERROR that an administrator must act. Only TRACE has lines for single
//! watch events.

mod json;

use tracing_subscriber::EnvFilter;

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text, for people.
    Text,
    /// One JSON object without nested objects in each line.
    Json,
}

/// Starts logging for the whole process. `filter` is in tracing's directive syntax, such as `info,fieldcache=debug`.
/// `colors`: text has the escape sequences of terminals for colors.
///
/// # Errors
/// The filter is invalid, or logging was started before.
pub fn start(filter: &str, format: LogFormat, colors: bool) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("--log {filter:?}: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colors);
    match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.event_format(json::FlatJson).try_init(),
    }
    .map_err(|error| error.to_string())
}
