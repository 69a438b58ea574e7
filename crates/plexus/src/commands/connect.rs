//! `plexus connect`: the agents of this machine are wired to the hub, through its proxy.
//!
//! Their files are read, what would change is shown, and only then it is written: by `plexus-bridge`, which keeps a copy of each
//! and can take everything back. An agent has a token of its own, which is in none of its files.

mod backups;
mod choice;
pub(crate) mod desk;
pub(crate) mod grant;
mod moves;
pub(crate) mod shown;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use plexus_bridge::agents::{self, Agent, Installed, Scope};
use plexus_bridge::{Bridge, Connection, Content, Plan, Policy, Wiring};
use plexus_kit::{Environment, env};
use plexus_proto::ErrorCode;
use plexus_proto::api::ExternalAgentInstructions;
use serde_json::{Value, json};

use super::Invocation;
use super::run::maker::{Maker, is};
use crate::arguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
pub(crate) use choice::known;
use desk::{Desk, Questions};
use moves::Moves;

const AFTER_HELP: &str = "\
Each agent is told, in its own settings, to start `plexus mcp` as an MCP server, and gets what
the hub's workspace says of it (SOUL.md, IDENTITY.md, USER.md, TOOLS.md, MEMORY.md) into its own
instructions. Everything is shown before it is written, a copy of each file is kept, and
`plexus disconnect` takes it out again. What an agent may do without asking is not changed.

MCP servers that an agent has of its own can move behind the hub, where all agents use them. On a
terminal you are asked; elsewhere they stay, unless --move-servers is given. `plexus disconnect`
puts them back into the agent's settings.

Agents: codex, claude-code, cursor, opencode, gemini, vscode, windsurf, zed, goose

Environment:
  PLEXUS_AGENTS  agents to connect, where none is named: codex,claude-code

Examples:
  plexus connect                              # choose on the terminal
  plexus connect codex claude-code --dry-run  # what would change
  plexus connect codex --node nas --yes       # its calls may use that machine
  plexus connect codex --yes --move-servers   # its own servers move behind the hub
  plexus connect claude-code --project .      # for one project only
  plexus connect --status                     # how the files are now
  plexus connect --restore                    # the copies that were kept";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConnectArgs {
    /// Agents to connect [env: PLEXUS_AGENTS] [default: chosen on the terminal; with --yes, and for
    /// --dry-run without a terminal, all that are found]
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Connect them for the project in this folder, and not for all
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Write without asking
    #[arg(long, short = 'y')]
    yes: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Where an agent has an entry of this name that is not ours, or ours was changed
    #[arg(long, value_name = "POLICY", value_enum, default_value_t)]
    policy: PolicyArg,
    /// The profile of their tokens: which tools they see
    #[arg(long, value_name = "ID")]
    profile: Option<String>,
    /// What their tokens may do, such as call:todo; may be repeated [default: call the tools that you may]
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// A machine that they may use; may be repeated, and calls that name none go to the first [default:
    /// none]
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// How long their tokens live before the proxy has to renew them [default: 1d on the machine of
    /// the hub, else 14d]
    #[arg(long, value_name = "TIME", value_parser = arguments::ttl)]
    ttl: Option<u64>,
    /// Leave their instructions alone
    #[arg(long)]
    no_instructions: bool,
    /// Move the MCP servers that they have of their own behind the hub [default: asked on the terminal]
    #[arg(long, conflicts_with = "project")]
    move_servers: bool,
    /// Leave their own MCP servers where they are, without asking
    #[arg(long, conflicts_with = "move_servers")]
    no_move_servers: bool,
    /// Show what is connected and how the files are, and change nothing
    #[arg(long, conflicts_with_all = ["dry_run", "yes", "restore"])]
    status: bool,
    /// Put a file back as it was before a change; without a value, list the copies that there are
    #[arg(long, value_name = "COPY", num_args = 0..=1, conflicts_with_all = ["agents", "project", "policy", "profile", "scopes", "nodes", "ttl", "no_instructions", "move_servers", "no_move_servers"])]
    restore: Option<Option<String>>,
}

