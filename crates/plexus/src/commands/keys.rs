//! `plexus keys`: the keys that sign tokens.

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
    /// List the keys: the one that signs, and those that did before it
    #[command(after_help = "Example:\n  plexus keys list")]
    List,
    /// Let a new key sign from now on
    #[command(
        after_help = "Tokens of the old key are accepted until the overlap ends. By then, renew or replace those that \
should go on. The admin token of this machine is replaced at once.\n\n\
Example:\n  plexus keys rotate\n  plexus keys rotate --overlap 0           # the key has leaked: end it now"
    )]
    Rotate {
        /// How long tokens of the old key are still accepted: 0, 15m, 12h, 7d [default: that of the hub, 24h]
        #[arg(long, value_name = "TIME", value_parser = arguments::span)]
        overlap: Option<u64>,
    },
    /// End the overlap of a former key now; no token of it is accepted any more
    #[command(after_help = "Example:\n  plexus keys retire 0123456789abcdef")]
    Retire {
        /// Id of the key, from `plexus keys list`
        kid: String,
    },
}

pub(crate) async fn run(args: KeysArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (hub, out) = (invocation.hub()?, &invocation.out);
    let answer = match &args.command {
        KeysCommand::List => hub.get(&["keys"], &[]).await?,
        KeysCommand::Rotate { overlap } => {
            let params = RotateKeysParams { overlap_seconds: *overlap };
            hub.post(&["keys", "rotate"], &params, &[]).await?
        }
        KeysCommand::Retire { kid } => hub.post(&["keys", kid, "retire"], &(), &[]).await?,
    };
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    match args.command {
        KeysCommand::List => list(out, &answer.decode::<Page<Key>>()?.items)?,
        KeysCommand::Rotate { .. } => {
            let RotatedKey { key, replaces } = answer.decode()?;
            out.line(&format!("The key {} signs from now on.", key.kid))?;
            match replaces.verifies_until {
                Some(until) if replaces.state == KeyState::Retiring => out.note(&format!(
                    "Tokens of the key {} are accepted until {}. Renew or replace those that should go on.",
                    replaces.kid,
                    out.at(until),
                )),
                _ => out.note(&format!("No token of the key {} is accepted any more.", replaces.kid)),
            }
        }
        KeysCommand::Retire { .. } => {
            let key: Key = answer.decode()?;
            out.line(&format!("Retired the key {}: no token of it is accepted any more.", key.kid))?;
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
