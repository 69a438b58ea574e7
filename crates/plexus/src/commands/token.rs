//! `plexus token`: creates, lists, rotates and revokes tokens.
//!
//! A new token is printed once, alone on standard output, so that `TOKEN=$(plexus token create …)` captures it. Its
//! description goes to standard error.

mod find;
mod revoke;

use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use plexus_proto::Timestamp;
use plexus_proto::api::{CreateTokenParams, CreatedToken, RotateTokenParams, Token, TokenDetail, TokenKind};
use serde_json::value::RawValue;

use super::Invocation;
use crate::client::{Answer, Hub};
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::output::{Column, one_line};
use crate::{arguments, client, shell};

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Create a token and print it once
    #[command(
        after_help = "Example:\n  TOKEN=$(plexus token create --kind agent --name codex --scope call:todo --ttl 30d)"
    )]
    Create(CreateArgs),
    /// List tokens without their secrets
    #[command(after_help = "Example:\n  plexus token list --all")]
    List {
        /// Include revoked and expired tokens
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show the details of a token
    #[command(after_help = "Example:\n  plexus token show codex")]
    Show {
        /// Id of the token, its last characters, or its name if only one active token has it [default: the token in
        /// use]
        token: Option<String>,
    },
    /// Replace a token and print the new one
    #[command(
        after_help = "The new token has the same kind, name, scopes, profile and lifetime. The old token and its renewals \
end, after --grace if it is given. Other tokens created with it stay valid.\n\n\
Example:\n  TOKEN=$(plexus token rotate codex --grace 10m)"
    )]
    Rotate {
        /// Id of the token or the end of it, or its name where only one active token has it
        token: String,
        /// How long the old token stays valid: 30s, 10m, 1d [default: revoked immediately]
        #[arg(long, value_name = "TIME", value_parser = arguments::span)]
        grace: Option<u64>,
    },
    /// Print a new token like the one in PLEXUS_TOKEN, which stays valid until it expires
    #[command(after_help = "Example:\n  TOKEN=$(PLEXUS_TOKEN=$TOKEN plexus token renew)")]
    Renew,
    /// Revoke a token and the tokens created with it, immediately and on all hubs
    #[command(after_help = "Example:\n  plexus token revoke 099a8057")]
    Revoke {
        /// Id of the token or the end of it, or its name where only one active token has it
        token: String,
        /// Revoke it even if it is the admin token that commands on the hub's machine use
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// Kind of the token's holder
    #[arg(long, value_parser = kinds())]
    kind: TokenKind,
    /// Name of the holder, such as codex
    #[arg(long)]
    name: String,
    /// Profile that restricts the visible tools. `plexus profile list` lists the built-in profiles and those in
    /// profiles/ of the data folder [default: none]
    #[arg(long)]
    profile: Option<String>,
    /// Default machine for its calls. `plexus node list` lists the machines [default: local]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Permission, such as call:todo or read:sessions (repeatable) [default: the scopes of the kind]
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Lifetime: 15m, 12h, 30d, 1y [default: the lifetime of the kind]
    #[arg(long, value_parser = arguments::ttl)]
    ttl: Option<u64>,
    /// How long the token can be renewed: 90d, 1y, or 0 to disable renewal [default: 90d for agent and node, else 0]
    #[arg(long, value_name = "TIME", value_parser = arguments::span)]
    renew_for: Option<u64>,
}

fn kinds() -> impl TypedValueParser<Value = TokenKind> {
    // Nodes get their token when they join.
    let kinds = TokenKind::ALL.into_iter().filter(|kind| *kind != TokenKind::Node);
    PossibleValuesParser::new(kinds.map(TokenKind::as_str)).try_map(|kind| kind.parse::<TokenKind>())
}

pub(crate) async fn run(args: TokenArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    match args.command {
        TokenCommand::Create(args) => create(args, invocation).await,
        TokenCommand::List { all, list } => self::list(all, &list, invocation).await,
        TokenCommand::Show { token } => show(token.as_deref(), invocation).await,
        TokenCommand::Rotate { token, grace } => rotate(&token, grace, invocation).await,
        TokenCommand::Renew => {
            let answer = invocation.hub()?.post(&["tokens", "renew"], &(), &[]).await?;
            print_new("Renewed", &answer, invocation)
        }
        TokenCommand::Revoke { token, force } => revoke::run(&token, force, invocation).await,
    }
}

async fn create(args: CreateArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let CreateArgs { kind, name, profile, node, scopes, ttl, renew_for } = args;
    let params =
        CreateTokenParams { kind, name, profile, node, scopes, ttl_seconds: ttl, renew_seconds: renew_for };
    let hub = invocation.hub()?;
    let answer = match hub.post(&["tokens"], &params, &[]).await {
        Ok(answer) => answer,
        Err(error) => return Err(with_suggestion(&hub, error, params.profile.as_deref()).await),
    };
    print_new("Created", &answer, invocation)
}

