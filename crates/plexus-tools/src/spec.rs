//! The description of a tool: names, schemas, access, placement and time limits.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use plexus_auth::Scope;
use plexus_proto::api::ToolAnnotations;
use plexus_proto::{NodeId, tool_name};
use serde_json::{Map, Value};

use crate::alias::Alias;

/// Where a tool runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Placement {
    /// In the hub, on its own database.
    Hub,
    /// In the hub, as a program of the user.
    Custom,
    /// On a node that the call selects.
    Node,
    /// In another MCP server.
    Upstream(Arc<UpstreamTool>),
}

/// The node that another MCP server runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub id: NodeId,
    /// The name used in scopes.
    pub name: String,
}

/// An argument that sets the time limit of a call, in whole seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeArgument {
    pub name: Cow<'static, str>,
    /// Larger values are clamped to this.
    pub most: Duration,
    /// Extra time for the tool to stop on its own and report it.
    pub grace: Duration,
}

/// A tool of another MCP server, as that server knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamTool {
    /// Slug of the server.
    pub server: String,
    /// The tool's name there, or the name that the configuration file gives it instead.
    pub tool: String,
    /// The groups of the server's configuration that contain it.
    pub groups: Vec<String>,
    /// Listed by its own name if no other tool has that name.
    pub bare: bool,
    /// Its schema requires some arguments to be repeated in headers.
    pub repeats_arguments: bool,
    /// The node it runs on, if not the hub; its calls go only there.
    pub node: Option<Host>,
    /// The server's complete definition of it.
    pub definition: Map<String, Value>,
}

impl UpstreamTool {
    /// A tool of a server that the hub reaches itself: in no group, listed by its canonical name, without a definition.
    #[must_use]
    pub fn new(server: impl Into<String>, tool: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            tool: tool.into(),
            groups: Vec::new(),
            bare: false,
            repeats_arguments: false,
            node: None,
            definition: Map::new(),
        }
    }
}

/// What another MCP server offers besides tools. Access to it works like access to an unlisted tool: by scopes and
/// profiles, through the dispatcher, with a record of each use.
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

    /// The canonical name for a server, as used in scopes, profiles and records. It contains a dot and one separator,
    /// so it cannot be the name of a tool.
    #[must_use]
    pub fn name(self, server: &str) -> String {
        format!("{}{server}.{}", tool_name::PREFIX, self.as_str())
    }
}

impl Placement {
    /// As text: `hub`, `node`, `upstream:<server>`, `upstream:<server>@<node>`.
    #[must_use]
    pub fn describe(&self) -> Cow<'static, str> {
        match self {
            Self::Hub | Self::Custom => "hub".into(),
            Self::Node => "node".into(),
            Self::Upstream(upstream) => match &upstream.node {
                None => format!("upstream:{}", upstream.server).into(),
                Some(host) => format!("upstream:{}@{}", upstream.server, host.name).into(),
            },
        }
    }
}

/// The effects of a tool or action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub annotations: ToolAnnotations,
    /// Whether the local proxy may accept the call while the hub is unreachable.
    pub bufferable: bool,
    /// Its caller repeats it until it gets a reply, and it is idempotent, so it is not stored on disk on its way to a
    /// node.
    pub repeated: bool,
}

impl Access {
    /// Changes nothing.
    pub const READ: Self = Self::new(true, false, true, false);
    /// Adds something; not idempotent.
    pub const ADD: Self = Self::new(false, false, false, true);
    /// Sets something to a given state; idempotent.
    pub const SET: Self = Self::new(false, false, true, true);
    /// Removes or overwrites something; idempotent.
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
            repeated: false,
        }
    }

    /// The same for calls that their caller repeats automatically.
    #[must_use]
    pub const fn repeated(self) -> Self {
        Self { repeated: true, bufferable: false, ..self }
    }
}

/// Special treatment of a tool's calls; most tools have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handling {
    /// For programs: not in any list that a model reads, but callable by name.
    pub unlisted: bool,
    /// Fields of arguments and results, at any depth, whose content is not recorded; records hold only its length.
    pub unrecorded: &'static [&'static str],
    /// Aliases of its arguments. Schemas do not list them.
    pub aliases: &'static [Alias],
}

impl Handling {
    /// The unrecorded fields, including their aliases.
    pub(crate) fn unrecorded_names(&self) -> Vec<&'static str> {
        let hidden = self.aliases.iter().filter(|alias| self.unrecorded.contains(&alias.canonical()));
        self.unrecorded.iter().chain(hidden.flat_map(|alias| alias.names)).copied().collect()
    }
}

/// One action of a tool with several actions, selected by the argument `action`.
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

