//! The daemon's log: lines on a terminal, JSON objects elsewhere.
//!
//! A thread of its own writes it (`writer.rs`), so that a reader that stalls stops no request. The
//! other commands have no log, and write to standard error themselves.

mod writer;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::{self, Debug, Write};
use std::io::{self, IsTerminal, Write as _};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use selfsame_actors::{ACTOR_SPANS, Clock, SystemClock};
use serde::{Deserialize, Serialize};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FormatFields, FormattedFields, layer};
use tracing_subscriber::layer::{Filter, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry};
pub use writer::LogLosses;
use writer::{LineKind, Lines, LogWriter};

/// The log filter unless `RUST_LOG` is set.
const DEFAULT_FILTER: &str = "info";

/// Bytes that hold the fields of most spans.
const SPAN_BYTES: usize = 160;

/// How long the end of the process waits until the log is written.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// What writes the log of this process, once it is started.
static WRITER: OnceLock<Arc<LogWriter>> = OnceLock::new();

/// When an end of the process no longer waits for the log.
static END: OnceLock<Instant> = OnceLock::new();

/// The log cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// `RUST_LOG` is not a filter.
    #[error(transparent)]
    Filter(#[from] InvalidFilter),
    /// The system refuses to start the thread that writes.
    #[error("the thread that writes the log cannot be started: {0}")]
    Thread(io::Error),
}

/// `RUST_LOG` is not a log filter.
#[derive(Debug, thiserror::Error)]
#[error(
    "RUST_LOG is {text:?}, which is not a log filter: {reason}; write it like info or warn,selfsame=debug,audit=info"
)]
pub struct InvalidFilter {
    text: String,
    reason: String,
}

/// How lines of the log are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// As text on a terminal, as JSON elsewhere.
    #[default]
    Auto,
    /// As text for people.
    Text,
    /// As a JSON object on each line.
    Json,
}

/// What records traces beside the log.
pub type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts the log of this process, on the standard error. `RUST_LOG` sets the filter. `traces` gets
/// the spans and events of this program, whatever the log shows. `clock` says when lines were lost.
/// The messages of panics take the log's way from then on.
///
/// # Errors
/// `RUST_LOG` is not a filter. A daemon that started without the log that its operator wants would
/// be noticed too late.
pub fn start(format: LogFormat, traces: Option<BoxedLayer>, clock: Arc<dyn Clock>) -> Result<(), LogError> {
    let wanted = wanted_filter();
    let writer = writer(clock).map_err(LogError::Thread)?;
    print_panics(writer);
    match traces {
        None => Registry::default().with(filter(&wanted)?).with(lines(format, writer)).init(),
        Some(traces) => {
            // A trace has what a client waits for. The spans of actors are for lines of the log.
            let recorded =
                Targets::new().with_target("selfsame", LevelFilter::DEBUG).with_target(ACTOR_SPANS, LevelFilter::OFF);
            let shown = filter_of_layer(&wanted)?;
            Registry::default()
                .with(traces.with_filter(recorded))
                .with(lines(format, writer).with_filter(shown))
                .init();
        }
    }
    Ok(())
}

/// The lines of this process that its log lacks. There are none before [`start`].
pub fn losses() -> LogLosses {
    WRITER.get().map(|writer| writer.losses()).unwrap_or_default()
}

/// Waits until the log is written, for at most a second in the whole process: for its end.
pub fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush(end());
    }
}

/// Flushes the log when it is dropped, also when a panic ends the process.
pub struct FlushOnDrop;

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        flush();
    }
}

/// Writes the text with which the process ends behind everything else. [`flush`] follows.
pub fn print_last(text: &str) {
    // A process that ends before its log is started has the same reader.
    match writer(Arc::new(SystemClock)) {
        Ok(writer) => {
            writer.flush(end());
            writer.push(LineKind::AuditOrError, text.as_bytes());
        }
        // `eprint!` panics when standard error cannot be written; this ignores the error.
        Err(_) => drop(io::stderr().write_all(text.as_bytes())),
    }
}

fn end() -> Instant {
    *END.get_or_init(|| Instant::now() + END_TIMEOUT)
}

