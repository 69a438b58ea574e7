//! `plexus audit`: read and verify the record of all calls.

mod verify;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use plexus_proto::CallId;
use plexus_proto::api::AuditCall;
use serde_json::Value;

use super::{Invocation, sessions};
use crate::failure::Exit;
use crate::listing::{self, ListArgs};
use crate::output::Output;

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
        /// Only calls in this session: its id or its key
        #[arg(long)]
        session: Option<String>,
    },
    /// Show one call with its arguments and result
    #[command(after_help = "Example:\n  plexus audit show 01890a5d-ac96-774b-bcce-b302099a8057")]
    Show {
        /// Id of the call, from `plexus audit list`
        call_id: CallId,
    },
    /// Check that no record was changed, removed or reordered
    #[command(
        after_help = "The hub that runs on the data folder is asked. Where none runs, the folder itself is verified; its \
database is found by the folder's database.json.\n\
The exit code is 0 when the record is intact and 3 when problems were found.\n\n\
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
                Some(session) => Some(sessions::find::one(&hub, &session).await?.to_string()),
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
            let headers = ["CALL", "STARTED", "ACTOR", "TOOL", "VIA", "OUTCOME", "TOOK"];
            listing::show(out, &page, &headers, |call| row(out, call), empty)?;
            Ok(Exit::Ok.into())
        }
        AuditCommand::Show { call_id } => show(call_id, invocation).await,
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
        |finished| out.lasting(finished.as_millisecond().saturating_sub(call.started_at.as_millisecond())),
    )
}

async fn show(call_id: CallId, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let answer = invocation.hub()?.get(&["audit", &call_id.to_string()], &[]).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let call: AuditCall = answer.decode()?;
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

/// Text as text, anything else as indented JSON.
fn readable(value: &Value) -> String {
    value.as_str().map_or_else(|| format!("{value:#}"), str::to_owned)
}
