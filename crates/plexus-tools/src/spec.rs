//! What a tool says about itself.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use plexus_auth::Scope;
use plexus_proto::api::ToolAnnotations;
use plexus_proto::tool_name;
use serde_json::{Map, Value};

/// Where a tool runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Placement {
    /// In the hub, on its own database.
    Hub,
    /// In the hub, by a program of the user.
    Custom,
    /// In another MCP server.
    Upstream(Arc<UpstreamTool>),
}

/// A tool of another MCP server, as that server knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamTool {
    /// Slug of the server.
    pub server: String,
    /// Name of the tool there, or the one that its file gives it instead.
    pub tool: String,
    /// Groups of the server's configuration that it is in.
    pub groups: Vec<String>,
    /// To be listed by its own name where no other tool has it.
    pub bare: bool,
    /// Its schema wants some of the arguments to be repeated in headers.
    pub repeats_arguments: bool,
    /// What the server says of it, all of it.
    pub definition: Map<String, Value>,
}

/// What another MCP server offers beside its tools. A caller's access to it is that to a tool which no list shows: by
/// scopes and profiles, through the dispatcher, with a record of each use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Facility {
    Resources,
    Prompts,
}

impl Facility {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Prompts => "prompts",
        }
    }

    /// Canonical name of a server's: what scopes, profiles and records say. With a dot and one separator it is the name of
    /// no tool.
    #[must_use]
    pub fn name(self, server: &str) -> String {
        format!("{}{server}.{}", tool_name::PREFIX, self.as_str())
    }
}

impl Placement {
    /// In words: `hub`, `upstream:<server>`.
    #[must_use]
    pub fn describe(&self) -> Cow<'static, str> {
        match self {
            Self::Hub | Self::Custom => "hub".into(),
            Self::Upstream(upstream) => format!("upstream:{}", upstream.server).into(),
        }
    }
}

/// What running something means for the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub annotations: ToolAnnotations,
    /// Whether the local proxy may accept the call while the hub is away.
    pub bufferable: bool,
}

impl Access {
    /// Changes nothing.
    pub const READ: Self = Self::new(true, false, true, false);
    /// Adds something; twice adds it twice.
    pub const ADD: Self = Self::new(false, false, false, true);
    /// Brings something to a given state; twice is as once.
    pub const SET: Self = Self::new(false, false, true, true);
    /// Takes something away or overwrites it; twice is as once.
    pub const REMOVE: Self = Self::new(false, true, true, true);

    const fn new(read_only: bool, destructive: bool, idempotent: bool, bufferable: bool) -> Self {
        Self {
            annotations: ToolAnnotations {
                read_only_hint: read_only,
                destructive_hint: destructive,
                idempotent_hint: idempotent,
                open_world_hint: false,
            },
            bufferable,
        }
    }
}

/// One action of a tool that has several, chosen by its argument `action`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    pub name: Cow<'static, str>,
    pub access: Access,
}

impl Action {
    #[must_use]
    pub fn new(name: &'static str, access: Access) -> Self {
        Self { name: Cow::Borrowed(name), access }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Canonical: what scopes, profiles and records say.
    pub name: Cow<'static, str>,
    pub title: Cow<'static, str>,
    pub description: Cow<'static, str>,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    /// For a tool without actions; with actions, what they have in common.
    pub access: Access,
    pub actions: Vec<Action>,
    pub placement: Placement,
    pub deadline: Duration,
    /// Argument in which a caller says how many seconds the work may take; see [`Self::deadline_of`].
    pub time_argument: Option<&'static str>,
    /// For admins only: no scope of a tool's own reaches it.
    pub admin: bool,
    /// It starts agents, and so no sub-agent is ever shown it, whatever its profile says.
    pub starts_agents: bool,
}

/// What a tool of the hub itself may take; longer means that it is stuck.
const HUB_DEADLINE: Duration = Duration::from_secs(30);
/// For what a tool has to do around the time that its caller gave it: to begin, to stop what took too long, to say so.
const TIME_AROUND: Duration = Duration::from_secs(15);
/// Longest time that a caller can give.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

impl ToolSpec {
    /// The other server that the tool is of, if it is.
    #[must_use]
    pub fn upstream(&self) -> Option<&UpstreamTool> {
        match &self.placement {
            Placement::Hub | Placement::Custom => None,
            Placement::Upstream(upstream) => Some(upstream),
        }
    }

    /// Whether a call does something outside of the hub that must not be done twice.
    #[must_use]
    pub(crate) fn reaches_out(&self) -> bool {
        let hints = self.access.annotations;
        self.placement != Placement::Hub && !hints.read_only_hint && !hints.idempotent_hint
    }

    /// A tool that runs in the hub. Its schemas are filled in from its types.
    #[must_use]
    pub fn hub(name: &'static str, title: &'static str, description: &'static str, access: Access) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            description: description.into(),
            input_schema: Value::Null,
            output_schema: None,
            access,
            actions: Vec::new(),
            placement: Placement::Hub,
            deadline: HUB_DEADLINE,
            time_argument: None,
            admin: false,
            starts_agents: false,
        }
    }

    /// How long a call with these arguments may take: what its caller says and a little more, so that the tool itself gets
    /// to tell that the time is up.
    #[must_use]
    pub fn deadline_of(&self, arguments: &Value) -> Duration {
        let given = self.time_argument.and_then(|name| arguments[name].as_f64()).filter(|given| *given >= 0.0);
        match given.map(Duration::try_from_secs_f64) {
            Some(given) => given.unwrap_or(LONGEST).min(LONGEST) + TIME_AROUND,
            None => self.deadline,
        }
    }

    /// The same tool for admins only: `call:*` does not reach it, and nobody else sees it.
    #[must_use]
    pub fn for_admins(self) -> Self {
        Self { admin: true, ..self }
    }

    /// The same tool as one that starts agents: sub-agents are not shown it.
    #[must_use]
    pub fn starting_agents(self) -> Self {
        Self { starts_agents: true, ..self }
    }

    /// The same tool with actions, which say what it does in its place.
    #[must_use]
    pub fn with_actions(self, actions: Vec<Action>) -> Self {
        Self { access: Self::common_access(&actions), actions, ..self }
    }

    /// Scope that a call needs; with actions, the scope of all of them.
    #[must_use]
    pub fn scope(&self) -> String {
        if self.admin { Scope::ADMIN.to_owned() } else { format!("call:{}", self.name) }
    }

    #[must_use]
    pub fn action_scope(&self, action: &Action) -> String {
        format!("call:{}.{}", self.name, action.name)
    }

    /// What holds for the tool as a whole when it has these actions.
    #[must_use]
    pub fn common_access(actions: &[Action]) -> Access {
        let all = |test: fn(&Access) -> bool| actions.iter().all(|action| test(&action.access));
        Access {
            annotations: ToolAnnotations {
                read_only_hint: all(|a| a.annotations.read_only_hint),
                destructive_hint: !all(|a| !a.annotations.destructive_hint),
                idempotent_hint: all(|a| a.annotations.idempotent_hint),
                open_world_hint: !all(|a| !a.annotations.open_world_hint),
            },
            bufferable: all(|a| a.bufferable),
        }
    }
}
