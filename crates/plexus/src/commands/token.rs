//! `plexus token`: create, list and revoke tokens.
//!
//! A new token is shown once, alone on standard output, so that `TOKEN=$(plexus token create …)`
//! captures exactly it; what there is to say about it goes to standard error.

use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use plexus_proto::api::{CreateTokenParams, CreatedToken, Token, TokenKind};
use plexus_proto::{Timestamp, TokenId};
use serde_json::value::RawValue;

use super::Invocation;
use crate::failure::Exit;
use crate::listing::{self, ListArgs};
use crate::output::one_line;
use crate::{arguments, client};

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Create a token and print it; it cannot be shown again
    #[command(
        after_help = "Example:\n  TOKEN=$(plexus token create --kind agent --name codex --scope call:todo --ttl 30d)"
    )]
    Create(CreateArgs),
    /// List tokens, without the tokens themselves
    #[command(after_help = "Example:\n  plexus token list --all")]
    List {
        /// Also those that were revoked or have expired
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Revoke a token at once, on every hub
    #[command(after_help = "Example:\n  plexus token revoke 01890a5d-ac96-774b-bcce-b302099a8057")]
    Revoke {
        /// Id of the token, from `plexus token list`
        jti: TokenId,
    },
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// Who will hold the token
    #[arg(long, value_parser = kinds())]
    kind: TokenKind,
    /// Name of the holder, such as codex
    #[arg(long)]
    name: String,
    /// Profile that narrows what the holder sees
    #[arg(long)]
    profile: Option<String>,
    /// What the token may do, such as call:todo or read:sessions; may be repeated [default: that of the kind]
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// How long it lives: 15m, 12h, 30d, 1y [default: that of the kind]
    #[arg(long, value_parser = arguments::ttl)]
    ttl: Option<u64>,
}

fn kinds() -> impl TypedValueParser<Value = TokenKind> {
    PossibleValuesParser::new(TokenKind::ALL.map(TokenKind::as_str)).try_map(|kind| kind.parse::<TokenKind>())
}

pub(crate) async fn run(args: TokenArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    match args.command {
        TokenCommand::Create(args) => create(args, invocation).await,
        TokenCommand::List { all, list } => self::list(all, &list, invocation).await,
        TokenCommand::Revoke { jti } => revoke(jti, invocation).await,
    }
}

async fn create(args: CreateArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let CreateArgs { kind, name, profile, scopes, ttl } = args;
    let params = CreateTokenParams { kind, name, profile, scopes, ttl_seconds: ttl };
    let answer = invocation.hub()?.post(&["tokens"], &params, &[]).await?;
    let out = &invocation.out;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let created: CreatedToken = answer.decode()?;
    out.note(&format!("Created {} token {} ({}).", created.kind, created.name, created.jti));
    out.note(&format!("Scopes: {}. Expires {}.", scopes_text(&created.scopes), out.at(created.expires_at)));
    out.note("Keep it now: it is not stored and cannot be shown again.");
    out.line(&created.token)?;
    Ok(Exit::Ok.into())
}

async fn list(all: bool, args: &ListArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let now = out.now();
    // One that does not parse is shown and complained about, not hidden.
    let keep =
        |raw: &RawValue| all || client::decode(raw).map_or(true, |token| state(&token, now) == "active");
    let page = listing::fetch(&invocation.hub()?, &["tokens"], &[], args, keep).await?;
    let row = |token: &Token| {
        vec![
            token.jti.to_string(),
            token.kind.to_string(),
            token.name.clone(),
            token.profile.clone().unwrap_or_else(|| "-".to_owned()),
            scopes_text(&token.scopes),
            out.when(token.created_at),
            out.when(token.expires_at),
            state(token, now).to_owned(),
        ]
    };
    let headers = ["JTI", "KIND", "NAME", "PROFILE", "SCOPES", "CREATED", "EXPIRES", "STATE"];
    let empty = match all {
        true => "No tokens. Make one with `plexus token create --kind agent --name NAME`.",
        false => {
            "No active tokens. Make one with `plexus token create --kind agent --name NAME`; --all shows those \
             that were revoked or have expired."
        }
    };
    listing::show(out, &page, &headers, row, empty)?;
    Ok(Exit::Ok.into())
}

async fn revoke(jti: TokenId, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let answer = invocation.hub()?.delete(&["tokens", &jti.to_string()]).await?;
    let out = &invocation.out;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let token: Token = answer.decode()?;
    out.line(&format!("Revoked {} token {} ({}).", token.kind, token.name, token.jti))?;
    Ok(Exit::Ok.into())
}

fn state(token: &Token, now: Timestamp) -> &'static str {
    match token.revoked_at {
        Some(_) => "revoked",
        None if token.expires_at <= now => "expired",
        None => "active",
    }
}

fn scopes_text(scopes: &[String]) -> String {
    if scopes.is_empty() { "none".to_owned() } else { one_line(&scopes.join(" ")) }
}
