//! `plexus connect`: connects the agents on this machine to the hub, through the proxy.
//!
//! It reads the agents' files and shows the changes before it writes them. `plexus-bridge` writes the files, backs up each of
//! them and can undo the changes. Each agent gets its own token, which is not written into its files.

mod backups;
mod change_args;
mod choice;
pub(crate) mod display;
pub(crate) mod grant;
pub(crate) mod local_agents;
mod server_moves;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use plexus_bridge::agents::{self, Agent, InstalledAgent, Scope};
use plexus_bridge::{Bridge, Connection, InstructionContent, Plan, ProxyCommand};
use plexus_kit::{Environment, env};
use plexus_proto::ErrorCode;
use plexus_proto::api::ExternalAgentInstructions;
use serde_json::{Value, json};

use super::Invocation;
use super::run::token_issuer::{TokenIssuer, has_code};
use crate::arguments;
use crate::failure::{Exit, Failure};
use crate::output::{Output, one_line};
pub(crate) use change_args::ChangeArgs;
pub(crate) use choice::agent_named;
use local_agents::{LocalAgents, Questions};
use server_moves::ServerMoves;

const AFTER_HELP: &str = "\
Adds an MCP server that runs `plexus mcp` to each agent's settings, and the hub's workspace
(SOUL.md, IDENTITY.md, USER.md, TOOLS.md, MEMORY.md) to the agent's instructions. Each change is
shown before it is written, each file is backed up, and `plexus disconnect` undoes the changes.
What an agent may do without asking is not changed.

MCP servers in an agent's settings can move behind the hub, where all agents can use them. On a
terminal you are asked; without one they stay unless --move-servers is given. `plexus disconnect`
puts them back into the agent's settings.

Agents: codex, claude-code, cursor, opencode, gemini, vscode, windsurf, zed, goose

Environment:
  PLEXUS_AGENTS  agents to connect if none is named: codex,claude-code

Examples:
  plexus connect                              # choose on the terminal
  plexus connect codex claude-code --dry-run  # what would change
  plexus connect codex --node nas --yes       # its calls may use that machine
  plexus connect codex --yes --move-servers   # move its own servers behind the hub
  plexus connect claude-code --project .      # for one project only
  plexus connect --status                     # show the state of the files
  plexus connect --restore                    # list the backups";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConnectArgs {
    /// Agents to connect [env: PLEXUS_AGENTS] [default: chosen on the terminal; with --yes, or
    /// --dry-run without a terminal, all that are found]
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    #[command(flatten)]
    change: ChangeArgs,
    /// Profile of the agents' tokens: which tools they see
    #[arg(long, value_name = "ID")]
    profile: Option<String>,
    /// Scope of the agents' tokens, such as call:todo (repeatable) [default: call every tool that you
    /// may call]
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Machine that the agents may use (repeatable); the first one is the default for their calls
    /// [default: none]
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// Lifetime of the agents' tokens, after which the proxy renews them [default: 1d on the machine of
    /// the hub, else 14d]
    #[arg(long, value_name = "TIME", value_parser = arguments::ttl)]
    ttl: Option<u64>,
    /// Do not change the agents' instruction files
    #[arg(long)]
    no_instructions: bool,
    /// Move the agents' own MCP servers behind the hub [default: ask on the terminal]
    #[arg(long, conflicts_with = "project")]
    move_servers: bool,
    /// Leave the agents' own MCP servers where they are, without asking
    #[arg(long, conflicts_with = "move_servers")]
    no_move_servers: bool,
    /// Show the connected agents and the state of their files
    #[arg(long, conflicts_with_all = ["dry_run", "yes", "restore"])]
    status: bool,
    /// Restore a file from a backup; without a value, list the backups
    #[arg(long, value_name = "COPY", num_args = 0..=1, conflicts_with_all = ["agents", "project", "policy", "profile", "scopes", "nodes", "ttl", "no_instructions", "move_servers", "no_move_servers"])]
    restore: Option<Option<String>>,
}

impl ConnectArgs {
    /// Whether any token option was given.
    fn has_token_options(&self) -> bool {
        self.profile.is_some() || !self.scopes.is_empty() || !self.nodes.is_empty() || self.ttl.is_some()
    }
}

/// The planned connection of one agent.
struct Planned {
    agent: &'static Agent,
    installed: Option<InstalledAgent>,
    key: String,
    plan: Plan,
    entry: Value,
    moves: ServerMoves,
}

impl Planned {
    fn is_needed(&self) -> bool {
        self.plan.changes.iter().any(plexus_bridge::Change::is_needed)
    }
}

