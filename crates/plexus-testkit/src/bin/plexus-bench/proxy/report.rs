//! The tables of a run.

use super::Measured;
use super::calls::Times;
use crate::report::Table;

/// A call through a proxy may take this many times as long as one straight to the hub.
const TIMES: f64 = 1.6;
/// Memory limit of an idle proxy, in megabytes.
const MEGABYTES: f64 = 12.0;

pub(super) fn text(measured: &Measured) -> String {
    let Measured { machine, calls, away, replays, idle } = measured;
    let of_direct = format!("ratio [≤ {TIMES}]");
    let mut paths = Table::new(&[
        "call, one at a time",
        "client",
        "straight, p50 / p99",
        "proxy over HTTP",
        &of_direct,
        "proxy over stdio",
        &of_direct,
    ]);
    for calls in calls {
        let times = |times: Times| format!("{:.0} / {:.0} µs", times.p50_us, times.p99_us);
        let ratio = |times: Times| format!("{} ×", with_budget(times.p50_us / calls.direct.p50_us, TIMES));
        paths.add([
            format!("`{}`", calls.call),
            calls.era.to_string(),
            times(calls.direct),
            times(calls.http),
            ratio(calls.http),
            times(calls.stdio),
            ratio(calls.stdio),
        ]);
    }
    let heads = ["stored while the hub is away, by", "writes a second", "ratio to writing and syncing"];
    let mut stored = Table::new(&heads);
    for (label, rate) in [
        ("writing and syncing a file", away.bare),
        ("the outbox alone", away.outbox),
        ("a proxy over HTTP", away.http),
        ("a proxy over stdio", away.stdio),
    ] {
        stored.add([label.to_owned(), format!("{rate:.0}"), format!("{:.2} ×", away.bare / rate)]);
    }
    let heads = ["queued writes", "conversations", "first delivered after", "all", "writes a second"];
    let mut delivered = Table::new(&heads);
    for replay in replays {
        let (rows, conversations) = (replay.rows.to_string(), replay.conversations.to_string());
        let (found, all) = (format!("{:.0} ms", replay.found_ms), format!("{:.1} s", replay.seconds));
        delivered.add([rows, conversations, found, all, format!("{:.0}", replay.rows_per_second)]);
    }
    let in_memory = format!("in memory [≤ {MEGABYTES:.0} MB]");
    let mut proxies = Table::new(&["proxy with nothing to do", &in_memory, "of it its own"]);
    for idle in idle {
        let rss = format!("{} MB", with_budget(idle.rss_mb, MEGABYTES));
        proxies.add([format!("over {}", idle.way), rss, format!("{:.1} MB", idle.anonymous_mb)]);
    }
    let tables = [paths, stored, delivered, proxies].map(|table| table.render());
    format!("{machine}\n\n{}", tables.join("\n"))
}

/// A figure, in bold if it exceeds its budget.
fn with_budget(figure: f64, budget: f64) -> String {
    if figure <= budget { format!("{figure:.2}") } else { format!("**{figure:.2}**") }
}
