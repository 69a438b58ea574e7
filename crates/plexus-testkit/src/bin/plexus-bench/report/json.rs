//! All measurements as JSON.

use anyhow::Result;
use serde_json::{Value, json};

use super::compare::{Figures, Ratios};
use crate::args::Args;
use crate::run::{Results, Row};

pub(super) fn all(results: &Results, args: &Args) -> Result<Value> {
    let contenders = results
        .contenders
        .iter()
        .map(|contender| json!({ "name": contender.name, "label": contender.label, "does": contender.does }));
    let left_out = results.left_out.iter().map(|(label, why)| json!({ "label": label, "why": why }));
    Ok(json!({
        "machine": results.machine,
        "rounds": args.rounds(),
        "seconds": args.pace()?.measured.as_secs_f64(),
        "tools": args.tools,
        "contenders": contenders.collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
        "at_rest": results.at_rest,
        "calls": rows(&results.calls)?,
        "lists": rows(&results.lists)?,
        "idle": results.idle,
    }))
}

/// Each row with its medians, ratios and the samples of the rounds.
fn rows(rows: &[Row]) -> Result<Vec<Value>> {
    let with_figures = |row: &Row| {
        let mut value = serde_json::to_value(row)?;
        value["figures"] = serde_json::to_value(Figures::of(row)?)?;
        value["ratios"] = serde_json::to_value(Ratios::of(row, rows)?)?;
        Ok(value)
    };
    rows.iter().map(with_figures).collect()
}
