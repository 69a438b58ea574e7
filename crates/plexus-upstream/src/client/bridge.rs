//! What passes between a server and the client on whose behalf it is asked: questions, log lines, and everything that is
//! no tool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use plexus_kit::TraceContext;
use plexus_tools::{Answer, Capabilities, ForeignOutput, Inquiry, LogSink, Question, RawJson};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// Whoever a request is for, as far as its server may speak to it.
#[derive(Clone, Default)]
pub struct Bridge {
    /// Subject and session: requests of one caller may stand for each other. None where nothing may be told to it.
    pub caller: Option<Arc<str>>,
    pub answerer: Option<Arc<dyn Answerer>>,
    /// What the listener knows the request by.
    pub number: u64,
    pub capabilities: Capabilities,
    pub log: Option<LogSink>,
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").field("capabilities", &self.capabilities).finish_non_exhaustive()
    }
}

impl Bridge {
    /// Somebody was asked in the course of the request: it cannot be made again as if nobody had been.
    pub(super) fn has_asked(&self) -> bool {
        self.answerer.as_ref().is_some_and(|answerer| answerer.has_asked())
    }
}

/// Answers what a server asks in the middle of a request.
pub trait Answerer: Send + Sync + 'static {
    /// A server asks; the question has the form that it has in the server's era.
    fn ask(&self, inquiry: Inquiry, params: Option<RawJson>) -> BoxFuture<'static, Answer>;

    /// The question of another request may have been about this one.
    fn note_asked(&self) {}

    /// Somebody was asked, or may have been.
    fn has_asked(&self) -> bool {
        false
    }

    /// The request is over: nobody is asked for it any more.
    fn has_ended(&self) -> bool {
        false
    }
}

/// What a request of the stateless era brings along when it is made again.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// An object, by the keys of the questions.
    pub responses: Option<RawJson>,
    pub state: Option<String>,
}

impl Inputs {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.responses.is_none() && self.state.is_none()
    }
}

/// What a call came back with.
#[derive(Debug, Clone, PartialEq)]
pub enum Returned {
    Output(ForeignOutput),
    /// It is to be called again with the answers.
    Ask {
        questions: Vec<Question>,
        state: Option<String>,
    },
    /// It goes on, and is to be asked after.
    Task {
        id: String,
        poll: Duration,
    },
}

/// Methods besides those of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    ListResources,
    ListTemplates,
    ReadResource,
    ListPrompts,
    GetPrompt,
    Complete,
    Subscribe,
    Unsubscribe,
    SetLevel,
    GetTask,
    UpdateTask,
    CancelTask,
    TaskResult,
}

impl Method {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ListResources => "resources/list",
            Self::ListTemplates => "resources/templates/list",
            Self::ReadResource => "resources/read",
            Self::ListPrompts => "prompts/list",
            Self::GetPrompt => "prompts/get",
            Self::Complete => "completion/complete",
            Self::Subscribe => "resources/subscribe",
            Self::Unsubscribe => "resources/unsubscribe",
            Self::SetLevel => "logging/setLevel",
            Self::GetTask => "tasks/get",
            Self::UpdateTask => "tasks/update",
            Self::CancelTask => "tasks/cancel",
            Self::TaskResult => "tasks/result",
        }
    }

    /// The parameter that names what it acts on.
    #[must_use]
    pub fn named(self) -> Option<&'static str> {
        match self {
            Self::ReadResource => Some("uri"),
            Self::GetPrompt => Some("name"),
            Self::GetTask | Self::UpdateTask | Self::CancelTask => Some("taskId"),
            _ => None,
        }
    }
}

/// A request that is no call of a tool.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    pub params: Map<String, Value>,
    /// None: it has only as much time as a connection may take to come about.
    pub cancel: Option<CancellationToken>,
    pub bridge: Bridge,
    pub inputs: Inputs,
    pub trace: Option<TraceContext>,
}

impl Request {
    #[must_use]
    pub fn new(method: Method, params: Map<String, Value>) -> Self {
        let (bridge, inputs) = (Bridge::default(), Inputs::default());
        Self { method, params, cancel: None, bridge, inputs, trace: None }
    }
}

/// What a request came back with.
#[derive(Debug, Clone, PartialEq)]
pub enum Replied {
    /// The text of the result.
    Result(Bytes),
    Ask {
        questions: Vec<Question>,
        state: Option<String>,
    },
}

/// A list that a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl Listed {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// The member of a page that has the entries, and the member of an entry that tells it from the others.
    pub(super) fn members(self) -> (&'static str, &'static str) {
        match self {
            Self::Tools => ("tools", "name"),
            Self::Resources => ("resources", "uri"),
            Self::Templates => ("resourceTemplates", "uriTemplate"),
            Self::Prompts => ("prompts", "name"),
        }
    }

    /// Whether a server says that it has any.
    pub(super) fn is_offered(self, offers: &Offers) -> bool {
        match self {
            Self::Tools => offers.tools,
            Self::Resources | Self::Templates => offers.resources,
            Self::Prompts => offers.prompts,
        }
    }
}

/// What a server says without being asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    Tools,
    Resources,
    Prompts,
    /// The resource of this URI.
    Updated(String),
}

/// What a server said that it can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offers {
    pub tools: bool,
    pub tools_change: bool,
    pub prompts: bool,
    pub prompts_change: bool,
    pub resources: bool,
    pub resources_change: bool,
    pub subscribe: bool,
    pub completions: bool,
    pub logging: bool,
    pub tasks: bool,
}

impl Offers {
    /// Whether it says when anything that it lists changes.
    pub(super) fn changes(&self) -> bool {
        self.tools_change || self.prompts_change || self.resources_change
    }
}
