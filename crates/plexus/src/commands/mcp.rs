//! `plexus mcp`: runs the local proxy between one agent and the hub.

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
use crate::stdio;
use crate::target::{Credential, Target};

/// Time limit for running requests when the proxy stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// Length of a generated secret.
const SECRET_BYTES: usize = 32;

const AFTER_HELP: &str = "\
Agents start this command as an MCP server that provides the tools of the hub. While the hub is
unreachable, the agent keeps its list of tools, and writes that can wait (todo, scratchpad) are
stored on this machine, answered with \"queued\", and applied once when the hub is back. See
`plexus outbox`.

Environment:
  PLEXUS_HUB           URL of the hub
  PLEXUS_TOKEN         token of the agent; without it, the proxy creates one with the admin token
                       of this machine's hub. The proxy renews it, and the agent never sees it
  PLEXUS_PROXY         0, false or off: pass everything on and store nothing
  PLEXUS_PROXY_SECRET  with --http: bearer token that clients must present

Examples:
  claude mcp add plexus -- plexus mcp --agent claude
  codex mcp add plexus -- plexus mcp --agent codex
  plexus mcp --http 127.0.0.1:0                # for agents that only speak HTTP";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct McpArgs {
    /// Name of the agent, for the token that the proxy creates and for the agent's data on this machine
    #[arg(long, value_name = "NAME", default_value = "mcp", value_parser = agent_name)]
    agent: String,
    /// Listen for HTTP on this address of this machine instead of standard input
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Name of the conversation if the agent gives none [default: a new one each time]
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
    let proxy = Proxy::open(options, &supervisor).await.map_err(failure)?;
    let served = match args.http {
        None => {
            let input = stdio::input().context("cannot read standard input")?;
            let output = stdio::output().context("cannot write to standard output")?;
            tokio::select! {
                served = proxy.serve_stdio(BufReader::new(input), output) => served.map_err(failure),
                () = signals.next() => Ok(()),
            }
        }
        Some(address) => {
            let given = invocation.environment().get(env::PROXY_SECRET);
            let secret = given.map(Secret::from).map_or_else(make_secret, Ok)?;
            let endpoint = proxy.listen(address, &secret).await.map_err(failure)?;
            announce(invocation, &hub, &endpoint, given.is_none().then_some(&secret));
            signals.next().await;
            Ok(())
        }
    };
    supervisor.shutdown(SHUTDOWN_TIMEOUT).await;
    served?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &McpArgs, invocation: &Invocation<'_>) -> anyhow::Result<ProxyOptions> {
    let data_dir = invocation.data_folder()?;
    let grant = read_grant(args, invocation, &data_dir)?;
    let target = match &grant {
        Some(grant) => invocation.grant_target(grant)?,
        None => invocation.target()?,
    };
    let tls = target.certificate.as_deref().map(pinned::tls_config).transpose()?.map(Arc::new);
    // Queued writes belong to one subject, because the hub scopes idempotency keys by subject.
    let subject = match &target.credential {
        Credential::Given { .. } => target.subject(),
        Credential::Local(_) | Credential::Missing(_) => format!("agent:{}", args.agent),
    };
    let folder = plexus_proxy::proxy_folder(&data_dir, &args.agent, &subject, &target.url);
    let url = target.url.clone();
    let credential = match grant {
        Some(grant) => credential_of_grant(grant, &args.agent, target.is_local, invocation, &data_dir),
        None => credential_of_target(target, invocation),
    };
    Ok(ProxyOptions {
        tls,
        session: args.session.clone(),
        workspace: std::env::current_dir().ok().and_then(|folder| Some(folder.to_str()?.to_owned())),
        passthrough: is_off(invocation.environment()),
        ..ProxyOptions::new(url, credential, &args.agent, folder)
    })
}

/// The grant that the agent got from `plexus connect`. It takes precedence over `PLEXUS_TOKEN`, because a token in the shell
/// that started the agent is not meant for the agent.
fn read_grant(args: &McpArgs, invocation: &Invocation<'_>, data_dir: &Path) -> anyhow::Result<Option<Grant>> {
    if invocation.has_hub_flag() {
        return Ok(None);
    }
    let grants = Grants::new(&data_dir.join(plexus_bridge::FOLDER));
    if grants.is_disconnected(&args.agent) {
        let message = format!("{} was disconnected from the hub", args.agent);
        let hint = format!("`plexus connect {}` connects it again", args.agent);
        return Err(Failure::new(Exit::Denied, message).hint(hint).into());
    }
    grants.read(&args.agent).map_err(|error| {
        let fix = format!("`plexus connect {}` gives the agent another token", args.agent);
        Failure::new(Exit::Failed, error.to_string()).hint(fix).into()
    })
}

/// The credential of a proxy with a grant. On the hub's machine, an expired token is replaced by a new one.
fn credential_of_grant(
    grant: Grant,
    agent: &str,
    here: bool,
    invocation: &Invocation<'_>,
    data_dir: &Path,
) -> CredentialSource {
    let grants = Grants::new(&data_dir.join(plexus_bridge::FOLDER));
    let by_admin = here && grant.by_admin;
    let (agent, find) = (agent.to_owned(), invocation.local_admin_resolver(grant.hub));
    let (read, name) = (grants.clone(), agent.clone());
    let admin: FindAdminToken =
        Box::new(move || match find().map_err(|error| error.to_string())?.credential {
            Credential::Local(token) => Ok(token),
            Credential::Given { .. } => Err("a token other than the admin token was given".to_owned()),
            Credential::Missing(why) => Err(why),
        });
    CredentialSource::Granted(GrantedCredential {
        read: Box::new(move || read.read(&name).ok().flatten()),
        admin: by_admin.then_some(admin),
        save: Box::new(move |id, made, renew_at| {
            grants.renew(&agent, id, made, renew_at).unwrap_or_else(|error| {
                // This proxy can still use it.
                tracing::warn!(%error, "cannot store the token of the agent");
                true
            })
        }),
    })
}

/// Whether the user has disabled the proxy.
pub(crate) fn is_off(environment: &Environment) -> bool {
    let set = environment.get(env::PROXY).map(str::to_ascii_lowercase);
    set.is_some_and(|set| matches!(&*set, "0" | "false" | "off"))
}

/// The credential of a proxy without a grant: a token, or a function that finds the token to create one with.
fn credential_of_target(target: Target, invocation: &Invocation<'_>) -> CredentialSource {
    match target.credential {
        Credential::Given { token, .. } => CredentialSource::Token(token),
        Credential::Local(_) | Credential::Missing(_) => {
            let find = invocation.target_resolver();
            CredentialSource::Admin(Box::new(move || {
                match find().map_err(|error| error.to_string())?.credential {
                    Credential::Given { token, .. } | Credential::Local(token) => Ok(token),
                    Credential::Missing(why) => Err(why),
                }
            }))
        }
    }
}

pub(crate) fn make_secret() -> anyhow::Result<Secret> {
    let mut bytes = [0; SECRET_BYTES];
    rand::fill(&mut bytes).context("cannot get random numbers from this machine")?;
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

fn failure(error: ProxyError) -> anyhow::Error {
    let exit = match &error {
        ProxyError::Address(_) | ProxyError::Listen { .. } => Exit::Usage,
        _ => Exit::Failed,
    };
    match &error {
        ProxyError::Folder(_) | ProxyError::Outbox(_) => Failure::new(exit, error.to_string())
            .hint("set PLEXUS_DATA_DIR to a writable folder, or PLEXUS_PROXY=off to store nothing")
            .into(),
        _ => Failure::new(exit, error.to_string()).into(),
    }
}
