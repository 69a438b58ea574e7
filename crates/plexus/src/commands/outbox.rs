//! `plexus outbox`: writes of this machine's agents that the hub did not take yet, or never will.
//!
//! It works on the files of the proxies in the data folder. No hub is needed, and proxies may use them meanwhile.

pub(super) mod folders;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use plexus_store::outbox::{DropOutcome, Write, WriteFilter, WriteState};
use serde_json::{Value, json};

use self::folders::{AgentBox, Boxes};
use super::Invocation;
use crate::failure::{Exit, Failure};
use crate::listing;
use crate::output::{Column, Output, human_bytes};

#[derive(Debug, Args)]
pub(crate) struct OutboxArgs {
    #[command(subcommand)]
    command: OutboxCommand,
    /// Only the outbox of this agent [default: those of all agents on this machine]
    #[arg(long, global = true, value_name = "NAME")]
    agent: Option<String>,
}

#[derive(Debug, Subcommand)]
enum OutboxCommand {
    /// List writes that wait for the hub, and dead letters: those that it will not take
    #[command(
        after_help = "Example:\n  plexus outbox list --dead\n  plexus outbox list --agent codex --json"
    )]
    List {
        /// Only dead letters
        #[arg(long)]
        dead: bool,
        /// Show at most this many of each agent
        #[arg(long, value_name = "N", default_value = "50", value_parser = listing::limit)]
        limit: usize,
    },
    /// Show a write with what it would write and why it is still here
    #[command(after_help = "Example:\n  plexus outbox show 12")]
    Show {
        /// Id of the write, from `plexus outbox list`
        id: i64,
    },
    /// Send dead letters again, at the end of the queue of their session
    #[command(
        after_help = "A retried write keeps its key and its time, and gets a new id. The hub remembers keys for seven days: \
a write that was done before then is not done twice, an older one may be.\n\n\
Example:\n  plexus outbox retry 12 15"
    )]
    Retry {
        /// Ids of dead letters, from `plexus outbox list --dead`
        #[arg(required = true)]
        ids: Vec<i64>,
    },
    /// Forget dead letters; they are never delivered
    #[command(
        after_help = "Example:\n  plexus outbox drop 12\n  plexus outbox drop --waiting 15 --agent codex"
    )]
    Drop {
        /// Ids of dead letters, from `plexus outbox list --dead`
        #[arg(required = true)]
        ids: Vec<i64>,
        /// Also writes that still wait for the hub
        #[arg(long)]
        waiting: bool,
    },
}

pub(crate) async fn run(args: OutboxArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let boxes = Boxes::open(args.agent.as_deref(), invocation).await?;
    let done = match args.command {
        OutboxCommand::List { dead, limit } => list(dead, limit, &boxes, out).await,
        OutboxCommand::Show { id } => show(id, &boxes, out).await,
        OutboxCommand::Retry { ids } => retry(&ids, &boxes, out).await,
        OutboxCommand::Drop { ids, waiting } => drop_writes(&ids, waiting, &boxes, out).await,
    };
    boxes.close().await;
    done?;
    Ok(Exit::Ok.into())
}

