//! `plexus ps`: lists the agents that `plexus run` has started on this machine.

use std::process::ExitCode;

use clap::Args;
use plexus_proxy::runner::{RunFolders, RunRecord, RunState};
use serde_json::json;

use super::Invocation;
use super::run::reap;
use super::run::token_issuer::TokenIssuer;
use crate::failure::Exit;
use crate::output::Column;

const AFTER_HELP: &str = "\
First cleans up abandoned runs, whose `plexus run` was killed: ends the agent, revokes its token and
removes its folder. A run is listed as `ended` until its end has been reported to the hub.

Example:
  plexus ps
  plexus ps --json | jq -r '.items[].id'";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PsArgs {}

pub(crate) async fn run(_: &PsArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let runs = RunFolders::of(&invocation.data_folder()?);
    // Without a credential the clean-up is incomplete, but the runs can be listed.
    reap::clean_up(&runs, TokenIssuer::new(invocation).ok().as_ref()).await;
    let (records, out) = (runs.list(), &invocation.out);
    if out.json() {
        let items: Vec<_> = records.iter().map(to_json).collect();
        out.json_line(&json!({ "items": items }).to_string())?;
        return Ok(Exit::Ok.into());
    }
    if records.is_empty() && out.terminal() {
        out.note("No agents started by `plexus run` are running on this machine.");
        return Ok(Exit::Ok.into());
    }
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rows = records.iter().map(|record| {
        vec![
            record.id.clone(),
            record.command.clone(),
            state(record).to_owned(),
            or_dash(record.process.as_ref().map(|process| process.pid.to_string())),
            out.when(record.started_at),
            or_dash(record.profile.clone()),
            record.via.as_str().to_owned(),
            or_dash(session(record)),
        ]
    });
    let columns = [
        Column::whole("ID"),
        Column::new("AGENT"),
        Column::whole("STATE"),
        Column::whole("PID"),
        Column::whole("STARTED"),
        Column::new("PROFILE").rank(1),
        Column::whole("VIA").rank(2),
        Column::new("SESSION"),
    ];
    out.table(&columns, rows.collect())?;
    Ok(Exit::Ok.into())
}

fn state(record: &RunRecord) -> &'static str {
    let suspended = record.process.as_ref().is_some_and(plexus_proxy::runner::ProcessId::is_suspended);
    if record.state == RunState::Running && suspended { "suspended" } else { record.state.as_str() }
}

fn session(record: &RunRecord) -> Option<String> {
    record.session_key().or_else(|| record.conversation.clone())
}

fn to_json(record: &RunRecord) -> serde_json::Value {
    json!({
        "id": record.id,
        "agent": record.agent.as_str(),
        "command": record.command,
        "state": state(record),
        "pid": record.process.as_ref().map(|process| process.pid),
        "runner_pid": record.runner.pid,
        "started_at": record.started_at,
        "profile": record.profile,
        "node": record.node,
        "hub": record.hub,
        "via": record.via.as_str(),
        "session": session(record),
        "token": record.token,
    })
}
