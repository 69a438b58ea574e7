//! Checks that the database can be read and has a supported schema. Does not disturb a running hub:
//! nothing is locked or written.

use plexus_hub::INSTANCE;
use plexus_kit::Config;
use plexus_proto::api::Status;
use plexus_store::{DatabaseLocation, DatabaseNote, Snapshot, StoreError, StoreOptions};

use super::hub::RunningHub;
use super::{CheckContext, Finding};
use crate::commands::db;

const CHECK: &str = "database";

/// Returns the finding, and whether there is a database.
pub(super) async fn check(context: &CheckContext, hub: Option<&RunningHub>) -> (Finding, bool) {
    let config = &context.config;
    let options = match store_options(config) {
        Ok(options) => options,
        Err(error) => return (unusable(&error), true),
    };
    let status = hub.filter(|hub| hub.on_folder).and_then(|hub| hub.status.as_ref());
    if let Some(found) = unknown_url(context, &options, status) {
        return (found, true);
    }
    let read = async {
        let Some(mut snapshot) = Snapshot::glance(&options).await? else { return Ok(None) };
        let (schema, version) = (snapshot.schema_version().await?, snapshot.version().await?);
        let id = if schema > 0 { snapshot.store_id(INSTANCE).await? } else { None };
        if let (Some(note), Some(id)) = (DatabaseNote::read(&config.data_dir)?, id)
            && note.store_id != id
        {
            return Err(StoreError::OtherDatabase {
                folder: config.data_dir.display().to_string(),
                noted: note.location.to_string(),
                given: snapshot.location().to_owned(),
            });
        }
        Ok(Some(DatabaseFacts { location: snapshot.location().to_owned(), version, schema }))
    };
    match read.await {
        Ok(Some(facts)) => (judge(&facts, context), true),
        Ok(None) => (missing(context, &options), false),
        // A broken database still exists.
        Err(error) => {
            let file =
                DatabaseLocation::of(&options).ok().and_then(|location| location.file(&config.data_dir));
            (unusable(&error), file.is_some_and(|file| file.exists()))
        }
    }
}

/// The configured database, or the SQLite file that belongs to the folder.
pub(super) fn store_options(config: &Config) -> Result<StoreOptions, StoreError> {
    db::store_options(config).with_noted_database()
}

/// The finding for a database whose URL only the hub has, as a flag or a variable.
fn unknown_url(context: &CheckContext, options: &StoreOptions, status: Option<&Status>) -> Option<Finding> {
    let config = &context.config;
    let configured = if DatabaseLocation::of(options).ok()?.is_sqlite() { "sqlite" } else { "postgresql" };
    if let Some(status) = status.filter(|status| status.database != configured) {
        if config.database_url.is_none() {
            let Status { database, database_location, .. } = status;
            let message = format!("{database}: {database_location}, as reported by the hub");
            return Some(Finding::ok(CHECK, message));
        }
        let message = format!("the hub uses {}, but this configuration {configured}", status.database);
        let fix = "run this with the hub's configuration: the same --config or PLEXUS_DATABASE_URL";
        return Some(Finding::problem(CHECK, message, fix));
    }
    let note = DatabaseNote::read(&config.data_dir).ok().flatten()?;
    (config.database_url.is_none() && !note.location.is_sqlite()).then(|| {
        let message =
            format!("the folder belongs to {}, but this command does not have its URL", note.location);
        let fix = "set PLEXUS_DATABASE_URL as for the hub, which does not start without it";
        Finding::warning(CHECK, message, fix)
    })
}

/// The finding for a missing database. A folder with a key and an audit head had one, and starting a hub on it would create a
/// new, empty one.
fn missing(context: &CheckContext, options: &StoreOptions) -> Finding {
    let Config { data_dir, database_url, .. } = &context.config;
    let file = DatabaseLocation::of(options).ok().and_then(|location| location.file(data_dir));
    if let Some(file) = file.filter(|_| database_url.is_none())
        && ["signing-key", "audit.head"].iter().all(|name| data_dir.join(name).exists())
    {
        let message = format!("{} is missing, but its key and its audit head exist", file.display());
        let fix = "put it back, or restore a backup into a new folder: plexus db restore FILE --data-dir DIR";
        return Finding::problem(CHECK, message, fix);
    }
    let message = "there is none yet; the hub creates it at its first start";
    Finding::warning(CHECK, message, format!("{} up", context.plexus))
}

struct DatabaseFacts {
    location: String,
    version: String,
    schema: i64,
}

fn judge(facts: &DatabaseFacts, context: &CheckContext) -> Finding {
    let DatabaseFacts { location, version, schema } = facts;
    let known_schema = &Snapshot::NEEDED_SCHEMA;
    if schema > known_schema {
        let message =
            format!("{location} has schema {schema}, newer than {known_schema}, which this program supports");
        return Finding::problem(
            CHECK,
            message,
            "install the version of plexus that wrote it, or a newer one",
        );
    }
    if schema < known_schema {
        let message =
            format!("{location} has schema {schema}; the hub migrates it to {known_schema} when it starts");
        return Finding::warning(CHECK, message, format!("{} up", context.plexus));
    }
    Finding::ok(CHECK, format!("{version}, schema {schema}, {location}"))
}

fn unusable(error: &StoreError) -> Finding {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        // Skip a cause that the error above it already contains.
        let text = cause.to_string();
        if !message.contains(&text) {
            message.push_str(&format!(": {text}"));
        }
        source = cause.source();
    }
    let fix = match error {
        StoreError::OtherDatabase { .. } => {
            "correct database_url, see `plexus config show --origin`, or put the folder's own database back"
        }
        StoreError::UnsupportedUrl(_) | StoreError::Url { .. } => {
            "correct database_url, see `plexus config show --origin`"
        }
        StoreError::Open { what, .. } if what.starts_with("postgres:") => {
            "start the server, or correct database_url, see `plexus config show --origin`"
        }
        _ => "stop the hub, keep a copy of the file, and put the newest backup in its place",
    };
    Finding::problem(CHECK, message, fix)
}
