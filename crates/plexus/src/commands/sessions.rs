//! `plexus sessions`: lists sessions, and shows, counts and follows their events.

pub(super) mod find;
mod stats;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use plexus_proto::api::{Page, Session, SessionStats};
use plexus_proto::{Event, SessionId};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Invocation;
use crate::client::{Hub, decode};
use crate::failure::Exit;
use crate::listing::{self, ListArgs};
use crate::output::{Column, Output};
use crate::stream::Tail;

/// Maximum number of events per request.
const PAGE: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List sessions
    #[command(after_help = "Example:\n  plexus sessions list --limit 10")]
    List(ListArgs),
    /// Show a session and its events, oldest first
    #[command(after_help = "Example:\n  plexus sessions show 099a8057 --after 100")]
    Show {
        /// Session: its id, the end of its id, or its key if only one session has it; see `plexus sessions list`
        session: String,
        /// Only events after this number
        #[arg(long, value_name = "SEQ", default_value_t = 0)]
        after: i64,
        /// Show at most this many events
        #[arg(long, value_name = "N", default_value = "50", value_parser = listing::limit)]
        limit: usize,
    },
    /// Show statistics of sessions: calls, failures, queued writes and tokens
    #[command(after_help = "Without a session, lists the newest sessions, one per line.\n\n\
Examples:\n  plexus sessions stats\n  plexus sessions stats 099a8057")]
    Stats {
        /// Session: its id, the end of its id, or its key if only one session has it; see `plexus sessions list`
        #[arg(conflicts_with_all = ["limit", "cursor"])]
        session: Option<String>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show the newest events of a session, and optionally follow new ones
    #[command(after_help = "With --json, prints one JSON object per line.\n\n\
Example:\n  plexus sessions tail -f 099a8057")]
    Tail {
        /// Session: its id, the end of its id, or its key if only one session has it; see `plexus sessions list`
        session: String,
        /// Follow new events until interrupted
        #[arg(long, short)]
        follow: bool,
        /// Start with this many of the newest events
        #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 20)]
        count: u32,
    },
}

pub(crate) async fn run(args: SessionsArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (out, hub) = (&invocation.out, invocation.hub()?);
    match args.command {
        SessionsCommand::List(args) => list(out, &hub, &args).await?,
        SessionsCommand::Show { session, after, limit } => {
            let id = find::session_id(&hub, &session).await?;
            show(out, &hub, id, after, limit).await?;
        }
        SessionsCommand::Stats { session: Some(session), .. } => {
            let id = find::session_id(&hub, &session).await?;
            stats::show(out, &hub, id).await?;
        }
        SessionsCommand::Stats { session: None, list } => stats::list(out, &hub, &list).await?,
        SessionsCommand::Tail { session, follow, count } => {
            let id = find::session_id(&hub, &session).await?;
            tail(out, &hub, id, follow, count).await?;
        }
    }
    Ok(Exit::Ok.into())
}

async fn list(out: &Output, hub: &Hub, args: &ListArgs) -> anyhow::Result<()> {
    // The table has the number of calls, which the statistics contain.
    let path: &[&str] = if out.json() { &["sessions"] } else { &["sessions", "stats"] };
    let page = listing::fetch(hub, path, &[], args, |_| true).await?;
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let row = |stats: &SessionStats| {
        let session = &stats.session;
        vec![
            session.id.to_string(),
            agent(session),
            or_dash(&session.folder),
            or_dash(&session.title),
            stats::at_least(stats, stats.calls.total),
            out.when(session.updated_at),
            session.owner.clone(),
            session.key.clone(),
        ]
    };
    let empty = "No sessions yet. The first call of an agent or of `plexus tools call NAME` creates one.";
    let columns = [
        Column::id("ID"),
        Column::new("AGENT"),
        Column::path("FOLDER").rank(1),
        Column::new("TITLE"),
        Column::whole("CALLS"),
        Column::whole("ACTIVE"),
        Column::whole("OWNER").rank(2),
        Column::whole("KEY").rank(3),
    ];
    listing::show(out, &page, &columns, row, empty)
}