pub(crate) async fn run(args: ConnectArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (local_agents, change) = (LocalAgents::open(invocation)?, &args.change);
    if args.status {
        display::print_status(&invocation.out, &local_agents.keeper)?;
        return Ok(Exit::Ok.into());
    }
    if let Some(copy) = &args.restore {
        return backups::run(copy.as_deref(), change, &local_agents, invocation).await;
    }
    let scope = scope(change.project.as_deref(), invocation.environment())?;
    let Some(chosen) = choice::agents(&args.agents, change, &scope, &local_agents, invocation)? else {
        invocation.out.note("No agent was chosen; nothing was changed.");
        return Ok(Exit::Ok.into());
    };
    let instructions = match args.no_instructions {
        true => None,
        false => instructions(&args, invocation).await?,
    };
    let mut planned = plan(chosen, &scope, instructions.as_ref(), &args, &local_agents, invocation)?;
    let mut questions = Questions::default();
    server_moves::plan(&mut planned, &scope, &args, &local_agents, (invocation, &mut questions)).await?;
    if !invocation.out.json() {
        planned.iter().try_for_each(|planned| print_plan(&invocation.out, planned, &args))?;
        if scope != Scope::User && instructions.is_some_and(|instructions| !instructions.files.is_empty()) {
            invocation.out.note(
                "These files are part of the project: everybody who has the project can read the text of your \
                 workspace. --no-instructions leaves it out.",
            );
        }
    }
    let failed = planned.iter().any(|planned| !planned.plan.problems.is_empty());
    if change.dry_run {
        if invocation.out.json() {
            print_json(&invocation.out, &planned, &[], &[])?;
        } else {
            invocation.out.note("Nothing was changed: this was a dry run.");
        }
        return Ok(if failed { Exit::Failed } else { Exit::Ok }.into());
    }
    let is_possible = |planned: &&Planned| planned.plan.problems.is_empty();
    let wanted =
        planned.iter().filter(is_possible).any(|planned| planned.is_needed() || args.has_token_options());
    let question = "Write these changes? [y/N]";
    if wanted && !change.yes && !questions.confirm(&invocation.out, question).await? {
        invocation.out.note("Nothing was changed.");
        return Ok(Exit::Ok.into());
    }
    let issuer = TokenIssuer::new(invocation)?;
    check_nodes(&args.nodes, &issuer).await?;
    let _lock = local_agents.lock()?;
    let (mut done, mut failures, mut imported) = (Vec::new(), Vec::new(), BTreeSet::new());
    for planned in planned.iter_mut().filter(|planned| planned.plan.problems.is_empty()) {
        let connected =
            connect(planned, &mut imported, &scope, &args, &issuer, &local_agents, invocation).await;
        match connected {
            Ok(connected) => done.push(connected),
            Err(error) => {
                let hint = error.downcast_ref::<Failure>().and_then(|failure| failure.hint.clone());
                if !invocation.out.json() {
                    invocation.out.note(&format!("error: cannot connect {}: {error}", planned.agent.name));
                    hint.iter().for_each(|hint| invocation.out.note(&format!("hint: {hint}")));
                }
                let (agent, message) = (planned.agent.id, error.to_string());
                failures.push(json!({ "agent": agent, "message": message, "hint": hint }));
            }
        }
    }
    if invocation.out.json() {
        print_json(&invocation.out, &planned, &done, &failures)?;
    }
    Ok(if failed || !failures.is_empty() { Exit::Failed } else { Exit::Ok }.into())
}

/// Selects the files of the user or of a project.
pub(crate) fn scope(project: Option<&Path>, environment: &Environment) -> anyhow::Result<Scope> {
    let home = environment.get(env::HOME);
    let Some(folder) = project else { return Ok(Scope::User) };
    let found =
        fs_err::canonicalize(folder).ok().filter(|folder| folder.is_dir() && folder.to_str().is_some());
    let is_home = |found: &PathBuf| {
        home.is_some_and(|home| fs_err::canonicalize(home).is_ok_and(|home| home == *found))
    };
    match found {
        Some(found) if is_home(&found) => {
            Err(Failure::new(Exit::Usage, "--project: your home folder is not a project")
                .hint("leave out --project to connect the agents for all projects")
                .into())
        }
        Some(found) => Ok(Scope::Project(found)),
        None => Err(Failure::new(Exit::Usage, format!("--project: {} is not a folder", folder.display()))
            .hint("name the folder of the project")
            .into()),
    }
}

