//! What a tool says about itself.

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
    /// In the hub, by a program of the user.
    Custom,
    /// On one of the machines, which the call chooses.
    Node,
    /// In another MCP server.
    Upstream(Arc<UpstreamTool>),
}

/// The machine that another MCP server runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub id: NodeId,
    /// What scopes say.
    pub name: String,
}

/// An argument that says how long a call may take, in whole seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeArgument {
    pub name: Cow<'static, str>,
    /// More is taken as this.
    pub most: Duration,
    /// What the tool needs beside, to stop by itself and say so.
    pub grace: Duration,
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
    /// Where it runs, if that is not the hub: calls go there and nowhere else.
    pub node: Option<Host>,
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
    /// In words: `hub`, `node`, `upstream:<server>`, `upstream:<server>@<node>`.
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

/// What running something means for the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub annotations: ToolAnnotations,
    /// Whether the local proxy may accept the call while the hub is away.
    pub bufferable: bool,
    /// Its caller sends it again until it has an answer, and twice is as once: so nobody keeps it on disk on its way to a
    /// machine.
    pub repeated: bool,
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
            repeated: false,
        }
    }

    /// The same for calls that their caller repeats by itself.
    #[must_use]
    pub const fn repeated(self) -> Self {
        Self { repeated: true, bufferable: false, ..self }
    }
}

/// What is special about how calls to a tool are treated; of most tools nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handling {
    /// It is for programs and in no list that a model reads; whoever may use it calls it by its name.
    pub unlisted: bool,
    /// Fields of its arguments and of its results, at any depth, whose content is in no record: only how long it is.
    pub unrecorded: &'static [&'static str],
    /// Other names that its arguments are accepted under. No schema lists them.
    pub aliases: &'static [Alias],
}

impl Handling {
    /// The fields that are not recorded, under all names that they may be given.
    pub(crate) fn unrecorded_names(&self) -> Vec<&'static str> {
        let hidden = self.aliases.iter().filter(|alias| self.unrecorded.contains(&alias.canonical()));
        self.unrecorded.iter().chain(hidden.flat_map(|alias| alias.names)).copied().collect()
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

/// Which calls of a tool the local proxy may accept while the hub is away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Buffered<'a> {
    Never,
    Always,
    /// Those with one of these actions.
    Actions(Vec<&'a str>),
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
    /// What a call may take that says nothing else.
    pub deadline: Duration,
    /// Says it for a call, if there is one.
    pub time: Option<TimeArgument>,
    /// For admins only: no scope of a tool's own reaches it.
    pub admin: bool,
    /// It starts agents, and so no sub-agent is ever shown it, whatever its profile says.
    pub starts_agents: bool,
    pub handling: Handling,
}

/// What a tool of the hub itself may take; longer means that it is stuck.
const HUB_DEADLINE: Duration = Duration::from_secs(30);

impl ToolSpec {
    /// The other server that the tool is of, if it is.
    #[must_use]
    pub fn upstream(&self) -> Option<&UpstreamTool> {
        match &self.placement {
            Placement::Hub | Placement::Custom | Placement::Node => None,
            Placement::Upstream(upstream) => Some(upstream),
        }
    }

    /// Which of its calls may be buffered. Of a tool that runs elsewhere none: what became of such a call may be unknown,
    /// and a buffered one is sent until it is known.
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

    /// The same tool, whose calls say with an argument how long they may take.
    #[must_use]
    pub fn with_time(self, argument: &'static str, most: Duration, grace: Duration) -> Self {
        Self { time: Some(TimeArgument { name: argument.into(), most, grace }), ..self }
    }

    /// How long a call with these checked arguments may take.
    #[must_use]
    pub fn allowed_time(&self, arguments: &Value) -> Duration {
        let asked = self.time.as_ref().and_then(|time| {
            let seconds = arguments[&*time.name].as_u64()?;
            Some(Duration::from_secs(seconds).min(time.most) + time.grace)
        });
        asked.unwrap_or(self.deadline)
    }

    /// What a call with these arguments does: its action's, where the tool has several.
    #[must_use]
    pub fn access_of(&self, arguments: &Value) -> Access {
        let action = arguments["action"].as_str();
        let named = self.actions.iter().find(|known| Some(&*known.name) == action);
        named.map_or(self.access, |action| action.access)
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

    /// The same tool for programs: no list shows it.
    #[must_use]
    pub fn for_programs(self) -> Self {
        Self { handling: Handling { unlisted: true, ..self.handling }, ..self }
    }

    /// The same tool, of which the content of these fields is not recorded.
    #[must_use]
    pub fn without_record_of(self, unrecorded: &'static [&'static str]) -> Self {
        Self { handling: Handling { unrecorded, ..self.handling }, ..self }
    }

    /// The same tool, whose arguments are accepted under other names too.
    #[must_use]
    pub fn with_aliases(self, aliases: &'static [Alias]) -> Self {
        Self { handling: Handling { aliases, ..self.handling }, ..self }
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
            repeated: all(|a| a.repeated),
        }
    }
}
