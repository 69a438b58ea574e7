//! `plexus upstream add`, and waiting for a server that is starting.

use std::time::{Duration, Instant};

use clap::Args;
use plexus_proto::ErrorCode;
use plexus_proto::api::{AddUpstreamParams, Upstream, UpstreamState};
use serde_json::Value;

use super::allow::{AllowArgs, Owner};
use super::server_args::ServerArgs;
use super::show;
use crate::arguments;
use crate::client::{Answer, Hub, Param};
use crate::failure::{Exit, Failure};
use crate::output::{Output, one_line, warning};
use crate::shell;

/// Interval between two polls of a starting server.
const POLL_INTERVAL: Duration = Duration::from_millis(150);
/// Maximum time in seconds that the hub is asked to wait before it responds.
const MAX_HUB_WAIT: u64 = 15;
const NO_REASON: &str = "no reason is known";

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Name of the server: letters, digits, `.`, `_` and `-`
    name: String,
    #[command(flatten)]
    server: ServerArgs,
    /// Start it once to list its tools, stop it when it is idle, and start it again for the next call
    #[arg(long)]
    lazy: bool,
    /// Which of its tools to list without review [default: tofu, those that it has now]
    #[arg(long, value_parser = ["manual", "tofu", "auto"])]
    approve: Option<String>,
    /// Only write its file, without starting it
    #[arg(long)]
    disabled: bool,
    #[command(flatten)]
    allow: AllowArgs,
    #[command(flatten)]
    wait: WaitArgs,
}

#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    /// How long to wait until it is up: 30s, 5m, or 0 to not wait
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = arguments::span)]
    wait: u64,
}

impl WaitArgs {
    /// The part of the time that the hub waits; for the rest, this command polls.
    pub(super) fn query(&self) -> [Param<'static>; 1] {
        [("wait_seconds", Some(self.wait.min(MAX_HUB_WAIT).to_string()))]
    }
}

pub(super) async fn run(out: &Output, hub: &Hub, owner: &Owner<'_>, args: AddArgs) -> anyhow::Result<()> {
    let AddArgs { name, server, lazy, approve, disabled, allow, wait } = args;
    let mut server = server.document(&format!("add {}", shell::name(&name)))?;
    if lazy {
        server.insert("lazy".to_owned(), Value::Bool(true));
    }
    if let Some(approve) = approve {
        server.insert("approve".to_owned(), Value::String(approve));
    }
    if disabled {
        server.insert("enabled".to_owned(), Value::Bool(false));
    }
    let params = AddUpstreamParams { name, server };
    let started = Instant::now();
    let request = async || hub.post_with(&["upstreams"], &wait.query(), &params, &[]).await;
    let answer = owner.send(allow, request).await;
    let answer = answer.map_err(|error| as_usage_error(error, &params.name))?;
    let upstream: Upstream = answer.decode()?;
    upstream.warnings.iter().for_each(|text| warning(text));
    if !out.json() {
        out.note(&format!("Wrote {}.", one_line(&upstream.file)));
    }
    report(out, hub, &params.name, &wait, started).await
}

/// Turns a refusal of the server's settings into a usage error. Removes the file from the message, because no file
/// was written.
fn as_usage_error(error: anyhow::Error, name: &str) -> anyhow::Error {
    let mut failure = match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => return error,
    };
    if failure.code == Some(ErrorCode::InvalidRequest) {
        failure.exit = Exit::Usage;
        let file = format!("/{name}.json:");
        let words = failure.message.split(' ').filter(|word| !word.ends_with(&file));
        failure.message = words.collect::<Vec<_>>().join(" ");
    }
    failure.into()
}

