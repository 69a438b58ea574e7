//! `plexus mcp`: the local proxy in front of the hub, for one agent.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use aws_lc_rs::rand;
use clap::Args;
use plexus_bridge::{Grant, Grants};
use plexus_kit::{Environment, ExposeSecret, Secret, Supervisor, env, hex};
use plexus_proxy::{
    CredentialSource, Endpoint, FindAdminToken, GrantedCredential, Proxy, ProxyError, ProxyOptions,
};
use serde_json::json;
use tokio::io::BufReader;

use super::Invocation;
use crate::client::pinned;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::signals::Signals;
use crate::standard;
use crate::target::{Credential, Target};

/// For what is under way to end when the proxy stops.
const GRACE: Duration = Duration::from_secs(3);
/// Bytes of a secret that is made here.
const SECRET: usize = 32;

const AFTER_HELP: &str = "\
An agent is told to start this command as its MCP server; its tools are then those of the hub.
While the hub is away the agent keeps its list of tools, and writes that may wait (todo,
scratchpad) are stored on this machine, answered with \"queued\", and done once when the hub is
back. See `plexus outbox`.

Environment:
  PLEXUS_HUB           URL of the hub
  PLEXUS_TOKEN         token of the agent; without it, the proxy makes one with the admin token of
                       this machine's hub. It is renewed by itself, and the agent never sees it
  PLEXUS_PROXY         0, false or off: pass everything on and keep nothing
  PLEXUS_PROXY_SECRET  with --http: what clients present as their bearer token

Examples:
  claude mcp add plexus -- plexus mcp --agent claude
  codex mcp add plexus -- plexus mcp --agent codex
  plexus mcp --http 127.0.0.1:0                # for agents that only speak HTTP";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct McpArgs {
    /// Name of the agent: of its token, where the proxy makes it, and of what it keeps on this machine
    #[arg(long, value_name = "NAME", default_value = "mcp", value_parser = agent_name)]
    agent: String,
    /// Take requests on this address of this machine, instead of standard input
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Name of the conversation, where the agent names none [default: another one each time]
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

fn agent_name(text: &str) -> Result<String, String> {
    let ok = (1..=64).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if ok { Ok(text.to_owned()) } else { Err("use 1 to 64 letters, digits and . _ -".to_owned()) }
}

pub(crate) async fn run(args: McpArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let supervisor = Supervisor::new();
    let options = options(&args, invocation)?;
    let hub = options.hub.as_str().trim_end_matches('/').to_owned();
    let proxy = Proxy::open(options, &supervisor).await.map_err(told)?;
    let served = match args.http {
        None => {
            let input = standard::input().context("standard input cannot be read")?;
            let output = standard::output().context("standard output cannot be written to")?;
            tokio::select! {
                served = proxy.serve_stdio(BufReader::new(input), output) => served.map_err(told),
                () = signals.next() => Ok(()),
            }
        }
        Some(address) => {
            let given = invocation.environment().get(env::PROXY_SECRET);
            let secret = given.map(Secret::from).map_or_else(make_secret, Ok)?;
            let endpoint = proxy.listen(address, &secret).await.map_err(told)?;
            announce(invocation, &hub, &endpoint, given.is_none().then_some(&secret));
            signals.next().await;
            Ok(())
        }
    };
    supervisor.shutdown(GRACE).await;
    served?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &McpArgs, invocation: &Invocation<'_>) -> anyhow::Result<ProxyOptions> {
    let data_dir = invocation.data_folder()?;
    let grant = granted(args, invocation, &data_dir)?;
    let target = match &grant {
        Some(grant) => invocation.target_of(grant)?,
        None => invocation.target()?,
    };
    let tls = target.certificate.as_deref().map(pinned::only).transpose()?.map(Arc::new);
    // What waits is of one subject and of no other: the hub knows keys of writes by whose they are.
    let whose = match &target.credential {
        Credential::Given { .. } => target.subject(),
        Credential::Local(_) | Credential::Missing(_) => format!("agent:{}", args.agent),
    };
    let folder = plexus_proxy::proxy_folder(&data_dir, &args.agent, &whose, &target.url);
    let url = target.url.clone();
    let first = match grant {
        Some(grant) => given(grant, &args.agent, target.here, invocation, &data_dir),
        None => first(target, invocation),
    };
    Ok(ProxyOptions {
        tls,
        session: args.session.clone(),
        workspace: std::env::current_dir().ok().and_then(|folder| Some(folder.to_str()?.to_owned())),
        passthrough: is_off(invocation.environment()),
        ..ProxyOptions::new(url, first, &args.agent, folder)
    })
}

