//! `plexus run`: an agent of someone else, connected to the hub, on the terminal that one sits at.

pub(crate) mod endpoint;
pub(crate) mod journal;
pub(crate) mod maker;
pub(crate) mod reap;
mod work;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use plexus_kit::process::find_program;
use plexus_kit::{Secret, env};
use plexus_proto::Timestamp;
use plexus_proto::api::{ProfileDetail, ProfileRun};
use plexus_proxy::runner::{
    AgentConversation, AgentKind, HubRoute, ProcessId, RunFolders, RunRecord, RunState, Signals,
    choose_conversation,
};
use tokio::sync::watch;

use super::Invocation;
use crate::failure::{Exit, Failure};
use crate::output;
use endpoint::{Endpoint, Wanted};
use maker::{Made, Maker, Wish};
use work::Work;

/// For the hub to answer before the agent is started without it.
const MOMENT: Duration = Duration::from_secs(4);

const AFTER_HELP: &str = "\
AGENT is claude, codex, gemini or opencode, or any command with --generic. What follows -- is
passed on to it as it is.

The agent gets a token of its own: a part of yours, for this run, revoked at its end. It is in a
variable and in no argument or file, and no file of yours is changed. The agent has your terminal;
its exit code is ours: 128 and the number of the signal that ended it, if one did.

It crashes when it is ended by a signal other than HUP, INT, QUIT, PIPE and TERM, or with a code
that tells of one. --restart starts it again then.

Example:
  plexus run claude
  plexus run codex --profile developer -- exec 'fix the build'
  plexus run claude -- -p 'what is on my list?' | tee answer.txt
  plexus run --generic ./my-agent -- --verbose";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArgs {
    /// The agent, or the command of one with --generic
    agent: String,
    /// Run any command; it finds the hub by PLEXUS_RUN_URL and the variable named in PLEXUS_RUN_KEY_VARIABLE
    #[arg(long)]
    generic: bool,
    /// Profile that says which tools it sees and what else it is given; `plexus profile list` shows them
    #[arg(long)]
    profile: Option<String>,
    /// Machine where its calls go that name none; `plexus node list` shows them
    #[arg(long)]
    node: Option<String>,
    /// Do not run it without a proxy, which outlasts a hub that restarts
    #[arg(long)]
    require_proxy: bool,
    /// Start it again when it crashes, so many times at most
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=1000))]
    restart: u32,
    /// Name of its session: a UUID for claude [default: a fresh one]
    #[arg(long, value_name = "SESSION", value_parser = session_name)]
    name: Option<String>,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
    /// Arguments of the agent
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

fn session_name(text: &str) -> Result<String, String> {
    let fits = (1..=120).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic() && b != b':');
    if fits { Ok(text.to_owned()) } else { Err("expected 1 to 120 visible characters without :".to_owned()) }
}

pub(crate) async fn run(args: RunArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let environment = invocation.environment();
    let kind = kind_of(&args)?;
    let path = environment.get(env::PATH).unwrap_or("/usr/local/bin:/usr/bin:/bin");
    let program = find_program(&args.agent, path).ok_or_else(|| not_found(kind, &args.agent))?;
    let id = format!("{:08x}", plexus_proxy::runner::random_id());
    let (conversation, remark) = choose_conversation(kind, &args.args, args.name.as_deref(), &id)
        .map_err(|why| Failure::new(Exit::Usage, why))?;
    let data_dir = invocation.data_folder()?;
    let (maker, runs) = (Maker::new(invocation)?, RunFolders::of(&data_dir));
    let mut notes: Vec<String> = remark.into_iter().collect();

    // Before anything is made that a signal could leave behind.
    let signals = Signals::install().context("cannot take signals")?;
    let (sender, token) = watch::channel(None::<Secret>);
    let agent = name_of(kind, &args.agent);
    let wanted = Wanted {
        data_dir: &data_dir,
        target: &maker.target,
        token: &token,
        agent: &agent,
        conversation: conversation.id(),
        environment,
    };
    let mut endpoint = match endpoint::try_proxy(&wanted, args.require_proxy).await? {
        Ok(endpoint) => Some(endpoint),
        Err(note) => {
            notes.extend(note);
            None
        }
    };
    let renewed = endpoint.is_some();
    let wish = Wish { agent: &agent, profile: args.profile.as_deref(), node: args.node.as_deref(), renewed };
    let made = made_in_a_moment(&maker, &wish).await?;
    let profile = match &made {
        Some(made) => {
            let (profile, note) = profile_of(&maker, made, args.profile.is_some()).await?;
            notes.extend(note);
            profile
        }
        None if args.profile.is_some() => return Err(no_profile(&maker).into()),
        None => {
            notes.push(away(&maker, endpoint.is_some()));
            None
        }
    };
    let settings = settings(kind, profile.as_ref());
    if let Some(made) = &made {
        sender.send_replace(Some(made.token.clone()));
        endpoint = endpoint.or_else(|| Some(endpoint::direct(&maker.target, &made.token)));
    }
    if settings.mcp == Some(false) {
        endpoint = None;
    }
    let record = record(&args, kind, &id, &maker, made.as_ref(), &conversation, endpoint.as_ref());
    let work = Work {
        args: &args.args,
        kind,
        program,
        restarts: args.restart,
        quiet: args.quiet,
        system_prompt: profile
            .and_then(|profile| profile.system_prompt)
            .filter(|_| settings.system_prompt == Some(true)),
        settings,
        conversation,
        environment,
        maker: &maker,
        agent_name: agent,
        node: args.node.clone(),
        runs,
        endpoint,
        token: sender,
        notes,
    };
    work.run(record, signals).await
}

