//! Questions to the caller during its call.
//!
//! Inside the hub a question has the form of revision 2026-07-28. The adapters for clients and servers of other
//! revisions translate it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::RawJson;

/// The most questions in one request.
pub const MAX_QUESTIONS: usize = 16;

/// The extension by which a client accepts a task in place of a result.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The kind of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inquiry {
    /// Input or an action of the user.
    Elicit,
    /// A message from the client's model.
    Sample,
    /// The folders that the client works in.
    Roots,
}

impl Inquiry {
    /// The MCP method of the question.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Elicit => "elicitation/create",
            Self::Sample => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    #[must_use]
    pub fn from_method(method: &str) -> Option<Self> {
        [Self::Elicit, Self::Sample, Self::Roots].into_iter().find(|inquiry| inquiry.as_str() == method)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Identifies the question within its request.
    pub key: String,
    pub inquiry: Inquiry,
    /// An object.
    pub params: Option<RawJson>,
}

impl Question {
    fn param(&self, name: &str) -> Option<Value> {
        let mut params: Map<String, Value> = self.params.as_ref()?.parsed().ok()?;
        params.remove(name)
    }

    /// Whether it only sends the user to a web page.
    #[must_use]
    pub fn is_url(&self) -> bool {
        self.inquiry == Inquiry::Elicit && self.param("mode") == Some(Value::from("url"))
    }
}

/// A client's answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The result for the question, an object.
    Result(RawJson),
    Error {
        code: i64,
        message: String,
        data: Option<Value>,
    },
}

/// By the keys of the questions.
pub type Answers = BTreeMap<String, Answer>;

/// Why a question was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskError {
    /// The client lacks these capabilities.
    Incapable(Capabilities),
    /// Too many questions are open.
    TooMany(&'static str),
    /// The answer did not arrive in time.
    Expired,
    /// The call was cancelled, the client disconnected, or the hub is stopping.
    Gone,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incapable(lacking) => write!(f, "the client of this call cannot be asked: {lacking}"),
            Self::TooMany(why) => f.write_str(why),
            Self::Expired => f.write_str("nobody answered in time"),
            Self::Gone => f.write_str("the client is gone"),
        }
    }
}

/// The kinds of questions that a client can answer, and whether it accepts tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// Elicitation by a form.
    pub form: bool,
    /// Elicitation by a web page.
    pub url: bool,
    pub sampling: bool,
    pub sampling_tools: bool,
    pub sampling_context: bool,
    pub roots: bool,
    pub tasks: bool,
}

impl Capabilities {
    /// As a client declares them.
    #[must_use]
    pub fn read(json: &Value) -> Self {
        let has = |parent: &Value, name: &str| parent.get(name).is_some_and(Value::is_object);
        let (elicitation, sampling) = (&json["elicitation"], &json["sampling"]);
        let url = has(elicitation, "url");
        Self {
            // A client that declares no mode predates modes and supports forms.
            form: has(elicitation, "form") || (elicitation.is_object() && !url),
            url,
            sampling: sampling.is_object(),
            sampling_tools: has(sampling, "tools"),
            sampling_context: has(sampling, "context"),
            roots: has(json, "roots"),
            tasks: json.get("extensions").is_some_and(|extensions| has(extensions, TASKS)),
        }
    }

    /// As a client of 2026-07-28 declares them.
    #[must_use]
    pub fn to_json(self) -> Value {
        let set = |members: &[(&str, bool)]| -> Value {
            members.iter().filter(|(_, has)| *has).map(|(name, _)| ((*name).to_owned(), json!({}))).collect()
        };
        let mut json = Map::new();
        if self.form || self.url {
            json.insert("elicitation".to_owned(), set(&[("form", self.form), ("url", self.url)]));
        }
        if self.sampling {
            let more = [("tools", self.sampling_tools), ("context", self.sampling_context)];
            json.insert("sampling".to_owned(), set(&more));
        }
        if self.roots {
            json.insert("roots".to_owned(), json!({}));
        }
        if self.tasks {
            json.insert("extensions".to_owned(), json!({ TASKS: {} }));
        }
        Value::Object(json)
    }

    /// The capabilities for this question that a client with these lacks.
    #[must_use]
    pub fn lacks(self, question: &Question) -> Option<Self> {
        let mut lacking = Self::default();
        match question.inquiry {
            Inquiry::Elicit if question.is_url() => lacking.url = !self.url,
            Inquiry::Elicit => lacking.form = !self.form,
            Inquiry::Sample => {
                let tools = question.param("tools").is_some() || question.param("toolChoice").is_some();
                lacking.sampling_tools = tools && !self.sampling_tools;
                // The base capability is included: neither is declared without the other.
                lacking.sampling = !self.sampling || lacking.sampling_tools;
            }
            Inquiry::Roots => lacking.roots = !self.roots,
        }
        (!lacking.is_empty()).then_some(lacking)
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// The union of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            form: self.form || other.form,
            url: self.url || other.url,
            sampling: self.sampling || other.sampling,
            sampling_tools: self.sampling_tools || other.sampling_tools,
            sampling_context: self.sampling_context || other.sampling_context,
            roots: self.roots || other.roots,
            tasks: self.tasks || other.tasks,
        }
    }
}

/// Their names as in the specification.
impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            ("elicitation", self.form),
            ("elicitation.url", self.url),
            ("sampling", self.sampling && !self.sampling_tools),
            ("sampling.tools", self.sampling_tools),
            ("sampling.context", self.sampling_context),
            ("roots", self.roots),
            ("tasks", self.tasks),
        ];
        let names: Vec<&str> = names.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
        f.write_str(&names.join(", "))
    }
}

/// Forwards questions to the client of one call.
pub trait Ask: Send + Sync + 'static {
    fn capabilities(&self) -> Capabilities;

    /// Completes when all are answered. Dropping the future stops waiting, but the questions may still be answered.
    fn ask(&self, questions: Vec<Question>) -> BoxFuture<'static, Result<Answers, AskError>>;
}

pub type SharedAsk = Arc<dyn Ask>;

/// The severity of a log line, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

/// A log line that another server sent to its client.
#[derive(Debug, Clone)]
pub struct LogLine {
    pub level: LogLevel,
    /// The complete message, an object, unchanged.
    pub params: RawJson,
}

/// Receives log lines for a caller.
#[derive(Clone)]
pub struct LogSink {
    /// The minimum level.
    pub least: LogLevel,
    /// Must not block; a sink that cannot keep up drops lines.
    pub sink: Arc<dyn Fn(LogLine) + Send + Sync>,
}

impl LogSink {
    /// Passes a line on if it is wanted.
    pub fn say(&self, line: LogLine) {
        if line.level >= self.least {
            (self.sink)(line);
        }
    }
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSink").field("least", &self.least).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
