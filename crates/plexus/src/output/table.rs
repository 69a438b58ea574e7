//! Rows for a terminal and for a pipe.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::text::one_line;

/// What a terminal has that does not say how wide it is.
const WIDTH: usize = 80;
/// Between two columns.
const GAP: u16 = 2;
/// A column that needs no more than this is never wrapped.
const SHORT: usize = 20;

/// For a terminal: under headings, long texts wrapped to its width. Nothing is broken inside a word,
/// so that what names a thing can be copied; where the words are too many, lines are too long.
pub(super) fn framed(headers: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headers.iter().copied());
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let terminal = table.width().map_or(WIDTH, usize::from);
    let widths = widths(headers, &rows, if terminal == 0 { WIDTH } else { terminal });
    table.add_rows(rows);
    for (column, width) in table.column_iter_mut().zip(widths) {
        column.set_padding((0, GAP));
        if let Some(width) = width {
            let whole = u16::try_from(width).unwrap_or(u16::MAX).saturating_add(GAP);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(whole)));
        }
    }
    format!("{}\n", table.trim_fmt())
}

/// How wide each column is to be; none where it is as wide as what it holds. The widest give way
/// first, and none below its longest word.
fn widths(headers: &[&str], rows: &[Vec<String>], terminal: usize) -> Vec<Option<usize>> {
    let cells = |column: usize| {
        let below = rows.iter().filter_map(move |row| row.get(column).map(String::as_str));
        headers.get(column).copied().into_iter().chain(below)
    };
    let length = |text: &str| text.chars().count();
    let whole: Vec<usize> =
        (0..headers.len()).map(|column| cells(column).map(length).max().unwrap_or(0)).collect();
    let least = |column: usize| {
        let word = cells(column).flat_map(str::split_whitespace).map(length).max().unwrap_or(0);
        // The first column names the thing.
        if column == 0 { whole[column] } else { whole[column].min(word.max(SHORT)) }
    };
    let least: Vec<usize> = (0..headers.len()).map(least).collect();
    let mut widths = whole.clone();
    let room = terminal.saturating_sub(usize::from(GAP) * headers.len().saturating_sub(1));
    loop {
        let over = widths.iter().sum::<usize>().saturating_sub(room);
        let widest = (0..widths.len()).filter(|&i| widths[i] > least[i]).max_by_key(|&i| widths[i]);
        let (Some(widest), 1..) = (widest, over) else { break };
        widths[widest] -= 1;
    }
    widths.iter().zip(whole).map(|(&width, whole)| (width < whole).then_some(width)).collect()
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
