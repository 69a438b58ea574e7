//! Rows for a terminal and for a pipe.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use super::text::one_line;

/// For a terminal: under headings, wrapped to its width. The first column names the thing and is
/// never broken, so that it can be copied.
pub(super) fn framed(headers: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(headers.iter().copied());
    table.add_rows(rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect::<Vec<_>>()));
    if let Some(first) = table.column_mut(0) {
        first.set_constraint(ColumnConstraint::ContentWidth);
    }
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    format!("{}\n", table.trim_fmt())
}

/// For a pipe: a line for each row, a tab between cells, nothing else.
pub(super) fn plain(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> = row.iter().map(|cell| one_line(cell)).collect();
        text.push_str(&cells.join("\t"));
        text.push('\n');
    }
    text
}

/// For a terminal: names and values, the values below each other.
pub(super) fn aligned(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    fields.iter().map(|(name, value)| format!("{name:width$}  {}\n", one_line(value))).collect()
}
