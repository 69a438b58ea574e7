//! `plexus db`: the database and its copies, on the machine of the hub and without its help.
//!
//! What only reads may be run beside a hub that works. What writes refuses a database that is in use.

pub(super) mod backup;
mod restore;
mod settings;
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
    /// Show what is in the database and which schema it has
    #[command(after_help = "Example:\n  plexus db status --json")]
    Status(Place),
    /// Bring the database to the schema of this version, without starting a hub
    #[command(
        after_help = "`plexus up` does the same when it starts. Make a backup first: there is no way back.\n\n\
Example:\n  plexus db backup before.tar.gz && plexus db migrate"
    )]
    Migrate(Place),
    /// Copy the hub into one file, also while it runs: database, keys, session files, MCP servers, profiles
    #[command(
        after_help = "The file has the keys of the hub in it: whoever has it can make tokens. It is readable by you only.\n\
plexus.toml is not in it, nor are user-defined tools, nor a folder of MCP servers outside of the data folder.\n\
The exit code is 3 when the copy was made but the audit does not verify.\n\n\
Example:\n  plexus db backup /backups/plexus-$(date +%F).tar.gz"
    )]
    Backup(backup::BackupArgs),
    /// Copy the database into one file without keys, to look at or to move to another database
    #[command(after_help = "Example:\n  plexus db export plexus.tar.gz\n  \
tar xzOf plexus.tar.gz tables/sessions/000001.jsonl")]
    Export(backup::BackupArgs),
    /// Fill an empty database from a backup or an export, of the same kind of database or another
    #[command(
        visible_alias = "import",
        after_help = "Everything is restored or nothing. An export has no keys and needs a data folder that has them.\n\n\
Example:\n  plexus db restore backup.tar.gz --data-dir ~/restored\n  \
PLEXUS_DATABASE_URL=postgres://plexus@db.example.net/plexus plexus db restore export.tar.gz"
    )]
    Restore(restore::RestoreArgs),
}

/// Which database.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// Database [env: PLEXUS_DATABASE_URL] [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    database_url: Option<Secret>,
    /// Configuration file [env: PLEXUS_CONFIG] [default: plexus.toml in the data folder, if it is
    /// there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Place {
    /// Whether the database was named on the command line, and not in a file or in the environment.
    pub(super) fn names_database(&self) -> bool {
        self.database_url.is_some()
    }

    /// What a hub started with the same flags would use.
    pub(super) fn options(&self, invocation: &Invocation<'_>) -> anyhow::Result<StoreOptions> {
        Ok(store_options(self.config(invocation)?))
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

/// Fails where the folder belongs to a database that needs a URL, and none was given: a SQLite file that is still there is
/// from before it was moved.
fn check_own(options: &StoreOptions) -> anyhow::Result<()> {
    match DatabaseNote::read(&options.data_dir)? {
        Some(note) if options.database_url.is_none() && !note.place.is_sqlite() => Err(no_database(options)),
        _ => Ok(()),
    }
}

fn store_options(config: Config) -> StoreOptions {
    StoreOptions {
        data_dir: config.data_dir,
        database_url: config.database_url,
        durability: config.durability,
        instance_id: INSTANCE.to_owned(),
    }
}

pub(crate) async fn run(args: DbArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    match args.command {
        DbCommand::Status(place) => status::show(&place, invocation).await,
        DbCommand::Migrate(place) => status::migrate(&place, invocation).await,
        DbCommand::Backup(args) => backup::run(&args, backup::Keys::Included, invocation).await,
        DbCommand::Export(args) => backup::run(&args, backup::Keys::LeftOut, invocation).await,
        DbCommand::Restore(args) => restore::run(&args, invocation).await,
    }
}

fn no_database(options: &StoreOptions) -> anyhow::Error {
    if let Ok(Some(note)) = DatabaseNote::read(&options.data_dir)
        && !note.place.is_sqlite()
    {
        let folder = options.data_dir.display();
        let message =
            format!("the data folder {folder} belongs to {}, and no URL of it was given", note.place);
        let hint = "set PLEXUS_DATABASE_URL, or pass --database-url";
        return Failure::new(Exit::Failed, message).hint(hint).into();
    }
    let message = format!("there is no database in {} yet", options.data_dir.display());
    Failure::new(Exit::Failed, message).hint("`plexus up` makes one; --data-dir names another folder").into()
}
