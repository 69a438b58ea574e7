//! `plexus run`: runs a third-party agent in this terminal, connected to the hub.

mod agent_run;
pub(crate) mod endpoint;
pub(crate) mod reap;
pub(crate) mod session_events;
pub(crate) mod token_issuer;

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
use agent_run::AgentRun;
use endpoint::{Endpoint, EndpointOptions};
use token_issuer::{AgentToken, RunTokenRequest, TokenIssuer};

/// How long to wait for the hub before the agent is started without it.
const HUB_TIMEOUT: Duration = Duration::from_secs(4);

const AFTER_HELP: &str = "\
AGENT is claude, codex, gemini or opencode, or any command with --generic. Arguments after -- are
passed to the agent.

The agent gets a token with at most your rights, which is revoked when the run ends. The token is
in an environment variable, never in an argument or a file, and none of your files are changed. The
agent uses your terminal. The exit code is that of the agent, or 128 plus the number of the signal
that ended it.

An agent has crashed if a signal other than HUP, INT, QUIT, PIPE or TERM ended it, or if its exit
code stands for such a signal. With --restart it is then restarted.

Example:
  plexus run claude
  plexus run codex --profile developer -- exec 'fix the build'
  plexus run claude -- -p 'what is on my list?' | tee answer.txt
  plexus run --generic ./my-agent -- --verbose";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArgs {
    /// Agent to run, or with --generic any command
    agent: String,
    /// Run any command; it finds the hub through PLEXUS_RUN_URL and the variable that PLEXUS_RUN_KEY_VARIABLE names
    #[arg(long)]
    generic: bool,
    /// Profile for the agent's tools, prompts and settings; see `plexus profile list`
    #[arg(long)]
    profile: Option<String>,
    /// Default machine for the agent's calls; see `plexus node list`
    #[arg(long)]
    node: Option<String>,
    /// Fail if the proxy cannot start, instead of connecting the agent directly to the hub
    #[arg(long)]
    require_proxy: bool,
    /// Restart the agent if it crashes, at most N times
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=1000))]
    restart: u32,
    /// Name of the agent's session; a UUID for claude [default: a new one]
    #[arg(long, value_name = "SESSION", value_parser = session_name)]
    name: Option<String>,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
    /// Arguments for the agent
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

fn session_name(text: &str) -> Result<String, String> {
    let fits = (1..=120).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic() && b != b':');
    if fits {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 120 printable ASCII characters without spaces and colons".to_owned())
    }
}

pub(crate) async fn run(args: RunArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let environment = invocation.environment();
    let kind = kind_of(&args)?;
    let path = environment.get(env::PATH).unwrap_or("/usr/local/bin:/usr/bin:/bin");
    let program = find_program(&args.agent, path).ok_or_else(|| not_found(kind, &args.agent))?;
    let id = format!("{:08x}", plexus_proxy::runner::random_id());
    let (conversation, note) = choose_conversation(kind, &args.args, args.name.as_deref(), &id)
        .map_err(|why| Failure::new(Exit::Usage, why))?;
    let data_dir = invocation.data_folder()?;
    let (issuer, runs) = (TokenIssuer::new(invocation)?, RunFolders::of(&data_dir));
    let mut notes: Vec<String> = note.into_iter().collect();

    // Installed before anything is created that a signal could leave behind.
    let signals = Signals::install().context("cannot install signal handlers")?;
    let (sender, receiver) = watch::channel(None::<Secret>);
    let agent = agent_name(kind, &args.agent);
    let options = EndpointOptions {
        data_dir: &data_dir,
        target: &issuer.target,
        token: &receiver,
        agent: &agent,
        conversation: conversation.id(),
        environment,
    };
    let mut endpoint = match endpoint::try_proxy(&options, args.require_proxy).await? {
        Ok(endpoint) => Some(endpoint),
        Err(note) => {
            notes.extend(note);
            None
        }
    };
    let renewed = endpoint.is_some();
    let request = RunTokenRequest {
        agent: &agent,
        profile: args.profile.as_deref(),
        node: args.node.as_deref(),
        renewed,
    };
    let token = create_token(&issuer, &request).await?;
    let profile = match &token {
        Some(token) => {
            let (profile, note) = read_profile(&issuer, token, args.profile.is_some()).await?;
            notes.extend(note);
            profile
        }
        None if args.profile.is_some() => return Err(profile_unreadable(&issuer).into()),
        None => {
            notes.push(unreachable_note(&issuer, endpoint.is_some()));
            None
        }
    };
    let settings = settings(kind, profile.as_ref());
    if let Some(token) = &token {
        sender.send_replace(Some(token.secret.clone()));
        endpoint = endpoint.or_else(|| Some(endpoint::direct(&issuer.target, &token.secret)));
    }
    if settings.mcp == Some(false) {
        endpoint = None;
    }
    let record = new_record(&args, kind, &id, &issuer, token.as_ref(), &conversation, endpoint.as_ref());
    let agent_run = AgentRun {
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
        issuer: &issuer,
        agent_name: agent,
        node: args.node.clone(),
        runs,
        endpoint,
        token: sender,
        notes,
    };
    agent_run.run(record, signals).await
}

