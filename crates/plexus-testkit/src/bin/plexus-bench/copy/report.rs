//! The table of a run.

use super::Measured;
use crate::report::Table;

pub(super) fn text(measured: &Measured) -> String {
    let Measured { machine, megabytes, rounds, ways, without_scp } = measured;
    let mut table = Table::new(&["copied with", "to the other end", "back"]);
    let speed = |seconds: f64| format!("{seconds:.1} s, {:.0} MB/s", *megabytes as f64 / seconds.max(1e-6));
    for times in ways {
        table.add([times.name.clone(), speed(times.there), speed(times.back)]);
    }
    let note =
        without_scp.as_ref().map(|why| format!("\n`scp` was not measured: {why}.\n")).unwrap_or_default();
    let title = format!("{machine} A file of {megabytes} MB on loopback, medians of {rounds} round(s).");
    format!("{title}\n\n{}{note}", table.render())
}