impl ConnectArgs {
    /// Whether the agents are to have another token than they would have without a word.
    fn wishes_token(&self) -> bool {
        self.profile.is_some() || !self.scopes.is_empty() || !self.nodes.is_empty() || self.ttl.is_some()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyArg {
    /// Leave it, and say so
    #[default]
    Skip,
    /// Set what is ours in it, and leave the rest
    Merge,
    /// Put ours in its place
    Replace,
}

impl From<PolicyArg> for Policy {
    fn from(policy: PolicyArg) -> Self {
        match policy {
            PolicyArg::Skip => Self::Skip,
            PolicyArg::Merge => Self::Merge,
            PolicyArg::Replace => Self::Replace,
        }
    }
}

/// What connecting one agent would do.
struct Planned {
    agent: &'static Agent,
    installed: Option<Installed>,
    key: String,
    plan: Plan,
    entry: Value,
    moves: Moves,
}

impl Planned {
    fn is_needed(&self) -> bool {
        self.plan.changes.iter().any(plexus_bridge::Change::is_needed)
    }
}

pub(crate) async fn run(args: ConnectArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(invocation)?;
    if args.status {
        shown::status(&invocation.out, &desk.keeper)?;
        return Ok(Exit::Ok.into());
    }
    if let Some(copy) = &args.restore {
        return backups::run(copy.as_deref(), (args.yes, args.dry_run), &desk, invocation).await;
    }
    let scope = scope(args.project.as_deref(), invocation.environment())?;
    let Some(chosen) = choice::agents(&args.agents, (args.yes, args.dry_run), &scope, &desk, invocation)?
    else {
        invocation.out.note("Nothing was chosen, and nothing was changed.");
        return Ok(Exit::Ok.into());
    };
    let told = match args.no_instructions {
        true => None,
        false => instructions(&args, invocation).await?,
    };
    let mut planned = plan(chosen, &scope, told.as_ref(), &args, &desk, invocation)?;
    let mut questions = Questions::default();
    moves::plan(&mut planned, &scope, &args, &desk, (invocation, &mut questions)).await?;
    if !invocation.out.json() {
        planned.iter().try_for_each(|planned| show(&invocation.out, planned, &args))?;
        if scope != Scope::User && told.is_some_and(|told| !told.files.is_empty()) {
            invocation.out.note(
                "These files are the project's: whoever has the project reads what your workspace says. \
                 --no-instructions leaves that out.",
            );
        }
    }
    let failed = planned.iter().any(|planned| !planned.plan.problems.is_empty());
    if args.dry_run {
        if invocation.out.json() {
            tell_json(&invocation.out, &planned, &[], &[])?;
        } else {
            invocation.out.note("Nothing was changed: this was a dry run.");
        }
        return Ok(if failed { Exit::Failed } else { Exit::Ok }.into());
    }
    let can = |planned: &&Planned| planned.plan.problems.is_empty();
    let wanted = planned.iter().filter(can).any(|planned| planned.is_needed() || args.wishes_token());
    let question = "Write these changes? [y/N]";
    if wanted && !args.yes && !questions.confirmed(&invocation.out, question).await? {
        invocation.out.note("Nothing was changed.");
        return Ok(Exit::Ok.into());
    }
    let maker = Maker::new(invocation)?;
    check_nodes(&args.nodes, &maker).await?;
    let _turn = desk.turn()?;
    let (mut done, mut failures) = (Vec::new(), Vec::new());
    for planned in planned.iter_mut().filter(|planned| planned.plan.problems.is_empty()) {
        let connected = connect(planned, &scope, &args, &maker, &desk, invocation).await;
        match connected {
            Ok(connected) => done.push(connected),
            Err(error) => {
                let hint = error.downcast_ref::<Failure>().and_then(|failure| failure.hint.clone());
                if !invocation.out.json() {
                    invocation.out.note(&format!("error: {} is not connected: {error}", planned.agent.name));
                    hint.iter().for_each(|hint| invocation.out.note(&format!("hint: {hint}")));
                }
                let (agent, message) = (planned.agent.id, error.to_string());
                failures.push(json!({ "agent": agent, "message": message, "hint": hint }));
            }
        }
    }
    if invocation.out.json() {
        tell_json(&invocation.out, &planned, &done, &failures)?;
    }
    Ok(if failed || !failures.is_empty() { Exit::Failed } else { Exit::Ok }.into())
}

/// Whose files are meant.
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
            Err(Failure::new(Exit::Usage, "--project: that is your home folder, and no project")
                .hint("without --project agents are connected for all projects")
                .into())
        }
        Some(found) => Ok(Scope::Project(found)),
        None => Err(Failure::new(Exit::Usage, format!("--project: {} is not a folder", folder.display()))
            .hint("name the folder of the project")
            .into()),
    }
}

