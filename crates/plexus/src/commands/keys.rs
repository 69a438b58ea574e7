//! `plexus keys`: lists and rotates the keys that sign tokens.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use plexus_proto::api::{Key, KeyState, Page, RotateKeysParams, RotatedKey};

use super::Invocation;
use crate::arguments;
use crate::failure::Exit;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// List the current signing key and the former ones
    #[command(after_help = "Example:\n  plexus keys list")]
    List,
    /// Replace the signing key with a new one
    #[command(
        after_help = "Tokens of the old key are accepted until the overlap ends. Renew or replace the ones you \
still need before then. The admin token of this machine is replaced at once.\n\n\
Example:\n  plexus keys rotate\n  plexus keys rotate --overlap 0           # the key has leaked: reject it now"
    )]
    Rotate {
        /// How long tokens of the old key are accepted: 0, 15m, 12h, 7d [default: that of the hub, 24h]
        #[arg(long, value_name = "TIME", value_parser = arguments::span)]
        overlap: Option<u64>,
    },
    /// End the overlap of a former key now; its tokens are no longer accepted
    #[command(after_help = "Example:\n  plexus keys retire 0123456789abcdef")]
    Retire {
        /// Id of the key, from `plexus keys list`
        kid: String,
    },
}

pub(crate) async fn run(args: KeysArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (hub, out) = (invocation.hub()?, &invocation.out);
    let response = match &args.command {
        KeysCommand::List => hub.get(&["keys"], &[]).await?,
        KeysCommand::Rotate { overlap } => {
            let params = RotateKeysParams { overlap_seconds: *overlap };
            hub.post(&["keys", "rotate"], &params, &[]).await?
        }
        KeysCommand::Retire { kid } => hub.post(&["keys", kid, "retire"], &(), &[]).await?,
    };
    if out.json() {
        out.json_line(response.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    match args.command {
        KeysCommand::List => list(out, &response.decode::<Page<Key>>()?.items)?,
        KeysCommand::Rotate { .. } => {
            let RotatedKey { key, replaces } = response.decode()?;
            out.line(&format!("The new signing key is {}.", key.kid))?;
            match replaces.verifies_until {
                Some(until) if replaces.state == KeyState::Retiring => out.note(&format!(
                    "Tokens of the key {} are accepted until {}. Renew or replace the ones you still need.",
                    replaces.kid,
                    out.at(until),
                )),
                _ => out.note(&format!("Tokens of the key {} are no longer accepted.", replaces.kid)),
            }
        }
        KeysCommand::Retire { .. } => {
            let key: Key = response.decode()?;
            out.line(&format!("Retired the key {}: its tokens are no longer accepted.", key.kid))?;
        }
    }
    Ok(Exit::Ok.into())
}

fn list(out: &Output, keys: &[Key]) -> anyhow::Result<()> {
    let rows = keys.iter().map(|key| {
        vec![
            key.kid.clone(),
            key.state.as_str().to_owned(),
            out.when(key.created_at),
            key.verifies_until.map_or_else(|| "-".to_owned(), |until| out.when(until)),
        ]
    });
    out.table(&["KEY", "STATE", "CREATED", "VERIFIES UNTIL"], rows.collect())
}
