//! `plexus outbox`: manages queued writes and dead letters of the agents on this machine.
//!
//! It opens the outboxes in the data folder directly: no hub is needed, and the proxies can use them at the same time.

pub(super) mod agent_outboxes;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use plexus_store::IdempotencyRecord;
use plexus_store::outbox::{DropOutcome, Write, WriteFilter, WriteState};
use serde_json::{Value, json};

use self::agent_outboxes::{AgentOutbox, AgentOutboxes};
use super::Invocation;
use crate::failure::{Exit, Failure};
use crate::listing;
use crate::output::{Column, Output, human_bytes};

const _: () = assert!(IdempotencyRecord::RETENTION.as_secs() == 7 * 24 * 3600, "the help says seven days");

#[derive(Debug, Args)]
pub(crate) struct OutboxArgs {
    #[command(subcommand)]
    command: OutboxCommand,
    /// Only the outbox of this agent [default: all agents on this machine]
    #[arg(long, global = true, value_name = "NAME")]
    agent: Option<String>,
}

#[derive(Debug, Subcommand)]
enum OutboxCommand {
    /// List queued writes, which wait for the hub, and dead letters, which cannot be delivered
    #[command(
        after_help = "Example:\n  plexus outbox list --dead\n  plexus outbox list --agent codex --json"
    )]
    List {
        /// Only dead letters
        #[arg(long)]
        dead: bool,
        /// Show at most this many per agent
        #[arg(long, value_name = "N", default_value = "50", value_parser = listing::limit)]
        limit: usize,
    },
    /// Show a write: its content, and why it has not been delivered
    #[command(after_help = "Example:\n  plexus outbox show 12")]
    Show {
        /// Id of the write, from `plexus outbox list`
        id: i64,
    },
    /// Retry dead letters: append them to the queue of their session
    #[command(
        after_help = "A retried write keeps its idempotency key and its time, and gets a new id. The hub remembers keys for \
seven days: within that time a write is never applied twice; an older one may be.\n\n\
Example:\n  plexus outbox retry 12 15"
    )]
    Retry {
        /// Ids of dead letters, from `plexus outbox list --dead`
        #[arg(required = true)]
        ids: Vec<i64>,
    },
    /// Delete dead letters without delivering them
    #[command(
        after_help = "Example:\n  plexus outbox drop 12\n  plexus outbox drop --waiting 15 --agent codex"
    )]
    Drop {
        /// Ids of dead letters, from `plexus outbox list --dead`
        #[arg(required = true)]
        ids: Vec<i64>,
        /// Also delete writes that still wait for the hub
        #[arg(long)]
        waiting: bool,
    },
}

pub(crate) async fn run(args: OutboxArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let outboxes = AgentOutboxes::open(args.agent.as_deref(), invocation).await?;
    let result = match args.command {
        OutboxCommand::List { dead, limit } => list(dead, limit, &outboxes, out).await,
        OutboxCommand::Show { id } => show(id, &outboxes, out).await,
        OutboxCommand::Retry { ids } => retry(&ids, &outboxes, out).await,
        OutboxCommand::Drop { ids, waiting } => drop_writes(&ids, waiting, &outboxes, out).await,
    };
    outboxes.close().await;
    result?;
    Ok(Exit::Ok.into())
}

async fn list(dead: bool, limit: usize, outboxes: &AgentOutboxes, out: &Output) -> anyhow::Result<()> {
    let filter = if dead { WriteFilter::Dead } else { WriteFilter::All };
    let (mut writes, mut more) = (Vec::new(), false);
    for agent in outboxes.iter() {
        let count = u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(1);
        let mut listed = agent.outbox.list(filter, 0, count).await?;
        more |= listed.len() > limit;
        listed.truncate(limit);
        writes.extend(listed.into_iter().map(|write| (agent, write)));
    }
    if out.json() {
        let items: Vec<_> = writes.iter().map(|(agent, write)| to_json(agent, write)).collect();
        return out.json_line(&json!({ "items": items, "next": null }).to_string());
    }
    if writes.is_empty() {
        out.note(match (outboxes.is_empty(), dead) {
            (true, _) => {
                "No agent on this machine has an outbox. The proxy of an agent (`plexus mcp`) creates one: it stores \
                 writes while the hub is unreachable, and delivers them later."
            }
            (false, true) => "No dead letters.",
            (false, false) => {
                "The outbox is empty: all writes have been delivered. Writes are queued while the hub is unreachable."
            }
        });
        return Ok(());
    }
    let rows = writes.iter().map(|(agent, write)| {
        let (state, reason) = state(write);
        vec![
            write.id.to_string(),
            agent.name.clone(),
            state.to_owned(),
            write.tool.clone(),
            write.session.clone(),
            out.when(write.occurred_at),
            write.attempts.to_string(),
            reason.to_owned(),
        ]
    });
    let columns = [
        Column::whole("ID"),
        Column::new("OUTBOX"),
        Column::whole("STATE"),
        Column::new("TOOL"),
        Column::new("SESSION").rank(2),
        Column::whole("OCCURRED"),
        Column::whole("ATTEMPTS").rank(1),
        Column::new("REASON"),
    ];
    out.table(&columns, rows.collect())?;
    if more {
        out.note("There are more writes: raise --limit");
    }
    if !dead && writes.iter().any(|(_, write)| matches!(write.state, WriteState::Dead { .. })) {
        out.note(
            "Dead letters are not retried automatically: see `plexus outbox show ID`, then retry or drop them.",
        );
    }
    Ok(())
}