/// What writes the log, which the first call starts.
fn writer(clock: Arc<dyn Clock>) -> io::Result<&'static Arc<LogWriter>> {
    match WRITER.get() {
        Some(writer) => Ok(writer),
        None => LogWriter::start(clock).map(|writer| WRITER.get_or_init(|| writer)),
    }
}

/// The standard library prints the message of a panic itself, and would wait for the reader.
fn print_panics(writer: &'static LogWriter) {
    std::panic::set_hook(Box::new(move |panic| {
        let thread = thread::current();
        let mut text = format!("\nthread '{}' {panic}\n", thread.name().unwrap_or("<unnamed>"));
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text.push_str(&format!("stack backtrace:\n{backtrace}"));
        }
        writer.push(LineKind::AuditOrError, text.as_bytes());
    }));
}

/// The layer that formats the lines.
fn lines<S>(format: LogFormat, writer: &Arc<LogWriter>) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let lines = layer().with_writer(Lines(Arc::clone(writer))).log_internal_errors(false);
    let is_terminal = io::stderr().is_terminal();
    match format {
        // Control characters for colours belong to terminals only.
        LogFormat::Text => lines.with_ansi(is_terminal).boxed(),
        LogFormat::Auto if is_terminal => lines.boxed(),
        LogFormat::Auto | LogFormat::Json => lines.json().fmt_fields(JsonFields).boxed(),
    }
}

/// Checks what [`start`] refuses.
pub fn check_filter() -> Result<(), InvalidFilter> {
    filter(&wanted_filter()).map(drop)
}

fn wanted_filter() -> String {
    std::env::var_os(EnvFilter::DEFAULT_ENV)
        .map_or_else(|| DEFAULT_FILTER.to_owned(), |text| text.to_string_lossy().into_owned())
}

/// The filter that `wanted` describes.
///
/// A filter by module and level alone does not look at the spans that each request enters and
/// leaves, so it costs less. `EnvFilter` also understands filters by span.
fn filter(wanted: &str) -> Result<Box<dyn Layer<Registry> + Send + Sync>, InvalidFilter> {
    // `Targets` would take the brackets of a filter by span for a part of a module's name.
    let names_a_span = wanted.contains('[');
    match wanted.parse::<Targets>() {
        Ok(targets) if !names_a_span && !wanted.is_empty() => Ok(targets.boxed()),
        _ => span_filter(wanted).map(Layer::boxed),
    }
}

/// The same filter for one layer beside others, which costs more than one for all.
fn filter_of_layer<S>(wanted: &str) -> Result<Box<dyn Filter<S> + Send + Sync>, InvalidFilter>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let names_a_span = wanted.contains('[');
    match wanted.parse::<Targets>() {
        Ok(targets) if !names_a_span && !wanted.is_empty() => Ok(Box::new(targets)),
        _ => Ok(Box::new(span_filter(wanted)?)),
    }
}

fn span_filter(wanted: &str) -> Result<EnvFilter, InvalidFilter> {
    let builder = EnvFilter::builder().with_default_directive(LevelFilter::ERROR.into());
    let invalid = |error: ParseError| InvalidFilter { text: wanted.to_owned(), reason: error.to_string() };
    builder.parse(wanted).map_err(invalid)
}

/// Writes the fields of a span as a JSON object.
///
/// Every request opens a span, most requests log nothing inside it, and the library's own formatter
/// collects the fields in a map of JSON values first. That was a tenth of the cost of a small read.
struct JsonFields;

impl<'writer> FormatFields<'writer> for JsonFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        // The library gives a buffer without capacity; one write makes it grow once.
        let mut object = String::with_capacity(SPAN_BYTES);
        object.push('{');
        write_fields(&mut object, &fields, true)?;
        object.push('}');
        writer.write_str(&object)
    }

    fn add_fields(&self, current: &'writer mut FormattedFields<Self>, fields: &Record<'_>) -> fmt::Result {
        let is_first = current.fields.len() <= "{}".len();
        if current.fields.is_empty() {
            current.fields.push('{');
        } else {
            current.fields.pop();
        }
        let mut writer = current.as_writer();
        write_fields(&mut writer, fields, is_first)?;
        writer.write_char('}')
    }
}