/// Waits for a starting server and prints the result. A failure does not undo anything.
pub(super) async fn report(
    out: &Output,
    hub: &Hub,
    name: &str,
    wait: &WaitArgs,
    started: Instant,
) -> anyhow::Result<()> {
    let timeout = Duration::from_secs(wait.wait);
    let answer = wait_until_started(out, hub, name, started, timeout).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
    }
    let upstream: Upstream = answer.decode()?;
    let shown = shell::name(&one_line(&upstream.name));
    let result = match upstream.state {
        UpstreamState::Ready if upstream.tools.is_empty() && upstream.quarantined.is_empty() => {
            format!("{shown} is up and has no tools.")
        }
        UpstreamState::Ready if upstream.tools.is_empty() => {
            format!("{shown} is up but lists no tools yet.")
        }
        UpstreamState::Ready => format!("{shown} is up and has {}:", tools(upstream.tools.len())),
        UpstreamState::Disabled => {
            format!("{shown} is disabled. `plexus upstream enable {shown}` enables it.")
        }
        UpstreamState::Idle => format!("{shown} is idle; the next call of one of its tools starts it."),
        // Without waiting, the state may be that of an earlier start.
        UpstreamState::Starting | UpstreamState::Down | UpstreamState::Failed if timeout.is_zero() => {
            format!("{shown} is starting. `plexus upstream show {shown}` shows its state.")
        }
        UpstreamState::NeedsLogin => return Err(needs_login(&upstream)),
        UpstreamState::Starting => return Err(timed_out(out, &upstream, timeout)),
        UpstreamState::Invalid | UpstreamState::Down | UpstreamState::Failed => {
            return Err(failed(out, &upstream));
        }
    };
    if out.json() {
        return Ok(());
    }
    out.line(&result)?;
    upstream.tools.iter().try_for_each(|tool| out.line(&format!("  {tool}")))?;
    upstream.quarantined.iter().for_each(|tool| warning(&format!("not listed: {}", show::quarantined(tool))));
    if !upstream.quarantined.is_empty() {
        out.note(&show::quarantine_note(&upstream.name, upstream.quarantined.len()));
    }
    Ok(())
}

/// Polls the server until it is no longer starting, or until the timeout.
async fn wait_until_started(
    out: &Output,
    hub: &Hub,
    name: &str,
    started: Instant,
    timeout: Duration,
) -> anyhow::Result<Answer> {
    let _progress = out.progress(&format!("Waiting for {name}"));
    loop {
        let answer = hub.get(&["upstreams", name], &[]).await?;
        let state = answer.decode::<Upstream>()?.state;
        if state != UpstreamState::Starting || started.elapsed() >= timeout {
            return Ok(answer);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The error for a server that is still starting at the timeout.
fn timed_out(out: &Output, upstream: &Upstream, timeout: Duration) -> anyhow::Error {
    let name = shell::name(&one_line(&upstream.name));
    if !out.json() {
        show::stderr(out, upstream.last_error.as_ref().map_or(&[][..], |error| &error.stderr));
    }
    let why = upstream.remark.as_deref().unwrap_or("it is still starting");
    let message = format!("{name} is not up after {} s: {why}", timeout.as_secs());
    Failure::new(Exit::Failed, message)
        .hint(format!(
            "The hub keeps waiting for it. `plexus upstream show {name}` shows its state, and `plexus upstream logs \
             {name}` its standard error."
        ))
        .into()
}

/// The error for a server that needs a login.
fn needs_login(upstream: &Upstream) -> anyhow::Error {
    let name = shell::name(&one_line(&upstream.name));
    let why = upstream.last_error.as_ref().map_or(NO_REASON, |error| &error.message);
    // The hint contains the command.
    let why = why.split(": run `plexus upstream login").next().unwrap_or(why);
    Failure::new(Exit::Failed, format!("{name} needs a login: {why}"))
        .hint(format!("Run `plexus upstream login {name}`."))
        .into()
}

fn failed(out: &Output, upstream: &Upstream) -> anyhow::Error {
    let name = shell::name(&one_line(&upstream.name));
    let why = upstream.last_error.as_ref().map_or(NO_REASON, |error| &error.message);
    if !out.json() {
        show::stderr(out, upstream.last_error.as_ref().map_or(&[][..], |error| &error.stderr));
    }
    let retry = match upstream.state {
        UpstreamState::Down => "The hub keeps retrying. ",
        _ => "",
    };
    Failure::new(Exit::Failed, format!("{name} did not come up: {why}"))
        .hint(format!(
            "{retry}Its file is kept: {}. Correct it and run `plexus upstream restart {name}`, or remove the server with \
             `plexus upstream remove {name}`.",
            upstream.file
        ))
        .into()
}

pub(crate) fn tools(count: usize) -> String {
    match count {
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    }
}
