//! The exchange between a server and the client on whose behalf it is called: questions, log lines, and
//! requests other than tool calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use plexus_kit::TraceContext;
use plexus_tools::{Answer, Capabilities, ForeignOutput, Inquiry, LogSink, Question, RawJson};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// The caller of a request, as far as its server may interact with it.
#[derive(Clone, Default)]
pub struct Bridge {
    /// Subject and session; questions may be attributed to any request of the same caller. None if the server
    /// may not interact with it.
    pub caller: Option<Arc<str>>,
    pub answerer: Option<Arc<dyn Answerer>>,
    /// The number under which the listener knows the request.
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
    /// Whether a question was asked during the request, so that it cannot be repeated as if nothing had
    /// happened.
    pub(super) fn has_asked(&self) -> bool {
        self.answerer.as_ref().is_some_and(|answerer| answerer.has_asked())
    }
}

/// Answers questions that a server asks during a request.
pub trait Answerer: Send + Sync + 'static {
    /// Asks a question, which is in the form of the server's era.
    fn ask(&self, inquiry: Inquiry, params: Option<RawJson>) -> BoxFuture<'static, Answer>;

    /// Records that a question was asked that may have belonged to this request.
    fn note_asked(&self) {}

    /// Whether a question was asked, or may have been.
    fn has_asked(&self) -> bool {
        false
    }

    /// Whether the request has ended, so that no more questions are asked for it.
    fn has_ended(&self) -> bool {
        false
    }
}

/// The answers and state that a repeated request of the stateless era carries.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// An object, keyed by question.
    pub responses: Option<RawJson>,
    pub state: Option<String>,
}

impl Inputs {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.responses.is_none() && self.state.is_none()
    }
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallResponse {
    Output(ForeignOutput),
    /// The call must be repeated with the answers.
    Ask {
        questions: Vec<Question>,
        state: Option<String>,
    },
    /// The call continues as a task that must be polled.
    Task {
        id: String,
        poll: Duration,
    },
}

/// Methods other than those for tools.
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

    /// The parameter that names the subject of the request.
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

/// A request other than a tool call.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    pub params: Map<String, Value>,
    /// None: the request is bounded by the connect timeout.
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

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestResponse {
    /// The text of the result.
    Result(Bytes),
    Ask {
        questions: Vec<Question>,
        state: Option<String>,
    },
}

/// A kind of list that a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl ListKind {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// The member of a page that holds the entries, and the member that identifies an entry.
    pub(super) fn members(self) -> (&'static str, &'static str) {
        match self {
            Self::Tools => ("tools", "name"),
            Self::Resources => ("resources", "uri"),
            Self::Templates => ("resourceTemplates", "uriTemplate"),
            Self::Prompts => ("prompts", "name"),
        }
    }

    /// Whether a server announces this list.
    pub(super) fn is_offered(self, offers: &Offers) -> bool {
        match self {
            Self::Tools => offers.tools,
            Self::Resources | Self::Templates => offers.resources,
            Self::Prompts => offers.prompts,
        }
    }
}

/// A notification of a change at the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerChange {
    Tools,
    Resources,
    Prompts,
    /// The resource with this URI.
    Updated(String),
}

/// The capabilities that a server announced.
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
    /// Whether the server reports changes of any list.
    pub(super) fn changes(&self) -> bool {
        self.tools_change || self.prompts_change || self.resources_change
    }
}
