//! Rows for a terminal and for a pipe.
//!
//! A terminal gets rows that are no wider than itself: texts are cut, then columns of low importance are left out.
//! Ids are shown by their end, as far as it takes to tell them apart. A pipe gets every value as a whole.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::text::one_line;
use crate::short_id;

/// Width of a terminal that does not tell its own.
const WIDTH: usize = 80;
/// Between two columns.
const GAP: usize = 2;
/// Width to which texts are cut while less important columns remain.
const COMFORTABLE: usize = 14;
/// Width to which texts are cut when no column can be left out any more.
const LEAST: usize = 8;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    heading: &'static str,
    form: Form,
    rank: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    /// Cut at its beginning: the end of a path says more.
    Path,
    /// A UUID, shown by its end.
    Id,
    /// Never cut.
    Whole,
}

impl Column {
    pub(crate) const fn new(heading: &'static str) -> Self {
        Self { heading, form: Form::Text, rank: 0 }
    }

    /// A column of UUIDs.
    pub(crate) const fn id(heading: &'static str) -> Self {
        Self { heading, form: Form::Id, rank: 0 }
    }

    /// A column of paths.
    pub(crate) const fn path(heading: &'static str) -> Self {
        Self { heading, form: Form::Path, rank: 0 }
    }

    /// A column of numbers, times or words that mean nothing when they are cut.
    pub(crate) const fn whole(heading: &'static str) -> Self {
        Self { heading, form: Form::Whole, rank: 0 }
    }

    /// Left out on a narrow terminal: those of the highest rank first. 0: only when nothing else helps.
    pub(crate) const fn rank(mut self, rank: u8) -> Self {
        self.rank = rank;
        self
    }

    fn can_shrink(self) -> bool {
        matches!(self.form, Form::Text | Form::Path)
    }
}

impl From<&'static str> for Column {
    fn from(heading: &'static str) -> Self {
        Self::new(heading)
    }
}

/// For a terminal of this many characters; 0: it does not tell.
pub(super) fn framed(columns: &[Column], rows: &[Vec<String>], terminal: usize) -> String {
    let terminal = if terminal == 0 { WIDTH } else { terminal };
    let mut rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    for (index, _) in columns.iter().enumerate().filter(|(_, column)| column.form == Form::Id) {
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

/// Leaves of each id the end that no other id of the column has.
fn shorten_ids(rows: &mut [Vec<String>], column: usize) {
    let length = short_id::distinct(rows.iter().filter_map(|row| row.get(column)).map(String::as_str));
    for cell in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
        *cell = short_id::end(cell, length).to_owned();
    }
}

/// The columns that are shown, and how wide each of them is.
fn layout(columns: &[Column], rows: &[Vec<String>], terminal: usize) -> Vec<(usize, usize)> {
    let natural = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width());
        cells.chain([columns[column].heading.width()]).max().unwrap_or(0)
    };
    let mut shown: Vec<(usize, usize)> = (0..columns.len()).map(|column| (column, natural(column))).collect();
    loop {
        let mut widths = shown.clone();
        if shrink(columns, &mut widths, terminal, COMFORTABLE) {
            return widths;
        }
        // The first column says what the row is about.
        let least =
            shown.iter().enumerate().skip(1).max_by_key(|(_, (column, _))| (columns[*column].rank, *column));
        match least {
            Some((place, (column, _))) if columns[*column].rank > 0 => drop(shown.remove(place)),
            _ if shrink(columns, &mut widths, terminal, LEAST) => return widths,
            Some((place, _)) => drop(shown.remove(place)),
            None => return widths,
        }
    }
}

/// Makes the widest texts narrower until the line fits. False: it does not fit.
fn shrink(columns: &[Column], widths: &mut [(usize, usize)], terminal: usize, least: usize) -> bool {
    let gaps = GAP * widths.len().saturating_sub(1);
    loop {
        let over = (widths.iter().map(|(_, width)| width).sum::<usize>() + gaps).saturating_sub(terminal);
        if over == 0 {
            return true;
        }
        let floor = |column: usize| columns[column].heading.width().max(least);
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
    let begin = text.len();
    for (place, (column, width)) in shown.iter().enumerate() {
        if place > 0 {
            text.push_str(&" ".repeat(GAP));
        }
        let cell = fit(cell(*column), *width, columns[*column].form);
        text.push_str(&cell);
        text.push_str(&" ".repeat(width.saturating_sub(cell.width())));
    }
    text.truncate(begin + text[begin..].trim_end().len());
    text.push('\n');
}

/// At most `width` wide, with a sign where something is missing.
fn fit(cell: &str, width: usize, form: Form) -> String {
    if cell.width() <= width {
        return cell.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut fits = |c: &char| match left.checked_sub(c.width().unwrap_or(0)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    match form {
        Form::Path => {
            let end: Vec<char> = cell.chars().rev().take_while(&mut fits).collect();
            format!("…{}", end.iter().rev().collect::<String>())
        }
        _ => format!("{}…", cell.chars().take_while(&mut fits).collect::<String>().trim_end()),
    }
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
    let width = fields.iter().map(|(name, _)| name.width()).max().unwrap_or_default();
    fields.iter().map(|(name, value)| format!("{name:width$}  {}\n", one_line(value))).collect()
}
