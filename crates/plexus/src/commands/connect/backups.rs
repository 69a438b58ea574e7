//! `plexus connect --restore`: lists backups and restores files.

use std::process::ExitCode;

use serde_json::json;

use super::local_agents::{self, LocalAgents};
use super::{ChangeArgs, display};
use crate::commands::Invocation;
use crate::failure::Exit;
use crate::output::Column;

pub(super) async fn run(
    copy: Option<&str>,
    change_args: &ChangeArgs,
    local_agents: &LocalAgents,
    invocation: &Invocation<'_>,
) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let bridge = local_agents.keeper.bridge();
    let Some(copy) = copy else {
        let copies = bridge.backups().map_err(|error| local_agents::failure(&error))?;
        if out.json() {
            out.json_line(&json!({ "items": copies }).to_string())?;
            return Ok(Exit::Ok.into());
        }
        if copies.is_empty() {
            out.note("There are no backups: no existing file was changed.");
            return Ok(Exit::Ok.into());
        }
        let rows = copies
            .iter()
            .map(|copy| vec![copy.id.clone(), out.when(copy.at), copy.path.display().to_string()]);
        out.table(&[Column::whole("COPY"), Column::whole("MADE"), Column::path("FILE")], rows.collect())?;
        out.note("To restore one: plexus connect --restore COPY");
        return Ok(Exit::Ok.into());
    };
    let change = bridge.plan_restore(copy).map_err(|error| local_agents::failure(&error))?;
    if !change.is_needed() {
        out.note(&format!("{} already has this content.", change.path.display()));
        return Ok(Exit::Ok.into());
    }
    if !out.json() {
        display::print_change(out, &change)?;
    }
    if change_args.dry_run {
        out.note("Nothing was changed: this was a dry run.");
        return Ok(Exit::Ok.into());
    }
    if !change_args.yes && !local_agents::confirm(out, "Restore this file?").await? {
        out.note("Nothing was changed.");
        return Ok(Exit::Ok.into());
    }
    bridge.apply(&change, None).map_err(|error| local_agents::failure(&error))?;
    match out.json() {
        true => out.json_line(&json!({ "restored": change.path, "copy": copy }).to_string())?,
        false => out.line(&format!("Restored {}.", change.path.display()))?,
    }
    Ok(Exit::Ok.into())
}