/// What the hub has for the instructions of agents.
async fn instructions(
    args: &ConnectArgs,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Option<ExternalAgentInstructions>> {
    let asked = async {
        let hub = invocation.hub()?;
        hub.get(&["external-agents", "instructions"], &[]).await?.decode::<ExternalAgentInstructions>()
    };
    match asked.await {
        Ok(instructions) => Ok(Some(instructions)),
        Err(error) if is(&error, ErrorCode::Forbidden) => {
            invocation.out.note(
                "Your token may not read the hub's instructions for agents (read:agents): they are left out.",
            );
            Ok(None)
        }
        Err(error) if args.dry_run => {
            invocation
                .out
                .note(&format!("Instructions are left out, since the hub does not give them: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn plan(
    chosen: Vec<(&'static Agent, Option<Installed>)>,
    scope: &Scope,
    instructions: Option<&ExternalAgentInstructions>,
    args: &ConnectArgs,
    desk: &Desk,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Vec<Planned>> {
    let mut planned = Vec::new();
    let content = instructions.map(Content::from);
    for (agent, installed) in chosen {
        let is_told = |all: &&ExternalAgentInstructions| {
            all.agents.is_empty() || all.agents.iter().any(|told| told == agent.id)
        };
        let content = instructions.filter(is_told).and(content.as_ref());
        let wiring = wiring(agent, scope, desk, invocation.environment())?;
        let bridge = desk.keeper.bridge();
        let plan = bridge
            .plan_connect(agent, scope, &wiring, content, args.policy.into())
            .map_err(|error| desk::refused(&error))?;
        if plan.changes.is_empty() && plan.problems.is_empty() {
            let message =
                format!("it is not known where {} keeps its files: HOME is no whole path", agent.name);
            return Err(Failure::new(Exit::Usage, message).hint("set HOME").into());
        }
        let entry = agent.entry(&wiring.program, &wiring.args);
        planned.push(Planned {
            agent,
            installed,
            key: Bridge::key(agent, scope),
            plan,
            entry,
            moves: Moves::default(),
        });
    }
    Ok(planned)
}

/// How an agent starts the proxy. It may be started from anywhere and with little of the environment, so nothing is left to
/// be found; what is in a project is for others too, who have this program elsewhere.
fn wiring(agent: &Agent, scope: &Scope, desk: &Desk, environment: &Environment) -> anyhow::Result<Wiring> {
    let mut args = ["mcp", "--agent", agent.id].map(str::to_owned).to_vec();
    if *scope != Scope::User {
        return Ok(Wiring { program: "plexus".to_owned(), args });
    }
    let home = environment.get(env::HOME).map(|home| Path::new(home).join(".local/share/plexus"));
    if home.as_deref() != Some(&desk.data_dir) {
        args.extend(["--data-dir".to_owned(), desk.data_dir.display().to_string()]);
    }
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(Exit::Failed, format!("the path of this program is not known: {error}"))
    })?;
    Ok(Wiring { program: program.display().to_string(), args })
}

fn show(out: &Output, planned: &Planned, args: &ConnectArgs) -> anyhow::Result<()> {
    let Planned { agent, installed, plan, moves, .. } = planned;
    let version = installed.as_ref().and_then(|installed| installed.version.as_deref());
    let heading = match (version, agent.tested) {
        (version, None) => format!("{} (untested)", shown::with_version(agent.name, version)),
        (version, Some(_)) => shown::with_version(agent.name, version),
    };
    out.line(&heading)?;
    if installed.is_none() {
        out.line("  It was not found on this machine; its files are written all the same.")?;
    }
    plan.problems.iter().try_for_each(|problem| shown::problem(out, problem))?;
    for change in &plan.changes {
        shown::change(out, change)?;
    }
    for server in &moves.stay {
        out.line(&format!("  {} stays in its settings: {}", server.0, server.1))?;
    }
    match plan.problems.is_empty() {
        false => out.line("  Nothing of it is changed.")?,
        true if args.wishes_token() => {
            let wishes =
                args.scopes.iter().cloned().chain(args.nodes.iter().map(|node| format!("node:{node}")));
            let wishes = wishes.chain(args.profile.iter().map(|id| format!("profile {id}")));
            let wishes = wishes.chain(args.ttl.iter().map(|_| "another life".to_owned()));
            let wishes: Vec<String> = wishes.collect();
            out.line(&format!("  It gets another token: {}", wishes.join(", ")))?;
        }
        true => {}
    }
    Ok(())
}

/// A machine that is not there is most likely misspelt. Who may not see machines has to know.
async fn check_nodes(nodes: &[String], maker: &Maker) -> anyhow::Result<()> {
    for node in nodes.iter().filter(|node| !node.contains('*')) {
        if let Err(error) = maker.hub.get(&["nodes", node], &[]).await
            && is(&error, ErrorCode::NotFound)
        {
            return Err(Failure::new(Exit::Usage, format!("--node: there is no machine {node:?}"))
                .hint("`plexus node list` shows them")
                .into());
        }
    }
    Ok(())
}

/// Gives the agent its token and writes its files.
async fn connect(
    planned: &mut Planned,
    scope: &Scope,
    args: &ConnectArgs,
    maker: &Maker,
    desk: &Desk,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Value> {
    let staying = planned.moves.stay.len();
    moves::carry_out(planned, desk, invocation).await?;
    let Planned { agent, installed, key, plan, moves, .. } = &*planned;
    let bridge = desk.keeper.bridge();
    let grant = grant::ensure(agent, args, maker, desk, invocation).await?;
    let connection = Connection {
        agent: agent.id.to_owned(),
        project: match scope {
            Scope::User => None,
            Scope::Project(folder) => Some(folder.clone()),
        },
        connected_at: invocation.out.now(),
        version: installed.as_ref().and_then(|installed| installed.version.clone()),
        hub: grant::hub_of(maker, invocation),
        variables: agents::variables(invocation.environment()),
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
                grant::withdraw_unused(agent, desk, invocation).await;
                let error = desk::refused(&error);
                return Err(match written.as_slice() {
                    [] => error,
                    written => Failure {
                        message: format!("{} (written before: {})", error.message, written.join(", ")),
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
    update.map_err(|error| desk::refused(&error))?;
    if !invocation.out.json() {
        tell(planned, scope, &grant, &written, &invocation.out)?;
        for (name, why) in moves.stay.iter().skip(staying) {
            invocation.out.line(&format!("  {name} stays in its settings: {why}"))?;
        }
    }
    Ok(json!({
        "agent": agent.id,
        "written": written,
        "token": grant::told(&grant),
        "moved": moves.names(),
    }))
}

fn tell(
    planned: &Planned,
    scope: &Scope,
    grant: &plexus_bridge::Grant,
    written: &[String],
    out: &Output,
) -> anyhow::Result<()> {
    let agent = planned.agent;
    out.line(&match written.is_empty() {
        true => format!("{} is connected already, and nothing had to be written.", agent.name),
        false => format!("{} is connected.", agent.name),
    })?;
    out.line(&format!("  Its token: {}.", grant::in_words(grant, out)))?;
    let moved = planned.moves.names();
    if !moved.is_empty() {
        out.line(&format!(
            "  Behind the hub now: {}. `plexus upstream list` shows how they are doing; `plexus disconnect {}` puts them back.",
            moved.join(", "),
            agent.id
        ))?;
    }
    if let Some(afterwards) = agent.afterwards(scope) {
        out.line(&format!("  Before it uses the hub: {afterwards}."))?;
    }
    if !written.is_empty() {
        out.line(&format!(
            "  Start it anew if it runs. To see it work: plexus doctor. To undo: plexus disconnect {}",
            agent.id
        ))?;
    }
    Ok(())
}

fn tell_json(out: &Output, planned: &[Planned], done: &[Value], failures: &[Value]) -> anyhow::Result<()> {
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
                "stays": planned.moves.stay.iter()
                    .map(|(name, why)| json!({ "name": name, "reason": why })).collect::<Vec<_>>(),
                "files": planned.plan.changes.iter().map(shown::change_json).collect::<Vec<_>>(),
                "problems": planned.plan.problems.iter().map(shown::problem_json).collect::<Vec<_>>(),
            })
        })
        .collect();
    out.json_line(&json!({ "agents": agents, "connected": done, "failed": failures }).to_string())
}