/// Suggests a profile with a similar name, because an unknown profile is most likely misspelled.
async fn with_suggestion(hub: &Hub, error: anyhow::Error, profile: Option<&str>) -> anyhow::Error {
    let mut failure = match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => return error,
    };
    if let Some(profile) = profile.filter(|_| failure.exit == Exit::Failed)
        && let Some(similar) = listing::did_you_mean(hub, "profiles", "id", profile).await
        && similar != profile
    {
        failure.hint = Some(format!("did you mean --profile {}?", shell::name(&one_line(&similar))));
    }
    failure.into()
}

/// Prints the token on standard output and its description on standard error.
fn print_new(done: &str, answer: &Answer, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let created: CreatedToken = answer.decode()?;
    out.note(&format!("{done} {} token {} ({}).", created.kind, created.name, created.jti));
    out.note(&format!("Scopes: {}. Expires {}.", scopes_text(&created.scopes), out.at(created.expires_at)));
    if let Some(profile) = &created.profile {
        out.note(&format!("Profile: {}.", one_line(profile)));
    }
    if let Some(until) = created.renew_until {
        out.note(&format!("Can be renewed until {}.", out.at(until)));
    }
    out.note("Save the token now: it is not stored and cannot be shown again.");
    out.line(&created.token)?;
    Ok(Exit::Ok.into())
}

async fn list(all: bool, args: &ListArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let now = out.now();
    // A token that does not parse is kept, so that it causes an error instead of being hidden.
    let keep =
        |raw: &RawValue| all || client::decode(raw).map_or(true, |token: Token| token.state(now).is_alive());
    let page = listing::fetch(&invocation.hub()?, &["tokens"], &[], args, keep).await?;
    let row = |token: &Token| {
        vec![
            token.jti.to_string(),
            token.kind.to_string(),
            token.name.clone(),
            token.profile.clone().unwrap_or_else(|| "-".to_owned()),
            scopes_text(&token.scopes),
            out.when(token.created_at),
            out.when(ends(token)),
            token.last_used_at.map_or_else(|| "never".to_owned(), |at| out.when(at)),
            token.state(now).as_str().to_owned(),
        ]
    };
    let columns = [
        Column::id("JTI"),
        Column::whole("KIND"),
        Column::new("NAME"),
        Column::new("PROFILE").rank(2),
        Column::new("SCOPES").rank(1),
        Column::whole("CREATED").rank(3),
        Column::whole("EXPIRES"),
        Column::whole("LAST USED"),
        Column::whole("STATE"),
    ];
    let empty = match all {
        true => "No tokens. Create one with `plexus token create --kind agent --name NAME`.",
        false => {
            "No active tokens. Create one with `plexus token create --kind agent --name NAME`, or list revoked and \
             expired tokens with --all."
        }
    };
    listing::show(out, &page, &columns, row, empty)?;
    Ok(Exit::Ok.into())
}

async fn show(token: Option<&str>, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (hub, out) = (invocation.hub()?, &invocation.out);
    let id = match token {
        Some(token) => find::find_id(&hub, token, out).await?.to_string(),
        None => "self".to_owned(),
    };
    let answer = hub.get(&["tokens", &id], &[]).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let TokenDetail { token, state, children } = answer.decode()?;
    let ends = out.at(ends(&token));
    let or = |value: Option<String>, none: &str| value.unwrap_or_else(|| none.to_owned());
    out.fields(&[
        ("token", token.jti.to_string()),
        ("kind", token.kind.to_string()),
        ("name", token.name),
        ("state", state.as_str().to_owned()),
        ("scopes", scopes_text(&token.scopes)),
        ("profile", or(token.profile, "-")),
        ("parent", or(token.parent.map(|parent| parent.to_string()), "-")),
        ("children", children.to_string()),
        ("created", out.at(token.created_at)),
        ("last used", or(token.last_used_at.map(|at| out.at(at)), "never")),
        ("ends", ends),
        ("renewable until", or(token.renew_until.map(|at| out.at(at)), "-")),
    ])?;
    Ok(Exit::Ok.into())
}

async fn rotate(token: &str, grace: Option<u64>, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let hub = invocation.hub()?;
    let jti = find::find_id(&hub, token, &invocation.out).await?.to_string();
    let params = RotateTokenParams { grace_seconds: grace };
    let answer = hub.post(&["tokens", &jti, "rotate"], &params, &[]).await?;
    print_new("Created replacement:", &answer, invocation)
}

/// The time until which the token is accepted. A replaced or revoked token ends before its expiry.
fn ends(token: &Token) -> Timestamp {
    token.revoked_at.map_or(token.expires_at, |revoked| revoked.min(token.expires_at))
}

fn scopes_text(scopes: &[String]) -> String {
    if scopes.is_empty() { "none".to_owned() } else { one_line(&scopes.join(" ")) }
}