/// Which calls of a tool the local proxy may accept while the hub is unreachable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Buffered<'a> {
    Never,
    Always,
    /// Calls with one of these actions.
    Actions(Vec<&'a str>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The canonical name, as used in scopes, profiles and records.
    pub name: Cow<'static, str>,
    pub title: Cow<'static, str>,
    pub description: Cow<'static, str>,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    /// The access of a tool without actions; with actions, what they have in common.
    pub access: Access,
    pub actions: Vec<Action>,
    pub placement: Placement,
    /// The default time limit of a call.
    pub deadline: Duration,
    /// The argument that overrides it for a call, if the tool has one.
    pub time: Option<TimeArgument>,
    /// For admins only: no tool scope grants access to it.
    pub admin: bool,
    /// It starts agents, so it is never shown to a sub-agent, whatever its profile allows.
    pub starts_agents: bool,
    pub handling: Handling,
}

/// The time limit of a native tool; a call that takes longer is stuck.
const HUB_DEADLINE: Duration = Duration::from_secs(30);

impl ToolSpec {
    /// The upstream tool behind this one, if any.
    #[must_use]
    pub fn upstream(&self) -> Option<&UpstreamTool> {
        match &self.placement {
            Placement::Hub | Placement::Custom | Placement::Node => None,
            Placement::Upstream(upstream) => Some(upstream),
        }
    }

    /// Which of its calls may be buffered. None for a tool that runs outside the hub: the outcome of such a call may be
    /// unknown, and a buffered call is repeated until its outcome is known.
    #[must_use]
    pub fn buffered(&self) -> Buffered<'_> {
        let actions = self.actions.iter().filter(|action| action.access.bufferable);
        let names: Vec<_> = actions.map(|action| &*action.name).collect();
        match (self.placement == Placement::Hub, self.actions.is_empty()) {
            (true, true) if self.access.bufferable => Buffered::Always,
            (true, false) if !names.is_empty() => Buffered::Actions(names),
            _ => Buffered::Never,
        }
    }

    /// Whether calls have an effect outside the hub.
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
            time: None,
            admin: false,
            starts_agents: false,
            handling: Handling::default(),
        }
    }

    /// A tool that runs on a machine of the user. Its schemas are filled in from its types.
    #[must_use]
    pub fn node(name: &'static str, title: &'static str, description: &'static str, access: Access) -> Self {
        Self { placement: Placement::Node, ..Self::hub(name, title, description, access) }
    }

    /// The same tool with an argument for the time limit of a call.
    #[must_use]
    pub fn with_time(self, argument: &'static str, most: Duration, grace: Duration) -> Self {
        Self { time: Some(TimeArgument { name: argument.into(), most, grace }), ..self }
    }

    /// The time limit of a call with these validated arguments.
    #[must_use]
    pub fn allowed_time(&self, arguments: &Value) -> Duration {
        let requested = self.time.as_ref().and_then(|time| {
            let seconds = arguments[&*time.name].as_u64()?;
            Some(Duration::from_secs(seconds).min(time.most) + time.grace)
        });
        requested.unwrap_or(self.deadline)
    }

    /// The access of a call with these arguments: that of its action, if the tool has actions.
    #[must_use]
    pub fn access_of(&self, arguments: &Value) -> Access {
        let action = arguments["action"].as_str();
        let named = self.actions.iter().find(|declared| Some(&*declared.name) == action);
        named.map_or(self.access, |action| action.access)
    }

    /// The same tool for admins only: `call:*` does not include it, and other principals do not see it.
    #[must_use]
    pub fn for_admins(self) -> Self {
        Self { admin: true, ..self }
    }

    /// The same tool, marked as one that starts agents, so sub-agents do not see it.
    #[must_use]
    pub fn starting_agents(self) -> Self {
        Self { starts_agents: true, ..self }
    }

    /// The same tool, unlisted.
    #[must_use]
    pub fn for_programs(self) -> Self {
        Self { handling: Handling { unlisted: true, ..self.handling }, ..self }
    }

    /// The same tool; the content of these fields is not recorded.
    #[must_use]
    pub fn without_record_of(self, unrecorded: &'static [&'static str]) -> Self {
        Self { handling: Handling { unrecorded, ..self.handling }, ..self }
    }

    /// The same tool with aliases of its arguments.
    #[must_use]
    pub fn with_aliases(self, aliases: &'static [Alias]) -> Self {
        Self { handling: Handling { aliases, ..self.handling }, ..self }
    }

    /// The same tool with actions; their access replaces its own.
    #[must_use]
    pub fn with_actions(self, actions: Vec<Action>) -> Self {
        Self { access: Self::common_access(&actions), actions, ..self }
    }

    /// The scope that a call needs; with actions, the scope for all of them.
    #[must_use]
    pub fn scope(&self) -> String {
        if self.admin { Scope::ADMIN.to_owned() } else { format!("call:{}", self.name) }
    }

    #[must_use]
    pub fn action_scope(&self, action: &Action) -> String {
        format!("call:{}.{}", self.name, action.name)
    }

    /// The access of a tool as a whole, combined from its actions.
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
            repeated: all(|a| a.repeated),
        }
    }
}