async fn list(dead: bool, limit: usize, boxes: &Boxes, out: &Output) -> anyhow::Result<()> {
    let which = if dead { WriteFilter::Dead } else { WriteFilter::All };
    let (mut writes, mut more) = (Vec::new(), false);
    for one in boxes.iter() {
        let wanted = u32::try_from(limit).unwrap_or(u32::MAX);
        let mut some = one.outbox.list(which, 0, wanted.saturating_add(1)).await?;
        more |= some.len() > limit;
        some.truncate(limit);
        writes.extend(some.into_iter().map(|write| (one, write)));
    }
    if out.json() {
        let items: Vec<_> = writes.iter().map(|(one, write)| as_json(one, write)).collect();
        return out.json_line(&json!({ "items": items, "next": null }).to_string());
    }
    if writes.is_empty() {
        out.note(match (boxes.is_empty(), dead) {
            (true, _) => {
                "No agent on this machine has an outbox. One is made by the proxy of an agent (`plexus mcp`): it keeps \
                 writes that the hub could not take, and sends them when it can."
            }
            (false, true) => "No dead letters: the hub has refused nothing.",
            (false, false) => {
                "The outbox is empty: the hub has everything. Writes wait here while it cannot be reached."
            }
        });
        return Ok(());
    }
    let rows = writes.iter().map(|(one, write)| {
        let (state, why) = state(write);
        vec![
            write.id.to_string(),
            one.name.clone(),
            state.to_owned(),
            write.tool.clone(),
            write.session.clone(),
            out.when(write.occurred_at),
            write.attempts.to_string(),
            why.to_owned(),
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
        out.note("There is more: raise --limit");
    }
    if !dead && writes.iter().any(|(_, write)| matches!(write.state, WriteState::Dead { .. })) {
        out.note(
            "Dead letters are not sent again by themselves: `plexus outbox show ID` says why, then retry or drop them.",
        );
    }
    Ok(())
}

/// In a word, and what there is to say about it.
fn state(write: &Write) -> (&'static str, &str) {
    match &write.state {
        WriteState::Waiting { why, .. } => ("waiting", why.as_deref().unwrap_or_default()),
        WriteState::Sending { .. } => ("sending", ""),
        WriteState::Dead { reason, .. } => ("dead", reason),
    }
}

fn as_json(one: &AgentBox, write: &Write) -> Value {
    let (state, why) = state(write);
    let mut json = json!({
        "outbox": one.name,
        "id": write.id,
        "idempotency_key": write.key,
        "session": write.session,
        "tool": write.tool,
        "state": state,
        "bytes": write.bytes,
        "occurred_at": write.occurred_at,
        "queued_at": write.queued_at,
        "attempts": write.attempts,
        "reason": Some(why).filter(|why| !why.is_empty()),
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

async fn show(id: i64, boxes: &Boxes, out: &Output) -> anyhow::Result<()> {
    let (one, write, params) = boxes.find(id).await?;
    if out.json() {
        let mut json = as_json(one, &write);
        // As it was stored, where it is JSON.
        let stored = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        json["client"] = stored(&write.client);
        json["params"] = stored(&params);
        return out.json_line(&json.to_string());
    }
    let (state, why) = state(&write);
    let mut fields = vec![
        ("write", write.id.to_string()),
        ("outbox", one.name.clone()),
        ("state", state.to_owned()),
        ("reason", if why.is_empty() { "-".to_owned() } else { why.to_owned() }),
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
            fields.push(("sent by", owner.clone()));
            fields.push(("until", out.at(*until)));
        }
        WriteState::Dead { at, hub_notified, agent_notified, .. } => {
            let told = match (hub_notified, agent_notified) {
                (true, true) => "hub and agent",
                (true, false) => "hub",
                (false, true) => "agent",
                (false, false) => "nobody yet",
            };
            fields.push(("died", out.at(*at)));
            fields.push(("known to", told.to_owned()));
        }
    }
    fields.push(("call", params));
    out.fields(&fields)
}

async fn retry(ids: &[i64], boxes: &Boxes, out: &Output) -> anyhow::Result<()> {
    let mut retried = Vec::new();
    // All are looked for before the first is changed.
    for (one, id) in boxes.find_all(ids).await? {
        let Some(new) = one.outbox.retry(id).await? else {
            let message = format!("write {id} of {} is not a dead letter; nothing was done to it", one.name);
            return Err(Failure::new(Exit::Failed, message)
                .hint("a write that waits is sent by itself when the hub is there: see `plexus outbox show`")
                .into());
        };
        if !out.json() {
            out.line(&format!(
                "Write {id} of {} will be sent again, as {new}, when its proxy runs.",
                one.name
            ))?;
        }
        retried.push(json!({ "outbox": one.name, "id": new, "was": id }));
    }
    if out.json() { out.json_line(&json!({ "retried": retried }).to_string()) } else { Ok(()) }
}

async fn drop_writes(ids: &[i64], waiting: bool, boxes: &Boxes, out: &Output) -> anyhow::Result<()> {
    let mut dropped = Vec::new();
    for (one, id) in boxes.find_all(ids).await? {
        let failure = |what: &str, hint: &str| {
            let message = format!("write {id} of {} {what}; it was not dropped", one.name);
            anyhow::Error::from(Failure::new(Exit::Failed, message).hint(hint))
        };
        match one.outbox.drop(id, waiting).await? {
            DropOutcome::Dropped => {}
            DropOutcome::Waiting => {
                return Err(failure(
                    "still waits for the hub",
                    "give --waiting if it is never to be delivered",
                ));
            }
            DropOutcome::InFlight => {
                return Err(failure("is being sent at this moment", "try again in a moment"));
            }
            DropOutcome::NotFound => return Err(failure("is gone", "see `plexus outbox list`")),
        }
        if !out.json() {
            out.line(&format!("Dropped write {id} of {}.", one.name))?;
        }
        dropped.push(json!({ "outbox": one.name, "id": id }));
    }
    if out.json() { out.json_line(&json!({ "dropped": dropped }).to_string()) } else { Ok(()) }
}
