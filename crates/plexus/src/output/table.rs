//! Formats rows for a terminal or a pipe.
//!
//! On a terminal, rows fit its width: texts are truncated first, then less important columns are omitted. Ids are
//! shortened to the suffix at which they differ. In a pipe, all values are complete.

use unicode_width::UnicodeWidthStr as _;

use super::text::one_line;
use super::wrap;
use crate::short_id;

/// Spaces between columns.
const GAP: usize = 2;
/// Minimum width of truncated texts before columns are omitted.
const PREFERRED_MIN_WIDTH: usize = 14;
/// Minimum width of truncated texts if no column can be omitted.
const MIN_WIDTH: usize = 8;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    heading: &'static str,
    format: CellFormat,
    rank: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellFormat {
    Text,
    /// Truncated at the start, because the end of a path is more useful.
    Path,
    /// A UUID, shortened to its suffix.
    Id,
    /// Never truncated.
    Whole,
}

impl Column {
    pub(crate) const fn new(heading: &'static str) -> Self {
        Self { heading, format: CellFormat::Text, rank: 0 }
    }

    /// A column of UUIDs.
    pub(crate) const fn id(heading: &'static str) -> Self {
        Self { heading, format: CellFormat::Id, rank: 0 }
    }

    /// A column of paths.
    pub(crate) const fn path(heading: &'static str) -> Self {
        Self { heading, format: CellFormat::Path, rank: 0 }
    }

    /// A column of numbers, times or words that are never truncated.
    pub(crate) const fn whole(heading: &'static str) -> Self {
        Self { heading, format: CellFormat::Whole, rank: 0 }
    }

    /// Sets the rank. On a narrow terminal, columns of the highest rank are omitted first, and those of rank 0 only
    /// if truncation does not suffice.
    pub(crate) const fn rank(mut self, rank: u8) -> Self {
        self.rank = rank;
        self
    }

    fn can_shrink(self) -> bool {
        matches!(self.format, CellFormat::Text | CellFormat::Path)
    }
}

impl From<&'static str> for Column {
    fn from(heading: &'static str) -> Self {
        Self::new(heading)
    }
}

/// Formats a table for a terminal of this width.
pub(super) fn fitted(columns: &[Column], rows: &[Vec<String>], terminal: usize) -> String {
    let mut rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    for (index, _) in columns.iter().enumerate().filter(|(_, column)| column.format == CellFormat::Id) {
        shorten_ids(&mut rows, index);
    }
    let shown = layout(columns, &rows, terminal);
    let mut text = String::new();
    line(&mut text, &shown, |column| columns[column].heading, columns);
    for row in &rows {
        line(&mut text, &shown, |column| row.get(column).map_or("", String::as_str), columns);
    }
    text
}

/// Shortens the ids of a column to the suffix at which they differ.
fn shorten_ids(rows: &mut [Vec<String>], column: usize) {
    let length =
        short_id::unique_suffix_len(rows.iter().filter_map(|row| row.get(column)).map(String::as_str));
    for cell in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
        *cell = short_id::suffix(cell, length).to_owned();
    }
}

/// The columns to show, and their widths.
fn layout(columns: &[Column], rows: &[Vec<String>], terminal: usize) -> Vec<(usize, usize)> {
    let natural = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width());
        cells.chain([columns[column].heading.width()]).max().unwrap_or(0)
    };
    let mut shown: Vec<(usize, usize)> = (0..columns.len()).map(|column| (column, natural(column))).collect();
    loop {
        let mut widths = shown.clone();
        if shrink(columns, &mut widths, terminal, PREFERRED_MIN_WIDTH) {
            return widths;
        }
        // The first column is never omitted, because it identifies the row.
        let least_important =
            shown.iter().enumerate().skip(1).max_by_key(|(_, (column, _))| (columns[*column].rank, *column));
        match least_important {
            Some((index, (column, _))) if columns[*column].rank > 0 => drop(shown.remove(index)),
            _ if shrink(columns, &mut widths, terminal, MIN_WIDTH) => return widths,
            Some((index, _)) => drop(shown.remove(index)),
            None => return widths,
        }
    }
}

/// Narrows the widest texts until the line fits. False if it cannot fit.
fn shrink(columns: &[Column], widths: &mut [(usize, usize)], terminal: usize, min_width: usize) -> bool {
    let gaps = GAP * widths.len().saturating_sub(1);
    loop {
        let over = (widths.iter().map(|(_, width)| width).sum::<usize>() + gaps).saturating_sub(terminal);
        if over == 0 {
            return true;
        }
        let floor = |column: usize| columns[column].heading.width().max(min_width);
        let widest = widths
            .iter_mut()
            .filter(|(column, width)| columns[*column].can_shrink() && *width > floor(*column))
            .max_by_key(|(_, width)| *width);
        let Some((_, width)) = widest else { return false };
        *width -= 1;
    }
}

fn line<'a>(
    text: &mut String,
    shown: &[(usize, usize)],
    cell: impl Fn(usize) -> &'a str,
    columns: &[Column],
) {
    let start = text.len();
    for (index, (column, width)) in shown.iter().enumerate() {
        if index > 0 {
            text.push_str(&" ".repeat(GAP));
        }
        let cell = fit(cell(*column), *width, columns[*column].format);
        text.push_str(&cell);
        text.push_str(&" ".repeat(width.saturating_sub(cell.width())));
    }
    text.truncate(start + text[start..].trim_end().len());
    text.push('\n');
}

/// Truncates a cell to `width`, with an ellipsis.
fn fit(cell: &str, width: usize, format: CellFormat) -> String {
    match format {
        CellFormat::Path => wrap::cut_start(cell, width),
        _ => wrap::cut(cell, width),
    }
}

/// Formats rows for a pipe: one line per row, with tabs between cells.
pub(super) fn tab_separated(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> = row.iter().map(|cell| one_line(cell)).collect();
        text.push_str(&cells.join("\t"));
        text.push('\n');
    }
    text
}

/// Formats names and values for a terminal, with aligned values that are wrapped at its width.
pub(super) fn aligned(fields: &[(&str, String)], terminal: usize) -> String {
    let width = fields.iter().map(|(name, _)| name.width()).max().unwrap_or_default();
    let lines = fields
        .iter()
        .map(|(name, value)| wrap::hanging(&format!("{name:width$}{:GAP$}", ""), &one_line(value), terminal));
    lines.collect()
}
