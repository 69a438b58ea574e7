//! Asking the caller something in the middle of its call.
//!
//! Inside the hub a question has the form that it has in revision 2026-07-28. Whoever brings it to a client, or hears it
//! from a server, of another era translates.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::RawJson;

/// Questions that are asked together at most.
pub const MAX_QUESTIONS: usize = 16;

/// The extension by which a client takes a task in place of a result.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inquiry {
    /// Something that a person knows or does.
    Elicit,
    /// A message by the client's model.
    Sample,
    /// The folders that the client works in.
    Roots,
}

impl Inquiry {
    /// The method of MCP that asks for it.
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
    /// Tells the questions apart that are asked together.
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

    /// Whether it sends a person to a web page, and wants to know no more than that.
    #[must_use]
    pub fn is_url(&self) -> bool {
        self.inquiry == Inquiry::Elicit && self.param("mode") == Some(Value::from("url"))
    }
}

/// What a client said to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The result that goes with the question, an object.
    Result(RawJson),
    Error {
        code: i64,
        message: String,
        data: Option<Value>,
    },
}

/// By the keys of the questions.
pub type Answers = BTreeMap<String, Answer>;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unasked {
    /// The client cannot be asked: this is what it lacks.
    Incapable(Capabilities),
    /// More is open already than may be.
    TooMany(&'static str),
    /// Nobody answered in time.
    Expired,
    /// The call is cancelled, its client is gone, or the hub stops.
    Gone,
}

impl fmt::Display for Unasked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incapable(lacking) => write!(f, "the client of this call cannot be asked: {lacking}"),
            Self::TooMany(why) => f.write_str(why),
            Self::Expired => f.write_str("nobody answered in time"),
            Self::Gone => f.write_str("the client is gone"),
        }
    }
}

/// What a client can be asked, and whether it takes tasks.
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
            // One that says no more is as old as the form.
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

    /// What a client with these would need in addition to be asked this.
    #[must_use]
    pub fn lacks(self, question: &Question) -> Option<Self> {
        let mut lacking = Self::default();
        match question.inquiry {
            Inquiry::Elicit if question.is_url() => lacking.url = !self.url,
            Inquiry::Elicit => lacking.form = !self.form,
            Inquiry::Sample => {
                let tools = question.param("tools").is_some() || question.param("toolChoice").is_some();
                lacking.sampling_tools = tools && !self.sampling_tools;
                // Its base is named with it: nothing declares the one without the other.
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

    /// Those of both.
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

/// Their names, as a person would look for them in a specification.
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

/// Brings questions to the client of one call.
pub trait Ask: Send + Sync + 'static {
    fn capabilities(&self) -> Capabilities;

    /// Ends when all are answered. Whoever drops it no longer waits; the questions may be answered all the same.
    fn ask(&self, questions: Vec<Question>) -> BoxFuture<'static, Result<Answers, Unasked>>;
}

pub type SharedAsk = Arc<dyn Ask>;

/// How grave a line of a log is, the least grave first.
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

/// A line that another server wrote to the log of its client.
#[derive(Debug, Clone)]
pub struct LogLine {
    pub level: LogLevel,
    /// All of it, an object, as it came.
    pub params: RawJson,
}

/// Where a caller reads the log of what it calls.
#[derive(Clone)]
pub struct LogSink {
    /// Nothing below this is wanted.
    pub least: LogLevel,
    /// It must not block; a sink that cannot keep up drops what it gets.
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