fn kind_of(args: &RunArgs) -> anyhow::Result<AgentKind> {
    if args.generic {
        return Ok(AgentKind::Generic);
    }
    AgentKind::named(&args.agent).ok_or_else(|| {
        let known: Vec<&str> = AgentKind::KNOWN.iter().map(|kind| kind.as_str()).collect();
        let meant = plexus_kit::config::nearest(&args.agent, known.iter().copied());
        let hint = match meant {
            Some(meant) => format!("did you mean {meant}? For any other command add --generic"),
            None => format!("known are {}; for any other command add --generic", known.join(", ")),
        };
        Failure::new(Exit::Usage, format!("{:?} is no agent that is known", args.agent)).hint(hint).into()
    })
}

fn not_found(kind: AgentKind, command: &str) -> Failure {
    let failure =
        Failure::new(Exit::Failed, format!("{command} is not installed: no such program is on PATH"));
    match kind.install() {
        Some(install) => failure.hint(format!("install it, for example with `{install}`")),
        None => failure.hint("give its path, or add its folder to PATH"),
    }
}

/// How the token of the run is called after that of its maker: by the agent, or the command where it has no name.
fn name_of(kind: AgentKind, command: &str) -> String {
    if kind != AgentKind::Generic {
        return kind.as_str().to_owned();
    }
    let base = command.rsplit('/').next().unwrap_or_default();
    let name: String =
        base.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).take(40).collect();
    if name.is_empty() { kind.as_str().to_owned() } else { name }
}

/// The token of the run; none where the hub does not answer in a moment.
async fn made_in_a_moment(maker: &Maker, wish: &Wish<'_>) -> anyhow::Result<Option<Made>> {
    match tokio::time::timeout(MOMENT, maker.make(wish)).await {
        Err(_) => Ok(None),
        Ok(Err(error)) if is_away(&error) => Ok(None),
        Ok(made) => made.map(Some),
    }
}

/// What the profile of the token says. One that was asked for has to be known; one that comes with the token of whoever
/// starts the run narrows the tools also where its maker may not read it.
async fn profile_of(
    maker: &Maker,
    made: &Made,
    asked: bool,
) -> anyhow::Result<(Option<ProfileDetail>, Option<String>)> {
    let Some(id) = made.profile.as_deref() else { return Ok((None, None)) };
    let read = tokio::time::timeout(MOMENT, maker.hub.get(&["profiles", id], &[])).await;
    let read = read.unwrap_or_else(|_| Err(no_profile(maker).into()));
    match read.and_then(|answer| answer.decode()) {
        Ok(profile) => Ok((Some(profile), None)),
        Err(error) if !asked => Ok((
            None,
            Some(format!("the profile {id} cannot be read, so it gives the agent nothing: {error}")),
        )),
        Err(error) => {
            // The token is there, and its holder will never be.
            let _ = tokio::time::timeout(MOMENT, maker.revoke(made.jti)).await;
            Err(error)
        }
    }
}

pub(crate) fn is_away(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Failure>()
        .is_some_and(|failure| failure.exit == Exit::Unreachable || failure.retryable)
}

fn no_profile(maker: &Maker) -> Failure {
    let message = format!("the hub at {} does not answer, so its profiles cannot be read", maker.hub.url());
    Failure::new(Exit::Unreachable, message).hint("start it with `plexus up`, or leave --profile out")
}

fn away(maker: &Maker, proxy: bool) -> String {
    let then = match proxy {
        true => "its tools are there when it is",
        false => "the agent runs without it",
    };
    format!("the hub at {} does not answer: {then}", maker.hub.url())
}

/// What the profile says for this agent, and for all of them where it says nothing.
fn settings(kind: AgentKind, profile: Option<&ProfileDetail>) -> ProfileRun {
    let of =
        |name: &str| profile.and_then(|profile| profile.profile.run.get(name)).cloned().unwrap_or_default();
    of(kind.as_str()).or(of("*"))
}

fn record(
    args: &RunArgs,
    kind: AgentKind,
    id: &str,
    maker: &Maker,
    made: Option<&Made>,
    conversation: &AgentConversation,
    endpoint: Option<&Endpoint>,
) -> RunRecord {
    RunRecord {
        id: id.to_owned(),
        agent: kind,
        command: args.agent.clone(),
        state: RunState::Starting,
        started_at: Timestamp::now(),
        runner: ProcessId::own(),
        process: None,
        own_group: false,
        hub: maker.hub.url().to_owned(),
        via: endpoint.map_or(HubRoute::None, |endpoint| endpoint.via),
        profile: made.and_then(|made| made.profile.clone()).or_else(|| args.profile.clone()),
        node: args.node.clone(),
        token: made.map(|made| made.jti),
        token_name: made.map(|made| made.name.clone()),
        client: kind.client().map(str::to_owned),
        conversation: conversation.id().map(str::to_owned),
        events: vec![],
        reported: 0,
    }
}

/// A remark beside what the agent says; `quiet` keeps it back.
fn remark(quiet: bool, text: &str) {
    if !quiet {
        output::note(&format!("plexus: {text}"));
    }
}
