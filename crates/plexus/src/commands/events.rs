//! `plexus events`: prints the events of all sessions.

use std::process::ExitCode;

use clap::Args;

use super::{Invocation, sessions};
use crate::failure::Exit;
use crate::short_id::ShortIds;
use crate::stream::Tail;

#[derive(Debug, Args)]
#[command(after_help = "With --json, prints one JSON object per line.\n\n\
Example:\n  plexus events --follow --kind tool_call")]
pub(crate) struct EventsArgs {
    /// Follow new events until interrupted
    #[arg(long, short)]
    follow: bool,
    /// Start after the event at this position (its `pos`); 0 for all events
    #[arg(long, value_name = "POS")]
    after: Option<u64>,
    /// Start with this many of the newest events
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 20, conflicts_with = "after")]
    count: u32,
    /// Only events of this session: its id, the end of its id, or its key
    #[arg(long)]
    session: Option<String>,
    /// Only events of this kind, such as tool_call (repeatable)
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
}

pub(crate) async fn run(args: EventsArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (out, hub) = (&invocation.out, invocation.hub()?);
    let session = match &args.session {
        Some(session) => Some(sessions::find::session_id(&hub, session).await?.to_string()),
        None => None,
    };
    let mut filters = vec![("session", session)];
    filters.extend(args.kinds.into_iter().map(|kind| ("kind", Some(kind))));
    let start = match args.after {
        Some(after) => ("after", Some(after.to_string())),
        None => ("last", Some(args.count.to_string())),
    };
    let tail = Tail { out, hub: &hub, path: &["events", "stream"], filters, start, follow: args.follow };
    let mut sessions = ShortIds::new();
    tail.run(|out, batch| match out.json() {
        true => batch.iter().try_for_each(|(_, raw)| out.json_line(raw.get())),
        false => {
            let events: Vec<_> = batch.iter().map(|(event, _)| event).collect();
            out.events_of_all(&events, &mut sessions)
        }
    })
    .await?;
    Ok(Exit::Ok.into())
}
