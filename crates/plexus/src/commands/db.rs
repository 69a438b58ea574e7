//! `plexus db`: the database and its copies, used directly on the hub's machine.
//!
//! Commands that only read can run beside a running hub. Commands that write refuse a database that is in use.

pub(super) mod backup;
mod restore;
mod settings_files;
mod status;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use plexus_hub::INSTANCE;
use plexus_kit::config::RawConfig;
use plexus_kit::{Config, Secret};
use plexus_store::{DatabaseNote, StoreOptions};

use super::Invocation;
use crate::failure::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Debug, Subcommand)]
enum DbCommand {
    /// Show the schema version and the content of the database
    #[command(after_help = "Example:\n  plexus db status --json")]
    Status(DatabaseArgs),
    /// Migrate the database to the schema of this version, without starting a hub
    #[command(
        after_help = "`plexus up` does the same when it starts. Make a backup first: a migration cannot be undone.\n\n\
Example:\n  plexus db backup before.tar.gz && plexus db migrate"
    )]
    Migrate(DatabaseArgs),
    /// Back up the hub, running or not, into one file: database, keys, session files, servers, profiles
    #[command(
        after_help = "The file contains the keys of the hub: anyone who can read it can create tokens. Only you can read it.\n\
It does not contain plexus.toml, user-defined tools, or a folder of MCP servers outside the data folder.\n\
The exit code is 3 if the backup was written but the audit log in it is not intact.\n\n\
Example:\n  plexus db backup /backups/plexus-$(date +%F).tar.gz"
    )]
    Backup(backup::BackupArgs),
    /// Export the database into one file without keys, to inspect it or to move to another database
    #[command(after_help = "Example:\n  plexus db export plexus.tar.gz\n  \
tar xzOf plexus.tar.gz tables/sessions/000001.jsonl")]
    Export(backup::BackupArgs),
    /// Restore a backup or an export into an empty database, SQLite or PostgreSQL
    #[command(
        visible_alias = "import",
        after_help = "Either everything is restored or nothing. An export contains no keys and needs a data folder that has them.\n\n\
Example:\n  plexus db restore backup.tar.gz --data-dir ~/restored\n  \
PLEXUS_DATABASE_URL=postgres://plexus@db.example.net/plexus plexus db restore export.tar.gz"
    )]
    Restore(restore::RestoreArgs),
}

/// Selects a database.
#[derive(Debug, Args)]
pub(super) struct DatabaseArgs {
    /// Database [env: PLEXUS_DATABASE_URL] [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    database_url: Option<Secret>,
    /// Configuration file [env: PLEXUS_CONFIG] [default: plexus.toml in the data folder, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl DatabaseArgs {
    /// Whether the command line names the database.
    pub(super) fn names_database(&self) -> bool {
        self.database_url.is_some()
    }

    /// The options that a hub started with the same flags would use.
    pub(super) fn options(&self, invocation: &Invocation<'_>) -> anyhow::Result<StoreOptions> {
        Ok(store_options(&self.config(invocation)?))
    }

    fn config(&self, invocation: &Invocation<'_>) -> anyhow::Result<Config> {
        let flags = RawConfig {
            data_dir: invocation.data_dir().map(PathBuf::from),
            database_url: self.database_url.clone(),
            ..RawConfig::default()
        };
        Config::load(self.config.as_deref(), invocation.environment(), flags)
            .map_err(|error| Failure::new(Exit::Usage, error.to_string()).into())
    }
}

/// Selects the database that the folder belongs to. Fails if that needs a URL and none was given; a SQLite file in such a
/// folder is from before the move.
fn existing_database(options: StoreOptions) -> anyhow::Result<StoreOptions> {
    match DatabaseNote::read(&options.data_dir)? {
        Some(note) if options.database_url.is_none() && !note.location.is_sqlite() => {
            Err(no_database(&options))
        }
        _ => Ok(options.with_noted_database()?),
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

pub(crate) async fn run(args: DbArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    match args.command {
        DbCommand::Status(args) => status::show(&args, invocation).await,
        DbCommand::Migrate(args) => status::migrate(&args, invocation).await,
        DbCommand::Backup(args) => backup::run(&args, backup::ArchiveKeys::Included, invocation).await,
        DbCommand::Export(args) => backup::run(&args, backup::ArchiveKeys::Excluded, invocation).await,
        DbCommand::Restore(args) => restore::run(&args, invocation).await,
    }
}

fn no_database(options: &StoreOptions) -> anyhow::Error {
    let folder = options.data_dir.display();
    if let Ok(Some(note)) = DatabaseNote::read(&options.data_dir) {
        let (why, hint) = match note.location.is_sqlite() {
            true => ("which does not exist", "put it back, or restore a backup into a new folder"),
            false => ("but its URL was not given", "set PLEXUS_DATABASE_URL, or pass --database-url"),
        };
        let message = format!("the data folder {folder} belongs to {}, {why}", note.location);
        return Failure::new(Exit::Failed, message).hint(hint).into();
    }
    let message = format!("there is no database in {folder} yet");
    Failure::new(Exit::Failed, message)
        .hint("`plexus up` creates one; --data-dir selects another folder")
        .into()
}