fn kind_of(args: &RunArgs) -> anyhow::Result<AgentKind> {
    if args.generic {
        return Ok(AgentKind::Generic);
    }
    AgentKind::named(&args.agent).ok_or_else(|| {
        let known: Vec<&str> = AgentKind::KNOWN.iter().map(|kind| kind.as_str()).collect();
        let suggestion = plexus_kit::config::nearest(&args.agent, known.iter().copied());
        let hint = match suggestion {
            Some(suggestion) => format!("did you mean {suggestion}? For any other command add --generic"),
            None => format!("known agents: {}; for any other command add --generic", known.join(", ")),
        };
        Failure::new(Exit::Usage, format!("{:?} is not a known agent", args.agent)).hint(hint).into()
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

/// The name of the agent in the names of its tokens; for a generic agent, that of its command.
fn agent_name(kind: AgentKind, command: &str) -> String {
    if kind != AgentKind::Generic {
        return kind.as_str().to_owned();
    }
    let base = command.rsplit('/').next().unwrap_or_default();
    let name: String =
        base.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).take(40).collect();
    if name.is_empty() { kind.as_str().to_owned() } else { name }
}

/// Creates the token of the run; `None` if the hub is unreachable or does not answer in time.
async fn create_token(
    issuer: &TokenIssuer,
    request: &RunTokenRequest<'_>,
) -> anyhow::Result<Option<AgentToken>> {
    match tokio::time::timeout(HUB_TIMEOUT, issuer.create_run_token(request)).await {
        Err(_) => Ok(None),
        Ok(Err(error)) if is_unreachable(&error) => Ok(None),
        Ok(token) => token.map(Some),
    }
}

/// Reads the profile of the token, or returns a note why it cannot be read. A profile requested with `--profile` must be
/// readable. One inherited from the user's token restricts the tools even if the user cannot read it.
async fn read_profile(
    issuer: &TokenIssuer,
    token: &AgentToken,
    requested: bool,
) -> anyhow::Result<(Option<ProfileDetail>, Option<String>)> {
    let Some(id) = token.profile.as_deref() else { return Ok((None, None)) };
    let response = tokio::time::timeout(HUB_TIMEOUT, issuer.hub.get(&["profiles", id], &[])).await;
    let response = response.unwrap_or_else(|_| Err(profile_unreadable(issuer).into()));
    match response.and_then(|answer| answer.decode()) {
        Ok(profile) => Ok((Some(profile), None)),
        Err(error) if !requested => Ok((
            None,
            Some(format!("cannot read the profile {id}; its prompts and settings are not applied: {error}")),
        )),
        Err(error) => {
            // The token exists, but the agent will not start.
            let _ = tokio::time::timeout(HUB_TIMEOUT, issuer.revoke(token.jti)).await;
            Err(error)
        }
    }
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Failure>()
        .is_some_and(|failure| failure.exit == Exit::Unreachable || failure.retryable)
}

fn profile_unreadable(issuer: &TokenIssuer) -> Failure {
    let message = format!("cannot read the profile: the hub at {} does not answer", issuer.hub.url());
    Failure::new(Exit::Unreachable, message).hint("start the hub with `plexus up`, or omit --profile")
}

fn unreachable_note(issuer: &TokenIssuer, has_proxy: bool) -> String {
    let consequence = match has_proxy {
        true => "its tools are available once it does",
        false => "the agent runs without its tools",
    };
    format!("the hub at {} does not answer: {consequence}", issuer.hub.url())
}

/// The profile's settings for this agent, with those for all agents (`*`) as the default.
fn settings(kind: AgentKind, profile: Option<&ProfileDetail>) -> ProfileRun {
    let of =
        |name: &str| profile.and_then(|profile| profile.profile.run.get(name)).cloned().unwrap_or_default();
    of(kind.as_str()).or(of("*"))
}

fn new_record(
    args: &RunArgs,
    kind: AgentKind,
    id: &str,
    issuer: &TokenIssuer,
    token: Option<&AgentToken>,
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
        hub: issuer.hub.url().to_owned(),
        via: endpoint.map_or(HubRoute::None, |endpoint| endpoint.via),
        profile: token.and_then(|token| token.profile.clone()).or_else(|| args.profile.clone()),
        node: args.node.clone(),
        token: token.map(|token| token.jti),
        token_name: token.map(|token| token.name.clone()),
        client: kind.client().map(str::to_owned),
        conversation: conversation.id().map(str::to_owned),
        events: vec![],
        reported: 0,
    }
}

/// Prints a note about the run on standard error, unless `quiet` is set.
fn print_note(quiet: bool, text: &str) {
    if !quiet {
        output::note(&format!("plexus: {text}"));
    }
}
