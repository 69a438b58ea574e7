//! The table of a run.

use std::fmt::Write as _;

use anyhow::Result;

use super::Measured;

pub(super) fn text(measured: &Measured) -> Result<String> {
    let Measured { machine, megabytes, rounds, ways, without_scp } = measured;
    let mut text = String::new();
    writeln!(text, "{machine} A file of {megabytes} MB on loopback, medians of {rounds} round(s).\n")?;
    writeln!(text, "| copied with | to the other end | back |")?;
    writeln!(text, "|---|--:|--:|")?;
    for times in ways {
        let rate = |seconds: f64| *megabytes as f64 / seconds.max(1e-6);
        writeln!(
            text,
            "| {} | {:.1} s, {:.0} MB/s | {:.1} s, {:.0} MB/s |",
            times.name,
            times.there,
            rate(times.there),
            times.back,
            rate(times.back)
        )?;
    }
    if let Some(why) = without_scp {
        writeln!(text, "\n`scp` was not measured: {why}.")?;
    }
    Ok(text)
}
