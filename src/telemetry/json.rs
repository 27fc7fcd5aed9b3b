//! Log lines as JSON: one object without nested objects in each line, with `ts` (RFC 3339), `level`, `msg`, the fields
//! of the event, and `target`.

use std::fmt;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes each log event as one line of JSON, with the fields that the module names. Spans are ignored: the program
/// has none.
pub(super) struct FlatJson;

impl<S, N> FormatEvent<S, N> for FlatJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let (level, target) = (metadata.level().as_str().to_ascii_lowercase(), metadata.target());
        writeln!(writer, "{}", line(&format!("{:.6}", jiff::Timestamp::now()), &level, target, &fields))
    }
}

/// The fields of an event, in its order.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Adds a field of an event. The field `message` is the message; values of other types than string are written as
    /// JSON.
    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            ("message", value) => self.message = value.to_string(),
            (name, value) => self.others.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }
}

/// A log line as JSON, without a line end.
fn line(time: &str, level: &str, target: &str, fields: &Fields) -> String {
    let first = [("ts", time.into()), ("level", level.into()), ("msg", Value::from(&*fields.message))];
    let last = [("target", Value::from(target))];
    let mut text = String::from("{");
    for (name, value) in first.iter().chain(&fields.others).chain(&last) {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&Value::from(*name).to_string());
        text.push(':');
        text.push_str(&value.to_string());
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_flat_object() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt().event_format(FlatJson).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let error = "a \"quoted\"\nline";
            tracing::info!(objects = 3_u64, lag = -1_i64, share = 0.5, leads = true, resource = "pods", %error, kind = ?Some(1), "loaded");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let (time, rest) = text.split_at(text.find(",\"level\"").unwrap());
        assert!(time.starts_with("{\"ts\":\"20") && time.ends_with("Z\""), "{time}");
        assert_eq!(
            rest,
            ",\"level\":\"info\",\"msg\":\"loaded\",\"objects\":3,\"lag\":-1,\"share\":0.5,\"leads\":true,\"resource\":\"pods\",\
             \"error\":\"a \\\"quoted\\\"\\nline\",\"kind\":\"Some(1)\",\"target\":\"fieldcache::telemetry::json::tests\"}\n"
        );
    }
}