fn write_fields(writer: &mut dyn Write, fields: &impl RecordFields, is_first: bool) -> fmt::Result {
    let mut visitor = JsonVisitor { writer, is_first, result: Ok(()) };
    fields.record(&mut visitor);
    visitor.result
}

/// Writes fields as the members of a JSON object, separated by commas.
struct JsonVisitor<'a> {
    writer: &'a mut dyn Write,
    is_first: bool,
    result: fmt::Result,
}

impl JsonVisitor<'_> {
    /// Writes a member whose value is JSON already.
    fn write_member(&mut self, field: &Field, json: fmt::Arguments<'_>) {
        let separator = if std::mem::take(&mut self.is_first) { "" } else { "," };
        // The name of a field is an identifier of the program.
        self.result = self.result.and_then(|()| write!(self.writer, "{separator}\"{}\":{json}", field.name()));
    }
}

impl Visit for JsonVisitor<'_> {
    fn record_str(&mut self, field: &Field, text: &str) {
        let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\');
        if is_plain {
            self.write_member(field, format_args!("\"{text}\""));
        } else {
            self.write_member(field, format_args!("{}", serde_json::Value::from(text)));
        }
    }

    fn record_u64(&mut self, field: &Field, number: u64) {
        self.write_member(field, format_args!("{number}"));
    }

    fn record_i64(&mut self, field: &Field, number: i64) {
        self.write_member(field, format_args!("{number}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write_member(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    /// A log in memory.
    #[derive(Clone, Default)]
    struct MemoryLog(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for MemoryLog {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for MemoryLog {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn filters_select_by_level_by_module_and_by_span() {
        let all = ["error", "info", "debug", "debug of a module", "debug in a span"];
        for (wanted, expected) in [
            (DEFAULT_FILTER, &all[..2]),
            ("error", &all[..1]),
            ("debug", &all[..]),
            ("off", &[]),
            ("", &all[..1]),
            ("info,one::module=debug", &[all[0], all[1], all[3]]),
            ("info,[request]=debug", &[all[0], all[1], all[4]]),
        ] {
            let log = MemoryLog::default();
            let lines = layer().json().fmt_fields(JsonFields).with_writer(log.clone());
            tracing::subscriber::with_default(Registry::default().with(filter(wanted).unwrap()).with(lines), || {
                tracing::error!("error");
                tracing::info!("info");
                tracing::debug!("debug");
                tracing::debug!(target: "one::module", "debug of a module");
                tracing::error_span!("request").in_scope(|| tracing::debug!("debug in a span"));
            });
            let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            let messages: Vec<_> = lines.map(|line| line["fields"]["message"].clone()).collect();
            assert_eq!(messages, expected, "{wanted:?}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_filter_is_refused() {
        for wanted in ["info,selfsame=loud", "[request", "selfsame=info=debug"] {
            let error = filter(wanted).err().expect("refused").to_string();
            assert!(error.contains(wanted) && error.contains("write it like"), "{error}");
        }
    }

    #[test]
    fn the_fields_of_a_span_are_json_whatever_they_contain() {
        let log = MemoryLog::default();
        let subscriber = tracing_subscriber::fmt().json().fmt_fields(JsonFields).with_writer(log.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let text = "a \"quoted\"\\ line\nand ü";
            let span = tracing::error_span!("request", text, number = 7, is_good = true, shown = ?Some(1), later = tracing::field::Empty);
            span.record("later", "x\ty");
            span.in_scope(|| tracing::error!("inside"));
            tracing::error_span!("empty", first = tracing::field::Empty).in_scope(|| {
                tracing::Span::current().record("first", -1);
                tracing::error!("inside");
            });
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let expected = json!({
            "name": "request", "text": "a \"quoted\"\\ line\nand ü", "number": 7, "is_good": true, "shown": "Some(1)",
            "later": "x\ty",
        });
        assert_eq!(lines[0]["span"], expected);
        assert_eq!(lines[1]["span"], json!({"name": "empty", "first": -1}));
    }
}
