//! `plexus cp`: files and folders to and from other machines.
//!
//! Everything goes through the hub as calls of the tool `transfer`, so scopes, the audit and the policy of the machine hold
//! for it. A file is complete and compared before it is in its place, on either side; what was interrupted goes on where it
//! stopped when the same command is run again.

mod down;
mod endpoint;
mod local;
mod told;
mod tree;
mod up;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use self::endpoint::Endpoint;
use self::told::Told;
use super::Invocation;
use crate::arguments;
use crate::failure::{Exit, Failure};
use crate::remote::Remote;

/// Parts of a file that are on their way at once.
const PARTS: usize = 8;
/// Files of a folder that are on their way at once.
const FILES: usize = 4;

const AFTER_HELP: &str = "\
One side is on a node: NODE:PATH, where NODE is a name, an id or a label such as role=nas. A path
there that does not begin with / or ~/ is in the working folder of the node (see `plexus node
policy`), ~/ is the home folder of its user. A file here whose name has a colon is written ./a:b.
A target that ends with / is a folder, and is made if it does not exist.

Mode and time of files are kept; links are left out. A file is in its place when it is complete
and its hash was compared. What was interrupted goes on where it stopped when the same command
is run again.

The token needs call:transfer and node:NODE.

Example:
  plexus cp photo.jpg nas:photos/
  plexus cp -r nas:/srv/backup ./backup
  plexus cp --force nas:~/.config/app.toml .";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CpArgs {
    /// What to copy: PATH or NODE:PATH
    from: String,
    /// Where to: NODE:PATH or PATH; into it, if it is a folder or ends with /
    to: String,
    /// Copy folders with all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// Replace files that are there
    #[arg(short, long)]
    force: bool,
    /// How long to wait for a hub or a node that went away
    #[arg(long, value_name = "TIME", value_parser = arguments::span, default_value = "5m")]
    timeout: u64,
}

/// What a copy is to do about what is there.
#[derive(Debug, Clone, Copy)]
struct Wish {
    recursive: bool,
    force: bool,
}

pub(crate) async fn run(args: CpArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (from, to) = (Endpoint::parse(&args.from)?, Endpoint::parse(&args.to)?);
    let wish = Wish { recursive: args.recursive, force: args.force };
    let told = Told::new(invocation.out.json());
    let remote = |node: &str| -> anyhow::Result<Remote> {
        let bar = told.bar();
        let patience = Duration::from_secs(args.timeout);
        Ok(Remote::new(invocation.hub()?, node, patience).telling(move |words| bar.remark(words)))
    };
    let copy = async {
        match (from, to) {
            (Endpoint::Here(from), Endpoint::There { node, path }) => {
                let remote = remote(&node)?;
                tree::upload(&remote, &from, &path, wish, &told, &invocation.out).await
            }
            (Endpoint::There { node, path }, Endpoint::Here(to)) => {
                let remote = remote(&node)?;
                tree::download(&remote, &path, &to, wish, &told, &invocation.out).await
            }
            (Endpoint::Here(_), Endpoint::Here(_)) => {
                Err(Failure::new(Exit::Usage, "both sides are on this machine")
                    .hint("name the node of one of them: NODE:PATH; for copies on this machine there is cp")
                    .into())
            }
            (Endpoint::There { .. }, Endpoint::There { .. }) => {
                Err(Failure::new(Exit::Usage, "files are not copied from one node to another directly")
                    .hint("copy them to this machine first, and from here to the other node")
                    .into())
            }
        }
    };
    let failed = tokio::select! {
        failed = copy => failed?,
        _ = tokio::signal::ctrl_c() => {
            told.end();
            return Err(Failure::new(Exit::Interrupted, "the copy was interrupted")
                .hint("run the same command again: it goes on where it stopped")
                .into());
        }
    };
    told.summary()?;
    Ok(failed.unwrap_or(Exit::Ok).into())
}

/// The last part of a path, by which it is known in another folder.
fn name_of(path: &str) -> anyhow::Result<String> {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match name {
        "" | "." | ".." | "~" => Err(Failure::new(Exit::Usage, format!("{path:?} has no name of its own"))
            .hint("say by which name it is to go at the other end")
            .into()),
        name => Ok(name.to_owned()),
    }
}

/// A path here as text: what is none cannot be said in a call.
fn text(path: &std::path::Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("the name of {} is no UTF-8", path.display()))
            .hint("rename it, or pack it with tar")
            .into()
    })
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}
