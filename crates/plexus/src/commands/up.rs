//! `plexus up`: becomes the hub.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use plexus_kit::{Environment, Secret};

/// Start the hub on this machine and run it until it is told to stop
#[derive(Debug, Args)]
#[command(after_help = "Flags win over the environment, which wins over the configuration file.\n\n\
Example:\n  plexus up --data-dir ~/plexus --listen 127.0.0.1:7420")]
pub(crate) struct UpArgs {
    /// Data folder: database, keys, admin token [env: PLEXUS_DATA_DIR] [default:
    /// ~/.local/share/plexus]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address to listen on [env: PLEXUS_LISTEN] [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Database; put a URL with a password into the variable instead, where other users do not
    /// see it [env: PLEXUS_DATABASE_URL] [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Option<Secret>,
    /// Configuration file [env: PLEXUS_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// A stub: the composition of the hub comes with the hub.
pub(crate) async fn run(_args: UpArgs, _environment: &Environment) -> anyhow::Result<ExitCode> {
    anyhow::bail!("this build has no hub yet")
}
