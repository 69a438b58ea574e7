//! `mcp_status` and `reload_tools`: the servers, as models and people at a prompt ask about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;

use plexus_kit::shell;
use plexus_proto::api::{
    FlagKind, INSTRUCTIONS, QuarantinedTool, ReloadFailure, ReloadReport, Upstream, UpstreamEra,
    UpstreamState,
};
use plexus_proto::{ErrorCode, tool_name};
use plexus_tools::{Access, CallError, Outcome, Tool, ToolContext, ToolOutput, ToolSpec, TypedTool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Inner, Upstreams};
use crate::client::for_callers;

/// Tools that are named in the text because they are held back.
const HELD: usize = 20;
/// Characters of what a server calls itself that a model is shown.
const NAME_SHOWN: usize = 48;

pub(super) fn tools(upstreams: &Upstreams) -> [Tool; 2] {
    // The registry has the tools, and the upstreams have the registry.
    let upstreams = std::sync::Arc::downgrade(&upstreams.0);
    [Tool::typed(McpStatus(upstreams.clone())), Tool::typed(ReloadTools(upstreams))]
}

fn running(upstreams: &Weak<Inner>) -> Result<Upstreams, CallError> {
    let upstreams = upstreams.upgrade().map(Upstreams);
    upstreams.ok_or_else(|| CallError::new(ErrorCode::Unavailable, "the hub is stopping"))
}

