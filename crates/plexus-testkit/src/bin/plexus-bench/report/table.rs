//! Markdown tables that are readable as plain text.

use std::fmt::Write as _;

#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|head| (*head).to_owned()).collect()] }
    }

    pub(crate) fn add<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// The first column is left-aligned, the others are right-aligned.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default().max(3)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            for (column, width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                // Writing to a string cannot fail.
                let _ = match column {
                    0 => write!(text, "| {cell:<width$} "),
                    _ => write!(text, "| {cell:>width$} "),
                };
            }
            text.push_str("|\n");
            if number == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let line = "-".repeat(width - usize::from(column > 0));
                    text.push_str(&if column == 0 { format!("| {line} ") } else { format!("| {line}: ") });
                }
                text.push_str("|\n");
            }
        }
        text
    }
}

/// Three significant digits, or a dash.
pub(super) fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return "–".to_owned() };
    match value.abs() {
        large if large >= 999.5 => thousands(value),
        hundreds if hundreds >= 99.95 => format!("{value:.0}"),
        tens if tens >= 9.995 => format!("{value:.1}"),
        ones if ones >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A whole number.
pub(super) fn count(value: usize) -> String {
    thousands(value as f64)
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && digit.is_ascii_digit() && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
