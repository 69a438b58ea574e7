//! `plexus upstream add`, and the wait for a server that was started.

use std::time::{Duration, Instant};

use clap::Args;
use plexus_proto::ErrorCode;
use plexus_proto::api::{AddUpstreamParams, Upstream, UpstreamState};
use serde_json::Value;

use super::allow::{AllowArgs, Owner};
use super::document::ServerArgs;
use super::show;
use crate::arguments;
use crate::client::{Answer, Hub, Param};
use crate::failure::{Exit, Failure};
use crate::output::{Output, one_line, warning};
use crate::shell;

/// Between two looks at a server that is being started.
const POLL: Duration = Duration::from_millis(150);
/// Longest that the hub waits before it answers, in seconds.
const OF_THE_HUB: u64 = 15;

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Name of the server: letters, digits, `.`, `_` and `-`
    name: String,
    #[command(flatten)]
    server: ServerArgs,
    /// Start it once to learn its tools, stop it while nobody calls it, and start it again with the next call
    #[arg(long)]
    lazy: bool,
    /// Which of its tools to trust [default: tofu, those that it has now]
    #[arg(long, value_parser = ["manual", "tofu", "auto"])]
    approve: Option<String>,
    /// Only write its file
    #[arg(long)]
    disabled: bool,
    #[command(flatten)]
    allow: AllowArgs,
    #[command(flatten)]
    wait: WaitArgs,
}

#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    /// How long to wait until it is up: 30s, 5m, or 0 for not at all
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = arguments::span)]
    wait: u64,
}

impl WaitArgs {
    /// What the hub is asked to wait; the rest is waited for here.
    pub(super) fn query(&self) -> [Param<'static>; 1] {
        [("wait_seconds", Some(self.wait.min(OF_THE_HUB).to_string()))]
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
    let began = Instant::now();
    let request = async || hub.post_with(&["upstreams"], &wait.query(), &params, &[]).await;
    let answer = owner.allowing(allow, request).await;
    let answer = answer.map_err(|error| as_given(error, &params.name))?;
    let upstream: Upstream = answer.decode()?;
    for strange in &upstream.warnings {
        warning(strange);
    }
    if !out.json() {
        out.note(&format!("Wrote {}.", one_line(&upstream.file)));
    }
    report(out, hub, &params.name, &wait, began).await
}

/// A refusal of what stands on the command line: there is no file yet that could be put right.
fn as_given(error: anyhow::Error, name: &str) -> anyhow::Error {
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

/// Waits for a server that was started, and says what came of it. A failure leaves everything as it is.
pub(super) async fn report(
    out: &Output,
    hub: &Hub,
    name: &str,
    wait: &WaitArgs,
    began: Instant,
) -> anyhow::Result<()> {
    let patience = Duration::from_secs(wait.wait);
    let answer = settled(out, hub, name, began, patience).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
    }
    let upstream: Upstream = answer.decode()?;
    let shown = shell::name(&one_line(&upstream.name));
    let said = match upstream.state {
        UpstreamState::Ready if upstream.tools.is_empty() && upstream.quarantined.is_empty() => {
            format!("{shown} is up and has no tools.")
        }
        UpstreamState::Ready if upstream.tools.is_empty() => {
            format!("{shown} is up and has no tools to list.")
        }
        UpstreamState::Ready => format!("{shown} is up and brings {}:", tools(upstream.tools.len())),
        UpstreamState::Disabled => {
            format!("{shown} is off. `plexus upstream enable {shown}` switches it on.")
        }
        UpstreamState::Idle => format!("{shown} rests; the next call of one of its tools starts it."),
        // Nobody waits to hear what comes of it, and what is known may be from before.
        UpstreamState::Starting | UpstreamState::Down | UpstreamState::Failed if patience.is_zero() => {
            format!("{shown} is being started. `plexus upstream show {shown}` says how it is doing.")
        }
        UpstreamState::NeedsLogin => return Err(locked(&upstream)),
        UpstreamState::Starting => return Err(late(out, &upstream, patience)),
        UpstreamState::Invalid | UpstreamState::Down | UpstreamState::Failed => {
            return Err(failed(out, &upstream));
        }
    };
    if out.json() {
        return Ok(());
    }
    out.line(&said)?;
    upstream.tools.iter().try_for_each(|tool| out.line(&format!("  {tool}")))?;
    upstream.quarantined.iter().for_each(|tool| warning(&format!("not listed: {}", show::held(tool))));
    if !upstream.quarantined.is_empty() {
        out.note(&show::waiting(&upstream.name, upstream.quarantined.len()));
    }
    Ok(())
}

/// The server as soon as it is more than being started, or when the time is up.
async fn settled(
    out: &Output,
    hub: &Hub,
    name: &str,
    began: Instant,
    patience: Duration,
) -> anyhow::Result<Answer> {
    let _progress = out.progress(&format!("Waiting for {name}"));
    loop {
        let answer = hub.get(&["upstreams", name], &[]).await?;
        let state = answer.decode::<Upstream>()?.state;
        if state != UpstreamState::Starting || began.elapsed() >= patience {
            return Ok(answer);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// A server that has not come up, and may still.
fn late(out: &Output, upstream: &Upstream, patience: Duration) -> anyhow::Error {
    let name = shell::name(&one_line(&upstream.name));
    if !out.json() {
        show::stderr(out, upstream.last_error.as_ref().map_or(&[][..], |error| &error.stderr));
    }
    let why = upstream.remark.as_deref().unwrap_or("it is still starting");
    let message = format!("{name} is not up after {} s: {why}", patience.as_secs());
    Failure::new(Exit::Failed, message)
        .hint(format!(
            "The hub goes on waiting for it. `plexus upstream show {name}` says how it is doing, and `plexus upstream \
             logs {name}` what it says."
        ))
        .into()
}

/// A server that is there and wants a person.
fn locked(upstream: &Upstream) -> anyhow::Error {
    let name = shell::name(&one_line(&upstream.name));
    let why = upstream.last_error.as_ref().map_or("it does not say why", |error| &error.message);
    // What to do about it is said once.
    let why = why.split(": run `plexus upstream login").next().unwrap_or(why);
    Failure::new(Exit::Failed, format!("{name} is there and wants a login: {why}"))
        .hint(format!("Run `plexus upstream login {name}`."))
        .into()
}

fn failed(out: &Output, upstream: &Upstream) -> anyhow::Error {
    let name = shell::name(&one_line(&upstream.name));
    let why = upstream.last_error.as_ref().map_or("it does not say why", |error| &error.message);
    if !out.json() {
        show::stderr(out, upstream.last_error.as_ref().map_or(&[][..], |error| &error.stderr));
    }
    let again = match upstream.state {
        UpstreamState::Down => "The hub goes on trying. ",
        _ => "",
    };
    Failure::new(Exit::Failed, format!("{name} did not come up: {why}"))
        .hint(format!(
            "{again}Its file stays: {}. Put it right and run `plexus upstream restart {name}`, or take it away with \
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
