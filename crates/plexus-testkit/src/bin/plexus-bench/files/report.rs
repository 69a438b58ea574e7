//! The table of a run.

use super::{BUDGET, Measured};
use crate::report::Table;

pub(super) fn text(measured: &Measured) -> String {
    let Measured { machine, ripgrep, files, rows } = measured;
    let bound = format!("≤ {BUDGET} ×");
    let mut table = Table::new(&["search", "found", "`rg`", "`filesystem`", "ratio to `rg`", &bound]);
    for row in rows {
        let ms = |figure: f64| format!("{figure:.0} ms");
        let verdict = if row.times() <= BUDGET { "yes" } else { "no" };
        let times = format!("{:.2} ×", row.times());
        let (what, found) = (row.what.to_owned(), row.found.to_string());
        table.add([what, found, ms(row.ripgrep_ms), ms(row.tool_ms), times, verdict.to_owned()]);
    }
    format!("{machine} {ripgrep}; {files} files.\n\n{}", table.render())
}
