//! `mcp_status` and `reload_tools`: status and reload of the servers as tools.

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

/// Held back tools that are named in the text.
const MAX_QUARANTINED_SHOWN: usize = 20;
/// Characters of a server's name for itself that a model sees.
const MAX_NAME_SHOWN: usize = 48;

pub(super) fn tools(upstreams: &Upstreams) -> [Tool; 2] {
    // A weak reference, because the upstreams own the registry that owns the tools.
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
    /// Restrict the report to this server.
    server: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StatusOutput {
    servers: Vec<ServerStatus>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ServerStatus {
    name: String,
    /// disabled, invalid, idle (the next call starts it), starting, ready, down (will be retried), or failed
    /// (given up).
    state: String,
    transport: Option<String>,
    /// The negotiated MCP revision.
    revision: Option<String>,
    /// session or stateless.
    era: Option<String>,
    /// Name and version that the server reports.
    server: Option<String>,
    /// The server's tools that you may use.
    tools: Vec<String>,
    restarts: u64,
    /// Time of the next attempt.
    retry_at: Option<String>,
    /// The most recent error, even if the server works again.
    last_error: Option<String>,
    /// The last lines of the process's standard error before that error; for admins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stderr: Vec<String>,
    warnings: Vec<String>,
    /// Tools that are held back until somebody approves them with `plexus upstream approve`; for admins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<Quarantined>,
}

/// A tool that is held back. It contains no text of the server except the tool's name.
#[derive(Debug, Serialize, JsonSchema)]
struct Quarantined {
    tool: String,
    /// new, changed or flagged.
    reason: String,
    /// Kinds of findings about it.
    flags: Vec<String>,
}

impl Quarantined {
    fn of(slug: &str, tool: QuarantinedTool) -> Self {
        let kinds: BTreeSet<FlagKind> = tool.flags.iter().map(|flag| flag.kind).collect();
        Self {
            tool: match tool.name.as_str() {
                INSTRUCTIONS => tool.name,
                name => tool_name::canonical(slug, name),
            },
            reason: tool.reason.as_str().to_owned(),
            flags: kinds.into_iter().map(|kind| kind.as_str().to_owned()).collect(),
        }
    }
}

/// A server's name for itself, reduced to harmless characters, because a model reads it without approval.
fn plain_name(name: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "._-/@ ".contains(*c);
    name.chars().filter(is_plain).take(MAX_NAME_SHOWN).collect()
}

impl ServerStatus {
    /// The status as one caller may see it; standard error and warnings about the file are for admins.
    fn of(upstream: Upstream, tools: Vec<String>, admin: bool) -> Self {
        let failure = upstream.last_error;
        let quarantined = if admin { upstream.quarantined } else { Vec::new() };
        Self {
            quarantined: quarantined.into_iter().map(|tool| Quarantined::of(&upstream.slug, tool)).collect(),
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
            line.push_str(&format!(", next attempt at {at}"));
        }
        if let (Some(error), true) = (&self.last_error, self.state != UpstreamState::Ready.as_str()) {
            line.push_str(&format!("\n  {}", error.replace('\n', "\n  ")));
        }
        line.push_str(&self.quarantine_line());
        line
    }

    /// The tools that are held back and how to approve them; contains no text of the server.
    fn quarantine_line(&self) -> String {
        if self.quarantined.is_empty() {
            return String::new();
        }
        let mut names: Vec<String> = self
            .quarantined
            .iter()
            .take(MAX_QUARANTINED_SHOWN)
            .map(|tool| format!("{} ({})", tool.tool, tool.reason))
            .collect();
        if self.quarantined.len() > MAX_QUARANTINED_SHOWN {
            names.push(format!("and {} more", self.quarantined.len() - MAX_QUARANTINED_SHOWN));
        }
        format!(
            "\n  {} quarantined until approved with `plexus upstream approve {}`: {}",
            self.quarantined.len(),
            shell::word(&self.name),
            names.join(", ")
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
            "Reports the state of the MCP servers behind this hub: whether each is connected, its protocol revision, \
             its tools that you may use, and its last error.",
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
        let is_requested = |upstream: &Upstream| {
            args.server.as_ref().is_none_or(|server| [&upstream.name, &upstream.slug].contains(&server))
        };
        let servers: Vec<ServerStatus> = running(&self.0)?
            .list()
            .into_iter()
            .filter(|upstream| {
                (admin || tools.contains_key(upstream.slug.as_str())) && is_requested(upstream)
            })
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
    /// Servers with a new file.
    added: Vec<String>,
    /// Servers whose file was removed.
    removed: Vec<String>,
    changed: Vec<String>,
    /// Servers that failed, with the reason.
    failed: Vec<Failed>,
    /// Tools that this reload added.
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
            "Rereads the files of MCP servers and profiles, and restarts changed servers. \
             Reports servers that fail; they do not affect the others.",
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