struct McpStatus(Weak<Inner>);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StatusArgs {
    /// Only this server.
    server: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StatusOutput {
    servers: Vec<ServerStatus>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ServerStatus {
    name: String,
    /// disabled, invalid, idle (rests; the next call starts it), starting, ready, down (tried again), or failed (given up).
    state: String,
    transport: Option<String>,
    /// Revision of MCP that was agreed on.
    revision: Option<String>,
    /// session or stateless.
    era: Option<String>,
    /// Name and version that the server gave itself.
    server: Option<String>,
    /// Its tools that you may use.
    tools: Vec<String>,
    restarts: u64,
    /// When the next attempt follows.
    retry_at: Option<String>,
    /// What went wrong last, also when it is fine again.
    last_error: Option<String>,
    /// The end of what the process wrote to its standard error before that; for admins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stderr: Vec<String>,
    warnings: Vec<String>,
    /// Tools that are held back until somebody approves them with `plexus upstream approve`; for admins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<Quarantined>,
}

/// Nothing that the server wrote: its name is ours, and what else it says is not for models.
#[derive(Debug, Serialize, JsonSchema)]
struct Quarantined {
    tool: String,
    /// new, changed or flagged.
    reason: String,
    /// What is strange about it.
    flags: Vec<String>,
}

impl Quarantined {
    fn of(slug: &str, held: QuarantinedTool) -> Self {
        let kinds: BTreeSet<FlagKind> = held.flags.iter().map(|flag| flag.kind).collect();
        Self {
            tool: match held.name.as_str() {
                INSTRUCTIONS => held.name,
                name => tool_name::canonical(slug, name),
            },
            reason: held.reason.as_str().to_owned(),
            flags: kinds.into_iter().map(|kind| kind.as_str().to_owned()).collect(),
        }
    }
}

/// What a server calls itself, cut down to what a name needs: nobody has approved it, and a model reads it.
fn plain_name(said: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "._-/@ ".contains(*c);
    said.chars().filter(is_plain).take(NAME_SHOWN).collect()
}

impl ServerStatus {
    /// Of a server as one caller may know it; standard error and what is said of the file are for those who can do
    /// something about them.
    fn of(upstream: Upstream, tools: Vec<String>, admin: bool) -> Self {
        let failure = upstream.last_error;
        let held = if admin { upstream.quarantined } else { Vec::new() };
        Self {
            quarantined: held.into_iter().map(|held| Quarantined::of(&upstream.slug, held)).collect(),
            name: upstream.name,
            state: upstream.state.as_str().to_owned(),
            transport: upstream.transport.map(|transport| transport.as_str().to_owned()),
            revision: upstream.revision,
            era: upstream.era.map(|era| match era {
                UpstreamEra::Session => "session".to_owned(),
                UpstreamEra::Stateless => "stateless".to_owned(),
            }),
            server: upstream.server.as_deref().map(plain_name),
            tools,
            restarts: upstream.restarts,
            retry_at: upstream.retry_at.map(|at| at.to_string()),
            stderr: failure
                .as_ref()
                .filter(|_| admin)
                .map(|failure| failure.stderr.clone())
                .unwrap_or_default(),
            last_error: failure.map(|failure| match admin {
                true => failure.message,
                false => for_callers(&failure.message).to_owned(),
            }),
            warnings: match admin {
                true => upstream.warnings.into_iter().chain(upstream.remark).collect(),
                false => Vec::new(),
            },
        }
    }

    fn line(&self) -> String {
        let mut line = format!("{}: {}, {} tools", self.name, self.state, self.tools.len());
        if let Some(revision) = &self.revision {
            line.push_str(&format!(", MCP {revision}"));
        }
        if let Some(at) = &self.retry_at {
            line.push_str(&format!(", tried again at {at}"));
        }
        if let (Some(error), true) = (&self.last_error, self.state != UpstreamState::Ready.as_str()) {
            line.push_str(&format!("\n  {}", error.replace('\n', "\n  ")));
        }
        line.push_str(&self.held());
        line
    }

    /// What is held back, and what a person can do about it; nothing that the server wrote.
    fn held(&self) -> String {
        if self.quarantined.is_empty() {
            return String::new();
        }
        let mut told: Vec<String> = self
            .quarantined
            .iter()
            .take(HELD)
            .map(|held| format!("{} ({})", held.tool, held.reason))
            .collect();
        if self.quarantined.len() > HELD {
            told.push(format!("and {} more", self.quarantined.len() - HELD));
        }
        format!(
            "\n  {} quarantined until approved with `plexus upstream approve {}`: {}",
            self.quarantined.len(),
            shell::word(&self.name),
            told.join(", ")
        )
    }
}

impl TypedTool for McpStatus {
    type Args = StatusArgs;
    type Output = StatusOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::hub(
            "mcp_status",
            "MCP servers",
            "Tells how the MCP servers behind this hub are doing: whether each is connected, by which revision of the \
             protocol, the tools of it that you may use, and what went wrong last.",
            Access::READ,
        )
    }

    async fn run(&self, context: ToolContext, args: StatusArgs) -> Result<Outcome, CallError> {
        let admin = context.principal.is_admin();
        let mut tools: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for tool in context.visible.tools() {
            if let Some(upstream) = tool.spec().upstream() {
                tools.entry(upstream.server.as_str()).or_default().push(tool.name().to_owned());
            }
        }
        let asked = |upstream: &Upstream| {
            args.server.as_ref().is_none_or(|server| [&upstream.name, &upstream.slug].contains(&server))
        };
        let servers: Vec<ServerStatus> = running(&self.0)?
            .list()
            .into_iter()
            .filter(|upstream| (admin || tools.contains_key(upstream.slug.as_str())) && asked(upstream))
            .map(|upstream| {
                let tools = tools.get(upstream.slug.as_str()).cloned().unwrap_or_default();
                ServerStatus::of(upstream, tools, admin)
            })
            .collect();
        let text = match servers.is_empty() {
            true => "There is no such server, or none that you may use.".to_owned(),
            false => servers.iter().map(ServerStatus::line).collect::<Vec<_>>().join("\n"),
        };
        Ok(Outcome::Ready(ToolOutput::new(text, &StatusOutput { servers })))
    }
}

struct ReloadTools(Weak<Inner>);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReloadArgs {}

#[derive(Debug, Serialize, JsonSchema)]
struct ReloadOutput {
    /// Servers whose files are new.
    added: Vec<String>,
    /// Servers whose files are gone.
    removed: Vec<String>,
    changed: Vec<String>,
    /// Servers that are not there, and why; the others are.
    failed: Vec<Failed>,
    /// Tools that came with this.
    tools_added: Vec<String>,
    tools_removed: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Failed {
    name: String,
    message: String,
}

impl ReloadOutput {
    fn new(report: ReloadReport, before: &BTreeSet<String>, now: &BTreeSet<String>) -> Self {
        let failed = |ReloadFailure { name, message }| Failed { name, message };
        Self {
            added: report.added,
            removed: report.removed,
            changed: report.changed,
            failed: report.failed.into_iter().map(failed).collect(),
            tools_added: now.difference(before).cloned().collect(),
            tools_removed: before.difference(now).cloned().collect(),
        }
    }

    fn text(&self) -> String {
        let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let mut text = format!(
            "Servers added: {}; removed: {}; changed: {}. Tools added: {}; removed: {}.",
            list(&self.added),
            list(&self.removed),
            list(&self.changed),
            self.tools_added.len(),
            self.tools_removed.len()
        );
        for Failed { name, message } in &self.failed {
            text.push_str(&format!("\n{name} failed: {message}"));
        }
        text
    }
}

impl TypedTool for ReloadTools {
    type Args = ReloadArgs;
    type Output = ReloadOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::hub(
            "reload_tools",
            "Reload MCP servers",
            "Reads the files of the MCP servers behind this hub and of the profiles again, and starts what has changed. \
             Servers that fail are named, and do not keep the others.",
            Access { bufferable: false, ..Access::SET },
        )
        .for_admins()
    }

    async fn run(&self, _: ToolContext, _: ReloadArgs) -> Result<Outcome, CallError> {
        let upstreams = running(&self.0)?;
        let all = || upstreams.list().into_iter().flat_map(|upstream| upstream.tools).collect();
        let before = all();
        let report = upstreams.reload().await;
        upstreams.0.shared.registry.reload_profiles();
        let output = ReloadOutput::new(report, &before, &all());
        Ok(Outcome::Ready(ToolOutput::new(output.text(), &output)))
    }
}
