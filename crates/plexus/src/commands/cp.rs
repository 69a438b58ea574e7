//! `plexus cp`: copies files and folders to and from other machines.
//!
//! Everything goes through the hub as calls of the tool `transfer`, so scopes, the audit and the policy of the machine
//! apply. On either side, a file is renamed to its target only after it is complete and its hash was compared. When the same
//! command runs again, an interrupted copy resumes.

mod download;
mod endpoint;
mod local;
mod report;
mod transfer;
mod tree;
mod upload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use self::endpoint::CopyEndpoint;
use self::report::CopyReport;
use super::Invocation;
use crate::arguments;
use crate::failure::{Exit, Failure};
use crate::remote::Remote;

/// Parts of one file in flight.
const PARTS: usize = 8;
/// Files of a folder copied concurrently.
const FILES: usize = 4;

const AFTER_HELP: &str = "\
One side is on a node: NODE:PATH, where NODE is a name, an id or a label such as role=nas. A path
there that does not begin with / or ~/ is relative to the working folder of the node (see `plexus
node policy`); ~/ is the home folder of its user. Write ./a:b for a local file with a colon in its
name. A target that ends with / is a folder, and is created if it does not exist.

Mode and modification time are kept; symlinks are skipped. A file gets its name only when it is
complete and its hash was compared. To resume an interrupted copy, run the same command again.

The token needs call:transfer and node:NODE.

Example:
  plexus cp photo.jpg nas:photos/
  plexus cp -r nas:/srv/backup ./backup
  plexus cp --force nas:~/.config/app.toml .";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CpArgs {
    /// Source: PATH or NODE:PATH
    from: String,
    /// Target: NODE:PATH or PATH; a folder if it is one or ends with /
    to: String,
    /// Copy folders and everything in them
    #[arg(short, long)]
    recursive: bool,
    /// Replace existing files
    #[arg(short, long)]
    force: bool,
    /// How long to wait for a hub or a node that becomes unreachable after the start
    #[arg(long, value_name = "TIME", value_parser = arguments::span, default_value = "5m")]
    timeout: u64,
}

/// Options of a copy.
#[derive(Debug, Clone, Copy)]
struct CopyOptions {
    recursive: bool,
    force: bool,
}

pub(crate) async fn run(args: CpArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (from, to) = (CopyEndpoint::parse(&args.from)?, CopyEndpoint::parse(&args.to)?);
    let options = CopyOptions { recursive: args.recursive, force: args.force };
    let report = CopyReport::new(invocation.out.json());
    let remote = |node: &str| -> anyhow::Result<Remote> {
        let bar = report.bar();
        let patience = Duration::from_secs(args.timeout);
        Ok(Remote::new(invocation.hub()?, node, patience).on_notice(move |words| bar.note(words)))
    };
    let copy = async {
        match (from, to) {
            (CopyEndpoint::Local(from), CopyEndpoint::Remote { node, path }) => {
                let remote = remote(&node)?;
                tree::upload(&remote, &from, &path, options, &report, &invocation.out).await
            }
            (CopyEndpoint::Remote { node, path }, CopyEndpoint::Local(to)) => {
                let remote = remote(&node)?;
                tree::download(&remote, &path, &to, options, &report, &invocation.out).await
            }
            (CopyEndpoint::Local(_), CopyEndpoint::Local(_)) => {
                Err(Failure::new(Exit::Usage, "both sides are on this machine")
                    .hint("name the node of one of them as NODE:PATH; to copy on this machine, use cp")
                    .into())
            }
            (CopyEndpoint::Remote { .. }, CopyEndpoint::Remote { .. }) => {
                Err(Failure::new(Exit::Usage, "cannot copy files from one node to another directly")
                    .hint("copy them to this machine first, then to the other node")
                    .into())
            }
        }
    };
    let failed = tokio::select! {
        failed = copy => failed?,
        _ = tokio::signal::ctrl_c() => {
            report.end();
            return Err(Failure::new(Exit::Interrupted, "the copy was interrupted")
                .hint("to resume it, run the same command again")
                .into());
        }
    };
    report.summary()?;
    Ok(failed.unwrap_or(Exit::Ok).into())
}

/// The last component of a path, used as the name in the target folder.
fn name_of(path: &str) -> anyhow::Result<String> {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match name {
        "" | "." | ".." | "~" => Err(Failure::new(Exit::Usage, format!("{path:?} has no file name"))
            .hint("name the file or folder in the target path")
            .into()),
        name => Ok(name.to_owned()),
    }
}

/// A local path as text, because a call cannot contain other bytes.
fn text(path: &std::path::Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("the name of {} is not UTF-8", path.display()))
            .hint("rename it, or pack it with tar")
            .into()
    })
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}
