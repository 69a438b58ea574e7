//! `plexus audit`: reads and verifies the record of all calls.

mod verify;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use plexus_proto::api::AuditCall;
use plexus_proto::{CallId, InvalidId};
use serde_json::Value;

use super::{Invocation, sessions};
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::output::{Column, Output};
use crate::{client, short_id};

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// List calls, the newest first
    #[command(after_help = "Example:\n  plexus audit list --tool todo --actor agent:codex --limit 20")]
    List {
        #[command(flatten)]
        list: ListArgs,
        /// Only calls of this tool
        #[arg(long)]
        tool: Option<String>,
        /// Only calls by this actor, such as agent:codex
        #[arg(long)]
        actor: Option<String>,
        /// Only calls in this session: its id, the end of its id, or its key
        #[arg(long)]
        session: Option<String>,
    },
    /// Show one call with its arguments and result
    #[command(after_help = "Example:\n  plexus audit show 099a8057")]
    Show {
        /// Id of the call or the end of its id, from `plexus audit list`
        #[arg(value_name = "CALL_ID")]
        call: String,
    },
    /// Check that no entry was changed, removed or reordered
    #[command(
        after_help = "The hub that runs on the data folder does the check. If none runs, the folder itself is verified; its \
database.json names the database.\n\
The exit code is 0 if the record is intact and 3 if problems were found.\n\n\
Example:\n  plexus audit verify || echo 'look into this'\n  \
plexus audit verify --data-dir /mnt/copy-of-the-folder\n  \
plexus audit verify /backups/plexus.tar.gz"
    )]
    Verify(verify::VerifyArgs),
}

pub(crate) async fn run(args: AuditArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    match args.command {
        AuditCommand::List { list, tool, actor, session } => {
            let hub = invocation.hub()?;
            let session = match session {
                Some(session) => Some(sessions::find::session_id(&hub, &session).await?.to_string()),
                None => None,
            };
            let filters = [("tool", tool), ("actor", actor), ("session", session)];
            let page = listing::fetch(&hub, &["audit"], &filters, &list, |_| true).await?;
            let filtered = filters.iter().any(|(_, value)| value.is_some());
            let empty = match filtered {
                true => "No calls match. Try without --tool, --actor or --session.",
                false => "No calls yet. Make one with `plexus tools call NAME`, or connect an agent.",
            };
            let out = &invocation.out;
            let columns = [
                Column::id("CALL"),
                Column::whole("STARTED"),
                Column::new("ACTOR"),
                Column::new("TOOL"),
                Column::new("VIA").rank(1),
                Column::new("OUTCOME"),
                Column::whole("TOOK"),
            ];
            listing::show(out, &page, &columns, |call| row(out, call), empty)?;
            Ok(Exit::Ok.into())
        }
        AuditCommand::Show { call } => show(&call, invocation).await,
        AuditCommand::Verify(args) => verify::run(&args, invocation).await,
    }
}

fn row(out: &Output, call: &AuditCall) -> Vec<String> {
    vec![
        call.call_id.to_string(),
        out.when(call.started_at),
        call.actor.clone(),
        call.tool.clone(),
        call.via.clone(),
        call.outcome.clone(),
        took(out, call),
    ]
}

fn took(out: &Output, call: &AuditCall) -> String {
    call.finished_at.map_or_else(
        || "-".to_owned(),
        |finished| out.duration(finished.as_millisecond().saturating_sub(call.started_at.as_millisecond())),
    )
}

/// The call with this id, or the only call whose id ends with it.
async fn find(hub: &Hub, text: &str) -> anyhow::Result<CallId> {
    let Some(end) = short_id::parse_suffix(text) else {
        return text.parse().map_err(|error: InvalidId| Failure::new(Exit::Usage, error.to_string()).into());
    };
    let args = ListArgs { limit: short_id::MAX_CANDIDATES + 1, cursor: None };
    let page = listing::fetch(hub, &["audit"], &[("id", Some(end))], &args, |_| true).await?;
    let found: Vec<AuditCall> = page.items.iter().map(|raw| client::decode(raw)).collect::<Result<_, _>>()?;
    match found.as_slice() {
        [call] => Ok(call.call_id),
        [] => Err(Failure::new(Exit::Failed, format!("no call has an id that ends with {text:?}"))
            .hint("`plexus audit list` shows the ids")
            .into()),
        several => {
            let line = |call: &AuditCall| format!("{}  {}  {}", call.call_id, call.actor, call.tool);
            let candidates: Vec<String> = several.iter().map(line).collect();
            Err(short_id::ambiguous("calls", text, &candidates).into())
        }
    }
}

async fn show(call: &str, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (out, hub) = (&invocation.out, invocation.hub()?);
    let call_id = find(&hub, call).await?;
    let response = hub.get(&["audit", &call_id.to_string()], &[]).await?;
    if out.json() {
        out.json_line(response.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let call: AuditCall = response.decode()?;
    let or_none = |id: Option<String>| id.unwrap_or_else(|| "-".to_owned());
    let entries: Vec<_> = call.entries.iter().map(ToString::to_string).collect();
    out.fields(&[
        ("call", call.call_id.to_string()),
        ("tool", call.tool.clone()),
        ("outcome", call.outcome.clone()),
        ("actor", call.actor.clone()),
        ("token", or_none(call.token_id.map(|id| id.to_string()))),
        ("session", or_none(call.session_id.map(|id| id.to_string()))),
        ("via", call.via.clone()),
        ("started", out.at(call.started_at)),
        ("finished", or_none(call.finished_at.map(|at| out.at(at)))),
        ("took", took(out, &call)),
        ("entries", entries.join(", ")),
    ])?;
    for (heading, value) in [("Arguments", &call.arguments), ("Result", &call.result)] {
        if !value.is_null() {
            out.block(&format!("\n{heading}\n{}\n", readable(value)))?;
        }
    }
    Ok(Exit::Ok.into())
}

/// A string as it is, any other value as indented JSON.
fn readable(value: &Value) -> String {
    value.as_str().map_or_else(|| format!("{value:#}"), str::to_owned)
}