/// The name of the agent, the last part of the owner: `codex` in `agent:codex` and in `session:admin:local/codex`.
fn agent(session: &Session) -> String {
    let name = session.owner.rsplit(['/', ':']).next();
    name.filter(|name| !name.is_empty()).unwrap_or(&session.owner).to_owned()
}

async fn show(out: &Output, hub: &Hub, id: SessionId, after: i64, limit: usize) -> anyhow::Result<()> {
    let answer = hub.get(&["sessions", &id.to_string()], &[]).await?;
    let mut page = events(hub, id, after, limit.min(PAGE)).await?;
    if out.json() {
        // One object: the session with its events. `next` is the value for --after.
        let mut object: Map<String, Value> = answer.decode()?;
        let last = page.items.last().filter(|_| page.next.is_some());
        let next = last.map(|raw| decode(raw).map(|event: Event| event.seq.to_string())).transpose()?;
        object.insert("events".to_owned(), serde_json::to_value(&page.items)?);
        object.insert("next".to_owned(), next.into());
        return out.json_line(&serde_json::to_string(&object)?);
    }
    let session: Session = answer.decode()?;
    out.fields(&[
        ("id", session.id.to_string()),
        ("key", session.key),
        ("owner", session.owner),
        ("client", session.client.unwrap_or_else(|| "-".to_owned())),
        ("folder", session.folder.unwrap_or_else(|| "-".to_owned())),
        ("title", session.title.unwrap_or_else(|| "-".to_owned())),
        ("created", out.at(session.created_at)),
        ("updated", out.at(session.updated_at)),
        ("events", session.last_seq.to_string()),
    ])?;
    out.block("\n")?;
    let mut printer = EventPrinter { after, left: limit };
    let mut more = printer.print(out, &page)?;
    while more && printer.left > 0 {
        page = events(hub, id, printer.after, printer.left.min(PAGE)).await?;
        more = printer.print(out, &page)?;
    }
    if more {
        out.note(&format!(
            "There are more events: raise --limit, or continue with --after {}",
            printer.after
        ));
    } else if printer.left == limit {
        out.note("No events. `plexus sessions tail -f` waits for new ones.");
    }
    Ok(())
}

async fn tail(out: &Output, hub: &Hub, id: SessionId, follow: bool, count: u32) -> anyhow::Result<()> {
    let path = ["sessions", &id.to_string(), "events", "stream"];
    let start = ("last", Some(count.to_string()));
    let tail = Tail { out, hub, path: &path, filters: vec![], start, follow };
    tail.run(|out, batch| {
        batch.iter().try_for_each(|(event, raw)| match out.json() {
            true => out.json_line(raw.get()),
            false => out.event(event),
        })
    })
    .await
}

/// A page of events, as the hub sent them.
type EventPage = Page<Box<RawValue>>;

async fn events(hub: &Hub, id: SessionId, after: i64, limit: usize) -> anyhow::Result<EventPage> {
    let query = [("after", Some(after.to_string())), ("limit", Some(limit.to_string()))];
    hub.get(&["sessions", &id.to_string(), "events"], &query).await?.decode()
}

/// Prints the events of a session in order and keeps track of the position.
struct EventPrinter {
    after: i64,
    left: usize,
}

impl EventPrinter {
    /// Prints the events of a page. Returns whether there are more pages.
    fn print(&mut self, out: &Output, page: &EventPage) -> anyhow::Result<bool> {
        let before = self.after;
        for raw in &page.items {
            let event: Event = decode(raw)?;
            // Print each event once and in order, even if the hub repeats some.
            if event.seq <= self.after || self.left == 0 {
                continue;
            }
            match out.json() {
                true => out.json_line(raw.get())?,
                false => out.event(&event)?,
            }
            self.after = event.seq;
            self.left -= 1;
        }
        Ok(page.next.is_some() && self.after > before)
    }
}