/// The state of a write, and the reason for it.
fn state(write: &Write) -> (&'static str, &str) {
    match &write.state {
        WriteState::Waiting { why: reason, .. } => ("waiting", reason.as_deref().unwrap_or_default()),
        WriteState::Sending { .. } => ("sending", ""),
        WriteState::Dead { reason, .. } => ("dead", reason),
    }
}

fn to_json(agent: &AgentOutbox, write: &Write) -> Value {
    let (state, reason) = state(write);
    let mut json = json!({
        "outbox": agent.name,
        "id": write.id,
        "idempotency_key": write.key,
        "session": write.session,
        "tool": write.tool,
        "state": state,
        "bytes": write.bytes,
        "occurred_at": write.occurred_at,
        "queued_at": write.queued_at,
        "attempts": write.attempts,
        "reason": Some(reason).filter(|reason| !reason.is_empty()),
    });
    match &write.state {
        WriteState::Waiting { not_before, .. } => json["not_before"] = json!(not_before),
        WriteState::Sending { owner, until } => {
            json["owner"] = json!(owner);
            json["lease_until"] = json!(until);
        }
        WriteState::Dead { at, hub_notified, agent_notified, .. } => {
            json["died_at"] = json!(at);
            json["told"] = json!({ "hub": hub_notified, "agent": agent_notified });
        }
    }
    json
}

async fn show(id: i64, outboxes: &AgentOutboxes, out: &Output) -> anyhow::Result<()> {
    let (agent, write, params) = outboxes.find(id).await?;
    if out.json() {
        let mut json = to_json(agent, &write);
        let json_or_text = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        json["client"] = json_or_text(&write.client);
        json["params"] = json_or_text(&params);
        return out.json_line(&json.to_string());
    }
    let (state, reason) = state(&write);
    let mut fields = vec![
        ("write", write.id.to_string()),
        ("outbox", agent.name.clone()),
        ("state", state.to_owned()),
        ("reason", if reason.is_empty() { "-".to_owned() } else { reason.to_owned() }),
        ("tool", write.tool.clone()),
        ("session", write.session.clone()),
        ("client", write.client.clone()),
        ("key", write.key.clone()),
        ("occurred", out.at(write.occurred_at)),
        ("queued", out.at(write.queued_at)),
        ("attempts", write.attempts.to_string()),
        ("size", human_bytes(write.bytes)),
    ];
    match &write.state {
        WriteState::Waiting { not_before: Some(at), .. } => fields.push(("next attempt", out.at(*at))),
        WriteState::Waiting { .. } => {}
        WriteState::Sending { owner, until } => {
            fields.push(("leased by", owner.clone()));
            fields.push(("lease until", out.at(*until)));
        }
        WriteState::Dead { at, hub_notified, agent_notified, .. } => {
            let notified = match (hub_notified, agent_notified) {
                (true, true) => "hub and agent",
                (true, false) => "hub",
                (false, true) => "agent",
                (false, false) => "none yet",
            };
            fields.push(("died", out.at(*at)));
            fields.push(("reported to", notified.to_owned()));
        }
    }
    fields.push(("call", params));
    out.fields(&fields)
}

async fn retry(ids: &[i64], outboxes: &AgentOutboxes, out: &Output) -> anyhow::Result<()> {
    let mut retried = Vec::new();
    // Find all writes before the first one is changed.
    for (agent, id) in outboxes.find_all(ids).await? {
        let Some(new) = agent.outbox.retry(id).await? else {
            let message = format!("write {id} of {} is not a dead letter; it was not changed", agent.name);
            return Err(Failure::new(Exit::Failed, message)
                .hint("a queued write is delivered automatically when the hub is reachable: see `plexus outbox show`")
                .into());
        };
        if !out.json() {
            out.line(&format!(
                "Write {id} of {} is queued again as {new}; its proxy delivers it.",
                agent.name
            ))?;
        }
        retried.push(json!({ "outbox": agent.name, "id": new, "was": id }));
    }
    if out.json() { out.json_line(&json!({ "retried": retried }).to_string()) } else { Ok(()) }
}

async fn drop_writes(
    ids: &[i64],
    waiting: bool,
    outboxes: &AgentOutboxes,
    out: &Output,
) -> anyhow::Result<()> {
    let mut dropped = Vec::new();
    for (agent, id) in outboxes.find_all(ids).await? {
        let failure = |state: &str, hint: &str| {
            let message = format!("write {id} of {} {state}; it was not dropped", agent.name);
            anyhow::Error::from(Failure::new(Exit::Failed, message).hint(hint))
        };
        match agent.outbox.drop(id, waiting).await? {
            DropOutcome::Dropped => {}
            DropOutcome::Waiting => {
                return Err(failure(
                    "still waits for the hub",
                    "pass --waiting to drop it without delivering it",
                ));
            }
            DropOutcome::InFlight => {
                return Err(failure("is being sent", "try again in a moment"));
            }
            DropOutcome::NotFound => {
                return Err(failure("does not exist any more", "see `plexus outbox list`"));
            }
        }
        if !out.json() {
            out.line(&format!("Dropped write {id} of {}.", agent.name))?;
        }
        dropped.push(json!({ "outbox": agent.name, "id": id }));
    }
    if out.json() { out.json_line(&json!({ "dropped": dropped }).to_string()) } else { Ok(()) }
}
