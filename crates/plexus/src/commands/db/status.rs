//! `plexus db status` and `plexus db migrate`.

use std::process::ExitCode;
use std::time::Duration;

use plexus_kit::Supervisor;
use plexus_store::{DatabaseInfo, Snapshot, Store};
use serde_json::json;

use super::{DatabaseArgs, existing_database, no_database};
use crate::commands::Invocation;
use crate::failure::Exit;

/// Time limit for closing the database.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn show(database: &DatabaseArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let options = existing_database(database.options(invocation)?)?;
    let mut snapshot = Snapshot::open(&options).await?.ok_or_else(|| no_database(&options))?;
    let info = snapshot.info().await?;
    let heads = if info.schema > 0 { snapshot.audit_heads().await? } else { vec![] };
    let out = &invocation.out;
    let DatabaseInfo { database, location, schema, needed, bytes, tables, events } = info;
    if out.json() {
        let tables: serde_json::Map<_, _> =
            tables.into_iter().map(|(name, rows)| (name.to_owned(), json!(rows))).collect();
        let status = json!({
            "database": database,
            "location": location,
            "schema": schema,
            "needed_schema": needed,
            "bytes": bytes,
            "rows": tables,
            "oldest_event": events.map(|(oldest, _)| oldest),
            "newest_event": events.map(|(_, newest)| newest),
            "audit_heads": heads,
        });
        out.json_line(&status.to_string())?;
        return Ok(Exit::Ok.into());
    }
    let state = match schema {
        _ if schema == needed => format!("{schema}, current"),
        _ if schema < needed => format!("{schema}; `plexus db migrate` updates it to {needed}"),
        _ => format!("{schema}, newer than {needed}, which this version supports"),
    };
    let mut fields =
        vec![("database", database), ("location", location), ("schema", state), ("size", size(bytes))];
    fields.extend(tables.iter().map(|(name, rows)| (*name, rows.to_string())));
    if let Some((oldest, newest)) = events {
        fields.push(("oldest event", out.at(oldest)));
        fields.push(("newest event", out.at(newest)));
    }
    fields.extend(heads.iter().map(|head| ("audit head", format!("{} of hub {}", head.n, head.hub))));
    out.fields(&fields)?;
    Ok(Exit::Ok.into())
}

pub(super) async fn migrate(
    database: &DatabaseArgs,
    invocation: &Invocation<'_>,
) -> anyhow::Result<ExitCode> {
    let options = existing_database(database.options(invocation)?)?;
    let before = match Snapshot::open(&options).await? {
        Some(mut snapshot) => snapshot.schema_version().await?,
        None => return Err(no_database(&options)),
    };
    let progress = invocation.out.progress("Migrating the database");
    let supervisor = Supervisor::new();
    let opened = Store::open(&options, &supervisor).await;
    supervisor.shutdown(CLOSE_TIMEOUT).await;
    opened?;
    progress.finish("Migrated the database");
    let now = Snapshot::NEEDED_SCHEMA;
    let out = &invocation.out;
    if out.json() {
        out.json_line(&json!({ "from": before, "to": now }).to_string())?;
    } else if before == now {
        out.line(&format!("The database already has the current schema {now}."))?;
    } else {
        out.line(&format!("Migrated the database from schema {before} to {now}."))?;
    }
    Ok(Exit::Ok.into())
}

/// A number of bytes with a unit.
pub(super) fn size(bytes: i64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB"];
    let mut unit = 0;
    let mut left = bytes;
    let mut rest = 0;
    while left >= 1024 && unit + 1 < units.len() {
        (left, rest, unit) = (left / 1024, left % 1024, unit + 1);
    }
    match unit {
        0 => format!("{left} {}", units[unit]),
        _ => format!("{left}.{} {}", rest * 10 / 1024, units[unit]),
    }
}

#[cfg(test)]
mod tests;