/// The hub's text for the instructions of agents; none if the token may not read it.
async fn instructions(
    args: &ConnectArgs,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Option<ExternalAgentInstructions>> {
    let fetch = async {
        let hub = invocation.hub()?;
        hub.get(&["external-agents", "instructions"], &[]).await?.decode::<ExternalAgentInstructions>()
    };
    match fetch.await {
        Ok(instructions) => Ok(Some(instructions)),
        Err(error) if has_code(&error, ErrorCode::Forbidden) => {
            invocation
                .out
                .note("Instructions are left out: your token may not read those of the hub (read:agents).");
            Ok(None)
        }
        Err(error) if args.change.dry_run => {
            invocation.out.note(&format!("Instructions are left out: cannot read those of the hub: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn plan(
    chosen: Vec<(&'static Agent, Option<InstalledAgent>)>,
    scope: &Scope,
    instructions: Option<&ExternalAgentInstructions>,
    args: &ConnectArgs,
    local_agents: &LocalAgents,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Vec<Planned>> {
    let mut planned = Vec::new();
    let content = instructions.map(InstructionContent::from);
    for (agent, installed) in chosen {
        let is_for_agent = |all: &&ExternalAgentInstructions| {
            all.agents.is_empty() || all.agents.iter().any(|id| id == agent.id)
        };
        let content = instructions.filter(is_for_agent).and(content.as_ref());
        let proxy_command = proxy_command(agent, scope, local_agents, invocation.environment())?;
        let bridge = local_agents.keeper.bridge();
        let plan = bridge
            .plan_connect(agent, scope, &proxy_command, content, args.change.policy.into())
            .map_err(|error| local_agents::failure(&error))?;
        if plan.changes.is_empty() && plan.problems.is_empty() {
            let message = format!("cannot find the files of {}: HOME is not an absolute path", agent.name);
            return Err(Failure::new(Exit::Usage, message).hint("set HOME").into());
        }
        let entry = agent.entry(&proxy_command.program, &proxy_command.args);
        planned.push(Planned {
            agent,
            installed,
            key: Bridge::key(agent, scope),
            plan,
            entry,
            moves: ServerMoves::default(),
        });
    }
    Ok(planned)
}

/// How an agent starts the proxy. For the user, the path of the program is absolute, because an agent may be started from any
/// folder with few variables. For a project it is only the name, because other people have the program elsewhere.
fn proxy_command(
    agent: &Agent,
    scope: &Scope,
    local_agents: &LocalAgents,
    environment: &Environment,
) -> anyhow::Result<ProxyCommand> {
    let mut args = ["mcp", "--agent", agent.id].map(str::to_owned).to_vec();
    if *scope != Scope::User {
        return Ok(ProxyCommand { program: "plexus".to_owned(), args });
    }
    let home = environment.get(env::HOME).map(|home| Path::new(home).join(".local/share/plexus"));
    if home.as_deref() != Some(&local_agents.data_dir) {
        args.extend(["--data-dir".to_owned(), local_agents.data_dir.display().to_string()]);
    }
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot get the path of this program: {error}"))
    })?;
    Ok(ProxyCommand { program: program.display().to_string(), args })
}

fn print_plan(out: &Output, planned: &Planned, args: &ConnectArgs) -> anyhow::Result<()> {
    let Planned { agent, installed, plan, moves, .. } = planned;
    let version = installed.as_ref().and_then(|installed| installed.version.as_deref());
    let heading = match (version, agent.tested) {
        (version, None) => format!("{} (untested)", display::with_version(agent.name, version)),
        (version, Some(_)) => display::with_version(agent.name, version),
    };
    out.line(&heading)?;
    if installed.is_none() {
        out.line("  Not found on this machine; its files are written anyway.")?;
    }
    plan.problems.iter().try_for_each(|problem| display::print_problem(out, problem))?;
    for change in &plan.changes {
        display::print_change(out, change)?;
    }
    for server in &moves.staying {
        out.line(&format!("  {} stays in its settings: {}", server.0, server.1))?;
    }
    let commands = moves.new_commands();
    if !commands.is_empty() {
        out.line(&format!("  The hub will be allowed to run: {}", one_line(&commands.join(", "))))?;
    }
    match plan.problems.is_empty() {
        false => out.line("  Nothing is changed for this agent.")?,
        true if args.has_token_options() => {
            let options =
                args.scopes.iter().cloned().chain(args.nodes.iter().map(|node| format!("node:{node}")));
            let options = options.chain(args.profile.iter().map(|id| format!("profile {id}")));
            let options = options.chain(args.ttl.iter().map(|_| "another lifetime".to_owned()));
            let options: Vec<String> = options.collect();
            out.line(&format!("  New token: {}", options.join(", ")))?;
        }
        true => {}
    }
    Ok(())
}

/// Refuses a machine that does not exist, most likely a typo. Without the right to list machines, nothing is checked.
async fn check_nodes(nodes: &[String], issuer: &TokenIssuer) -> anyhow::Result<()> {
    for node in nodes.iter().filter(|node| !node.contains('*')) {
        if let Err(error) = issuer.hub.get(&["nodes", node], &[]).await
            && has_code(&error, ErrorCode::NotFound)
        {
            return Err(Failure::new(Exit::Usage, format!("--node: there is no machine {node:?}"))
                .hint("`plexus node list` lists the machines")
                .into());
        }
    }
    Ok(())
}

/// Creates the agent's token and writes its files.
async fn connect(
    planned: &mut Planned,
    imported: &mut BTreeSet<String>,
    scope: &Scope,
    args: &ConnectArgs,
    issuer: &TokenIssuer,
    local_agents: &LocalAgents,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Value> {
    let staying = planned.moves.staying.len();
    server_moves::import_planned(planned, imported, local_agents, invocation).await?;
    let Planned { agent, installed, key, plan, moves, .. } = &*planned;
    let bridge = local_agents.keeper.bridge();
    let grant = grant::ensure(agent, args, issuer, local_agents, invocation).await?;
    let connection = Connection {
        agent: agent.id.to_owned(),
        project: match scope {
            Scope::User => None,
            Scope::Project(folder) => Some(folder.clone()),
        },
        connected_at: invocation.out.now(),
        version: installed.as_ref().and_then(|installed| installed.version.clone()),
        hub: grant::hub_of(issuer, invocation),
        variables: agents::location_variables(invocation.environment()),
        paused: false,
        instructions: !args.no_instructions,
        last_sync_at: None,
        files: Vec::new(),
        troubles: Vec::new(),
    };
    let mut written = Vec::new();
    for change in &plan.changes {
        match bridge.apply(change, Some(&connection)) {
            Ok(true) => written.push(change.path.display().to_string()),
            Ok(false) => {}
            Err(error) => {
                grant::revoke_unused(agent, local_agents, invocation).await;
                let error = local_agents::failure(&error);
                return Err(match written.as_slice() {
                    [] => error,
                    written => Failure {
                        message: format!("{} (already written: {})", error.message, written.join(", ")),
                        ..error
                    },
                }
                .into());
            }
        }
    }
    let update = bridge.update(key, |known| {
        known.version.clone_from(&connection.version);
        known.instructions = connection.instructions;
        known.last_sync_at = Some(connection.connected_at);
        known.troubles.clear();
    });
    update.map_err(|error| local_agents::failure(&error))?;
    if !invocation.out.json() {
        print_connected(planned, scope, &grant, &written, &invocation.out)?;
        for (name, why) in moves.staying.iter().skip(staying) {
            invocation.out.line(&format!("  {name} stays in its settings: {why}"))?;
        }
    }
    Ok(json!({
        "agent": agent.id,
        "written": written,
        "token": grant::to_json(&grant),
        "moved": moves.names(),
    }))
}

fn print_connected(
    planned: &Planned,
    scope: &Scope,
    grant: &plexus_bridge::Grant,
    written: &[String],
    out: &Output,
) -> anyhow::Result<()> {
    let agent = planned.agent;
    out.line(&match written.is_empty() {
        true => format!("{} is already connected; no file was changed.", agent.name),
        false => format!("{} is connected.", agent.name),
    })?;
    out.line(&format!("  Token: {}.", grant::describe(grant, out)))?;
    let moved_servers = planned.moves.names();
    if !moved_servers.is_empty() {
        out.line(&format!(
            "  Now behind the hub: {}. `plexus upstream list` shows their state; `plexus disconnect {}` puts them back.",
            moved_servers.join(", "),
            agent.id
        ))?;
    }
    if let Some(step) = agent.manual_step(scope) {
        out.line(&format!("  Before it uses the hub: {step}."))?;
    }
    if !written.is_empty() {
        out.line(&format!(
            "  Restart the agent if it runs. To check: plexus doctor. To undo: plexus disconnect {}",
            agent.id
        ))?;
    }
    Ok(())
}

fn print_json(out: &Output, planned: &[Planned], done: &[Value], failures: &[Value]) -> anyhow::Result<()> {
    let agents: Vec<Value> = planned
        .iter()
        .map(|planned| {
            json!({
                "agent": planned.agent.id,
                "name": planned.agent.name,
                "version": planned.installed.as_ref().and_then(|installed| installed.version.clone()),
                "found": planned.installed.is_some(),
                "tested": planned.agent.tested,
                "entry": planned.entry,
                "moves": planned.moves.names(),
                "stays": planned.moves.staying.iter()
                    .map(|(name, why)| json!({ "name": name, "reason": why })).collect::<Vec<_>>(),
                "files": planned.plan.changes.iter().map(display::change_json).collect::<Vec<_>>(),
                "problems": planned.plan.problems.iter().map(display::problem_json).collect::<Vec<_>>(),
            })
        })
        .collect();
    out.json_line(&json!({ "agents": agents, "connected": done, "failed": failures }).to_string())
}