/// What the agent was given when it was connected. It holds whatever the shell says that the agent was started from: whose
/// token is in there is not for the agent.
fn granted(args: &McpArgs, invocation: &Invocation<'_>, data_dir: &Path) -> anyhow::Result<Option<Grant>> {
    if invocation.has_hub_flag() {
        return Ok(None);
    }
    let grants = Grants::new(&data_dir.join(plexus_bridge::FOLDER));
    if grants.is_taken(&args.agent) {
        let message = format!("{} was disconnected from the hub", args.agent);
        let hint = format!("`plexus connect {}` connects it again", args.agent);
        return Err(Failure::new(Exit::Denied, message).hint(hint).into());
    }
    grants.read(&args.agent).map_err(|error| {
        let fix = format!("`plexus connect {}` gives the agent another token", args.agent);
        Failure::new(Exit::Failed, error.to_string()).hint(fix).into()
    })
}

/// The same for the proxy. Where the hub is on this machine, a token whose time is over is followed by another.
fn given(
    grant: Grant,
    agent: &str,
    here: bool,
    invocation: &Invocation<'_>,
    data_dir: &Path,
) -> CredentialSource {
    let grants = Grants::new(&data_dir.join(plexus_bridge::FOLDER));
    let by_admin = here && grant.by_admin;
    let (agent, look) = (agent.to_owned(), invocation.maker_of(grant.hub));
    let (read, name) = (grants.clone(), agent.clone());
    let admin: FindAdminToken =
        Box::new(move || match look().map_err(|error| error.to_string())?.credential {
            Credential::Local(token) => Ok(token),
            Credential::Given { .. } => Err("another token is given".to_owned()),
            Credential::Missing(why) => Err(why),
        });
    CredentialSource::Granted(GrantedCredential {
        read: Box::new(move || read.read(&name).ok().flatten()),
        admin: by_admin.then_some(admin),
        save: Box::new(move |id, made, renew_at| {
            grants.renew(&agent, id, made, renew_at).unwrap_or_else(|error| {
                // It is used all the same, by this proxy.
                tracing::warn!(%error, "the token of the agent cannot be stored");
                true
            })
        }),
    })
}

/// Whether the user wants no proxy.
pub(crate) fn is_off(environment: &Environment) -> bool {
    let set = environment.get(env::PROXY).map(str::to_ascii_lowercase);
    set.is_some_and(|set| matches!(&*set, "0" | "false" | "off"))
}

/// What the proxy begins with: a token that was given, or what makes one.
fn first(target: Target, invocation: &Invocation<'_>) -> CredentialSource {
    match target.credential {
        Credential::Given { token, .. } => CredentialSource::Token(token),
        Credential::Local(_) | Credential::Missing(_) => {
            let look = invocation.again();
            CredentialSource::Admin(Box::new(move || {
                match look().map_err(|error| error.to_string())?.credential {
                    Credential::Given { token, .. } | Credential::Local(token) => Ok(token),
                    Credential::Missing(why) => Err(why),
                }
            }))
        }
    }
}

pub(crate) fn make_secret() -> anyhow::Result<Secret> {
    let mut bytes = [0; SECRET];
    rand::fill(&mut bytes).context("this machine has no random numbers")?;
    Ok(Secret::from(hex::encode(&bytes).as_str()))
}

fn announce(invocation: &Invocation<'_>, hub: &str, endpoint: &Endpoint, made: Option<&Secret>) {
    let url = &endpoint.url;
    if invocation.out.json() {
        let secret = made.map(|secret| secret.expose_secret().to_owned());
        output::announce(&format!("{}\n", json!({ "url": url, "hub": hub, "secret": secret })));
        return;
    }
    let secret = match made {
        Some(secret) => secret.expose_secret().to_owned(),
        None => format!("as in {}", env::PROXY_SECRET.name),
    };
    output::announce(&format!(
        "Plexus proxy for {hub}.\n  URL     {url}\n  Secret  {secret}\n\nClients present the secret as \"Authorization: \
         Bearer …\". Stop with Ctrl-C.\n"
    ));
}

fn told(error: ProxyError) -> anyhow::Error {
    let exit = match &error {
        ProxyError::Address(_) | ProxyError::Listen { .. } => Exit::Usage,
        _ => Exit::Failed,
    };
    match &error {
        ProxyError::Folder(_) | ProxyError::Outbox(_) => Failure::new(exit, error.to_string())
            .hint("set PLEXUS_DATA_DIR to a folder that can be written to, or PLEXUS_PROXY=off to go without")
            .into(),
        _ => Failure::new(exit, error.to_string()).into(),
    }
}
