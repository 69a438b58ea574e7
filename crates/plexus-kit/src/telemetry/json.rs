//! JSON log lines: one flat object per line.
//!
//! Fields of the event and of all enclosing spans are merged; the innermost takes precedence. Thus
//! `request_id` and `call_id` are at the same place in every line.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

pub(super) struct Lines;

impl<S> FormatEvent<S, JsonFields> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let known = extensions.get::<FormattedFields<JsonFields>>();
            if let Some(Ok(Value::Object(known))) = known.map(|known| serde_json::from_str(&known.fields)) {
                fields.0.extend(known);
            }
        }
        event.record(&mut fields);
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let message = fields.0.remove("message").unwrap_or_else(|| Value::from(""));
        let (level, target) = (event.metadata().level(), event.metadata().target());
        write!(
            writer,
            "{{\"timestamp\":{},\"level\":\"{level}\",\"target\":{},\"message\":{message}",
            Value::from(timestamp),
            Value::from(target),
        )?;
        for (name, value) in fields.0.iter().filter(|(name, _)| !RESERVED.contains(&name.as_str())) {
            write!(writer, ",{}:{value}", Value::from(name.as_str()))?;
        }
        writeln!(writer, "}}")
    }
}

/// Reserved names, present in every line.
const RESERVED: [&str; 4] = ["timestamp", "level", "target", "message"];

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }
}
