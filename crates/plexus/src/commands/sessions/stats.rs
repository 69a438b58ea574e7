//! `plexus sessions stats`: shows statistics of sessions, which the hub computes.

use plexus_proto::SessionId;
use plexus_proto::api::{RunStats, SessionStats};

use crate::client::Hub;
use crate::listing::{self, ListArgs};
use crate::output::{Column, Output};

pub(super) async fn list(out: &Output, hub: &Hub, args: &ListArgs) -> anyhow::Result<()> {
    let page = listing::fetch(hub, &["sessions", "stats"], &[], args, |_| true).await?;
    let row = |stats: &SessionStats| {
        vec![
            stats.session.id.to_string(),
            stats.session.key.clone(),
            at_least(stats, stats.calls.total),
            stats.calls.failed.to_string(),
            out.duration(stats.calls.took_ms),
            stats.queued.writes.to_string(),
            stats.dead_letters.to_string(),
            stats.tokens.map_or_else(|| "-".to_owned(), |tokens| tokens.to_string()),
            out.when(stats.session.updated_at),
        ]
    };
    let columns = [
        Column::id("ID"),
        Column::new("KEY"),
        Column::whole("CALLS"),
        Column::whole("FAILED"),
        Column::whole("TOOK"),
        Column::whole("QUEUED").rank(2),
        Column::whole("DEAD").rank(2),
        Column::whole("TOKENS").rank(1),
        Column::whole("UPDATED"),
    ];
    let empty = "No sessions yet. The first call of an agent or of `plexus tools call NAME` creates one.";
    listing::show(out, &page, &columns, row, empty)
}

pub(super) async fn show(out: &Output, hub: &Hub, id: SessionId) -> anyhow::Result<()> {
    let answer = hub.get(&["sessions", &id.to_string(), "stats"], &[]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let stats: SessionStats = answer.decode()?;
    let at = |at: Option<_>| at.map_or_else(|| "-".to_owned(), |at| out.at(at));
    let mut fields = vec![
        ("session", stats.session.id.to_string()),
        ("key", stats.session.key.clone()),
        ("owner", stats.session.owner.clone()),
        ("events", at_least(&stats, stats.events)),
        ("first", at(stats.first_at)),
        ("last", at(stats.last_at)),
        ("calls", stats.calls.total.to_string()),
        ("failed", failed(&stats)),
        ("time in calls", out.duration(stats.calls.took_ms)),
        ("queued writes", queued(out, &stats)),
        ("dead letters", stats.dead_letters.to_string()),
        ("tokens", stats.tokens.map_or_else(|| "unknown".to_owned(), |tokens| tokens.to_string())),
    ];
    if stats.runs != RunStats::default() {
        fields.push(("runs", runs(&stats.runs)));
    }
    out.fields(&fields)?;
    if stats.calls.tools.is_empty() {
        return Ok(());
    }
    out.block("\n")?;
    let rows = stats.calls.tools.iter().map(|tool| {
        vec![tool.tool.clone(), tool.calls.to_string(), tool.failed.to_string(), out.duration(tool.took_ms)]
    });
    out.table(&["TOOL", "CALLS", "FAILED", "TOOK"], rows.collect())
}

/// Formats a count, with a plus sign if older events were not counted.
pub(super) fn at_least(stats: &SessionStats, count: i64) -> String {
    if stats.partial { format!("{count}+") } else { count.to_string() }
}

fn failed(stats: &SessionStats) -> String {
    let codes: Vec<_> = stats.calls.failures.iter().map(|(code, count)| format!("{code} {count}")).collect();
    match codes.is_empty() {
        true => stats.calls.failed.to_string(),
        false => format!("{} ({})", stats.calls.failed, codes.join(", ")),
    }
}

fn queued(out: &Output, stats: &SessionStats) -> String {
    let queued = &stats.queued;
    match queued.writes {
        0 => "0".to_owned(),
        writes => format!(
            "{writes} (waited {} on average, {} at most)",
            out.duration(queued.mean_ms),
            out.duration(queued.longest_ms)
        ),
    }
}

fn runs(runs: &RunStats) -> String {
    let RunStats { started, exited, crashed, stopped, restarted } = runs;
    let parts = [
        ("started", started),
        ("restarted", restarted),
        ("exited", exited),
        ("stopped", stopped),
        ("crashed", crashed),
    ];
    let nonzero: Vec<_> = parts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(state, count)| format!("{state} {count}"))
        .collect();
    nonzero.join(", ")
}
