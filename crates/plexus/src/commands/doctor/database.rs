//! Whether the database can be read and has a schema that this program knows. A hub that runs is
//! not disturbed: nothing is locked and nothing is written.

use plexus_hub::INSTANCE;
use plexus_kit::Config;
use plexus_proto::api::Status;
use plexus_store::{DatabaseNote, DatabasePlace, Snapshot, StoreError, StoreOptions};

use super::hub::Seen;
use super::{Finding, Subject};

const CHECK: &str = "database";

/// What was found, and whether there is a database.
pub(super) async fn check(subject: &Subject, seen: Option<&Seen>) -> (Finding, bool) {
    let config = &subject.config;
    let options = store_options(config);
    let status = seen.filter(|seen| seen.on_folder).and_then(|seen| seen.status.as_ref());
    if let Some(found) = elsewhere(subject, &options, status) {
        return (found, true);
    }
    let looked = async {
        let Some(mut snapshot) = Snapshot::glance(&options).await? else { return Ok(None) };
        let (schema, version) = (snapshot.schema_version().await?, snapshot.version().await?);
        let id = if schema > 0 { snapshot.store_id(INSTANCE).await? } else { None };
        if let (Some(note), Some(id)) = (DatabaseNote::read(&config.data_dir)?, id)
            && note.store_id != id
        {
            return Err(StoreError::OtherDatabase {
                folder: config.data_dir.display().to_string(),
                noted: note.place.to_string(),
                given: snapshot.location().to_owned(),
            });
        }
        Ok(Some(Found { place: snapshot.location().to_owned(), version, schema }))
    };
    match looked.await {
        Ok(Some(found)) => (judge(&found, subject), true),
        Ok(None) => (missing(subject), false),
        // Whatever it is, it is there.
        Err(error) => (unusable(&error), config.data_dir.join("plexus.db").exists()),
    }
}

pub(super) fn store_options(config: &Config) -> StoreOptions {
    StoreOptions {
        data_dir: config.data_dir.clone(),
        database_url: config.database_url.clone(),
        durability: config.durability,
        instance_id: INSTANCE.to_owned(),
    }
}

/// A database that this command was not told how to reach: the hub was given its URL, as a flag or a variable.
fn elsewhere(subject: &Subject, options: &StoreOptions, status: Option<&Status>) -> Option<Finding> {
    let config = &subject.config;
    let here = if DatabasePlace::of(options).ok()?.is_sqlite() { "sqlite" } else { "postgresql" };
    if let Some(status) = status.filter(|status| status.database != here) {
        if config.database_url.is_none() {
            let Status { database, database_location, .. } = status;
            let message = format!("{database}: {database_location}, as the running hub says");
            return Some(Finding::ok(CHECK, message));
        }
        let message = format!("the hub's database is {}, that of this configuration {here}", status.database);
        let fix = "run this with the hub's configuration: the same --config or PLEXUS_DATABASE_URL";
        return Some(Finding::problem(CHECK, message, fix));
    }
    let note = DatabaseNote::read(&config.data_dir).ok().flatten()?;
    (config.database_url.is_none() && !note.place.is_sqlite()).then(|| {
        let message = format!("the folder belongs to {}, of which this command has no URL", note.place);
        let fix = "set PLEXUS_DATABASE_URL as it is for the hub, which does not start here without it";
        Finding::warning(CHECK, message, fix)
    })
}

/// A folder with a key and a signed audit had a database: starting on it would begin a new one.
fn missing(subject: &Subject) -> Finding {
    let Config { data_dir, database_url, .. } = &subject.config;
    if database_url.is_none() && ["signing-key", "audit.head"].iter().all(|name| data_dir.join(name).exists())
    {
        let message =
            format!("{} is gone: its key and its audit are there", data_dir.join("plexus.db").display());
        let fix = "put it back, or restore a backup into a new folder: plexus db restore FILE --data-dir DIR";
        return Finding::problem(CHECK, message, fix);
    }
    let message = "there is none yet; the hub makes it when it first starts";
    Finding::warning(CHECK, message, format!("{} up", subject.plexus))
}

struct Found {
    place: String,
    version: String,
    schema: i64,
}

fn judge(found: &Found, subject: &Subject) -> Finding {
    let Found { place, version, schema } = found;
    let known_schema = &Snapshot::NEEDED_SCHEMA;
    if schema > known_schema {
        let message =
            format!("{place} has schema {schema}, newer than the {known_schema} this program knows");
        return Finding::problem(
            CHECK,
            message,
            "install the version of plexus that wrote it, or a newer one",
        );
    }
    if schema < known_schema {
        let message =
            format!("{place} has schema {schema}; the hub brings it to {known_schema} when it starts");
        return Finding::warning(CHECK, message, format!("{} up", subject.plexus));
    }
    Finding::ok(CHECK, format!("{version}, schema {schema}, {place}"))
}

fn unusable(error: &StoreError) -> Finding {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        // One that was quoted by the one above it is not said twice.
        let told = cause.to_string();
        if !message.contains(&told) {
            message.push_str(&format!(": {told}"));
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
