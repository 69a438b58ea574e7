//! `plexus connect --restore`: files as they were before a change.

use std::process::ExitCode;

use serde_json::json;

use super::desk::{self, Desk};
use super::shown;
use crate::commands::Invocation;
use crate::failure::Exit;
use crate::output::Column;

pub(super) async fn run(
    copy: Option<&str>,
    (yes, dry_run): (bool, bool),
    desk: &Desk,
    invocation: &Invocation<'_>,
) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let bridge = desk.keeper.bridge();
    let Some(copy) = copy else {
        let copies = bridge.backups().map_err(|error| desk::refused(&error))?;
        if out.json() {
            out.json_line(&json!({ "items": copies }).to_string())?;
            return Ok(Exit::Ok.into());
        }
        if copies.is_empty() {
            out.note("There are no copies: no file that was there before was changed.");
            return Ok(Exit::Ok.into());
        }
        let rows = copies
            .iter()
            .map(|copy| vec![copy.id.clone(), out.when(copy.at), copy.path.display().to_string()]);
        out.table(&[Column::whole("COPY"), Column::whole("MADE"), Column::path("FILE")], rows.collect())?;
        out.note("To put one back: plexus connect --restore COPY");
        return Ok(Exit::Ok.into());
    };
    let change = bridge.plan_restore(copy).map_err(|error| desk::refused(&error))?;
    if !change.is_needed() {
        out.note(&format!("{} is as it was then.", change.path.display()));
        return Ok(Exit::Ok.into());
    }
    if !out.json() {
        shown::change(out, &change)?;
    }
    if dry_run {
        out.note("Nothing was changed: this was a dry run.");
        return Ok(Exit::Ok.into());
    }
    if !yes && !desk::confirmed(out, "Put it back?").await? {
        out.note("Nothing was changed.");
        return Ok(Exit::Ok.into());
    }
    bridge.apply(&change, None).map_err(|error| desk::refused(&error))?;
    match out.json() {
        true => out.json_line(&json!({ "restored": change.path, "copy": copy }).to_string())?,
        false => out.line(&format!("{} is as it was.", change.path.display()))?,
    }
    Ok(Exit::Ok.into())
}
