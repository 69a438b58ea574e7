//! The table of a run.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::{BUDGET, Measured};
use crate::report::{Marks, put_between, save};

/// In a Markdown file, the table stands between these lines.
const MARKS: Marks = Marks {
    begin: "<!-- Written by `make bench ARGS=files`: begin -->",
    end: "<!-- Written by `make bench ARGS=files`: end -->",
};

pub(super) fn write(measured: &Measured, json: Option<&Path>, docs: Option<&Path>) -> Result<()> {
    let text = text(measured)?;
    println!("{text}");
    if let Some(path) = json {
        save(path, &format!("{}\n", serde_json::to_string_pretty(measured).context("JSON")?))?;
    }
    if let Some(path) = docs {
        let page = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        save(path, &put_between(&page, MARKS, &text).with_context(|| path.display().to_string())?)?;
    }
    Ok(())
}

fn text(measured: &Measured) -> Result<String> {
    let Measured { machine, ripgrep, files, rows } = measured;
    let mut text = String::new();
    writeln!(
        text,
        "{}, {} cores, {}; {}; {files} files; load average {:.2} in the minute before; {}.\n",
        machine.cpu, machine.cores, machine.plexus, ripgrep, machine.load_before, machine.date
    )?;
    writeln!(text, "| search | found | `rg` | `filesystem` | in times of `rg` | ≤ {BUDGET} × |")?;
    writeln!(text, "|---|--:|--:|--:|--:|--:|")?;
    for row in rows {
        let kept = if row.times() <= BUDGET { "yes" } else { "no" };
        writeln!(
            text,
            "| {} | {} | {:.0} ms | {:.0} ms | {:.2} × | {kept} |",
            row.what,
            row.found,
            row.ripgrep_ms,
            row.tool_ms,
            row.times()
        )?;
    }
    Ok(text)
}
