//! The table of a run.

use std::fmt::Write as _;

use anyhow::Result;

use super::{BUDGET, Measured};

pub(super) fn text(measured: &Measured) -> Result<String> {
    let Measured { machine, ripgrep, files, rows } = measured;
    let mut text = String::new();
    writeln!(text, "{machine} {ripgrep}; {files} files.\n")?;
    writeln!(text, "| search | found | `rg` | `filesystem` | ratio to `rg` | ≤ {BUDGET} × |")?;
    writeln!(text, "|---|--:|--:|--:|--:|--:|")?;
    for row in rows {
        let verdict = if row.times() <= BUDGET { "yes" } else { "no" };
        writeln!(
            text,
            "| {} | {} | {:.0} ms | {:.0} ms | {:.2} × | {verdict} |",
            row.what,
            row.found,
            row.ripgrep_ms,
            row.tool_ms,
            row.times()
        )?;
    }
    Ok(text)
}
