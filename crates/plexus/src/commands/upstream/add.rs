//! `plexus upstream add`, and the wait for a server that was started.

use std::time::{Duration, Instant};

use clap::Args;
use plexus_proto::api::{AddUpstreamParams, Upstream, UpstreamState};
use serde_json::Value;

use super::document::ServerArgs;
use super::show;
use crate::arguments;
use crate::client::{Answer, Hub};
use crate::failure::{Exit, Failure};
use crate::output::{Output, one_line, warning};

/// Between two looks at a server that is being started.
const POLL: Duration = Duration::from_millis(150);

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Name of the server: letters, digits, `.`, `_` and `-`
    name: String,
    #[command(flatten)]
    server: ServerArgs,
    /// Start it once to learn its tools, stop it while nobody calls it, and start it again with the next call
    #[arg(long)]
    lazy: bool,
    /// Only write its file
    #[arg(long)]
    disabled: bool,
    #[command(flatten)]
    wait: WaitArgs,
}

#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    /// How long to wait until it is up: 30s, 5m, or 0 for not at all
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = arguments::span)]
    wait: u64,
}

pub(super) async fn run(out: &Output, hub: &Hub, args: AddArgs) -> anyhow::Result<()> {
    let AddArgs { name, server, lazy, disabled, wait } = args;
    let mut server = server.document()?;
    if lazy {
        server.insert("lazy".to_owned(), Value::Bool(true));
    }
    if disabled {
        server.insert("enabled".to_owned(), Value::Bool(false));
    }
    let params = AddUpstreamParams { name, server };
    let answer = hub.post(&["upstreams"], &params, &[]).await?;
    let upstream: Upstream = answer.decode()?;
    for strange in &upstream.warnings {
        warning(strange);
    }
    if !out.json() {
        out.note(&format!("Wrote {}.", one_line(&upstream.file)));
    }
    report(out, hub, &params.name, &wait).await
}

/// Waits for a server that was started, and says what came of it. A failure leaves everything as it is.
pub(super) async fn report(out: &Output, hub: &Hub, name: &str, wait: &WaitArgs) -> anyhow::Result<()> {
    let answer = settled(out, hub, name, Duration::from_secs(wait.wait)).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
    }
    let upstream: Upstream = answer.decode()?;
    let shown = one_line(&upstream.name);
    let said = match upstream.state {
        UpstreamState::Ready if upstream.tools.is_empty() => format!("{shown} is up and has no tools."),
        UpstreamState::Ready => format!("{shown} is up and brings {}:", tools(upstream.tools.len())),
        UpstreamState::Disabled => {
            format!("{shown} is off. `plexus upstream enable {shown}` switches it on.")
        }
        UpstreamState::Idle => format!("{shown} rests; the next call of one of its tools starts it."),
        UpstreamState::Starting => {
            format!("{shown} is still being started. `plexus upstream show {shown}` says how it is doing.")
        }
        UpstreamState::Invalid | UpstreamState::Down | UpstreamState::Failed => {
            return Err(failed(out, &upstream));
        }
    };
    if out.json() {
        return Ok(());
    }
    out.line(&said)?;
    upstream.tools.iter().try_for_each(|tool| out.line(&format!("  {tool}")))
}

/// The server as soon as it is more than being started, or when the time is up.
async fn settled(out: &Output, hub: &Hub, name: &str, patience: Duration) -> anyhow::Result<Answer> {
    let began = Instant::now();
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

fn failed(out: &Output, upstream: &Upstream) -> anyhow::Error {
    let name = one_line(&upstream.name);
    let why = upstream.last_error.as_ref().map_or("it does not say why", |error| &error.message);
    if !out.json() {
        show::stderr(out, upstream.last_error.as_ref().map_or(&[], |error| &error.stderr));
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

pub(super) fn tools(count: usize) -> String {
    match count {
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    }
}
