//! `plexus token revoke`: revokes a token and reports which other tokens end with it.

use std::collections::HashSet;
use std::process::ExitCode;

use plexus_proto::TokenId;
use plexus_proto::api::{Token, TokenDetail, TokenKind, TokenState};

use super::find;
use crate::client::{self, Hub};
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::output::Output;

pub(super) async fn run(token: &str, force: bool, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (hub, out) = (invocation.hub()?, &invocation.out);
    let jti = find::find_id(&hub, token, out).await?;
    let id = jti.to_string();
    // Without permission to read the token, it is revoked without the checks below.
    let detail = match hub.get(&["tokens", &id], &[]).await {
        Ok(answer) => Some(answer.decode::<TokenDetail>()?),
        Err(_) => None,
    };
    let descendants = match &detail {
        // Without permission to list tokens, only the total number of children is known.
        Some(TokenDetail { children: children @ 1.., .. }) => {
            live_descendants(&hub, jti, out).await.unwrap_or(usize::try_from(*children).unwrap_or_default())
        }
        _ => 0,
    };
    let is_local = detail.as_ref().is_some_and(is_local_admin);
    if is_local && !force {
        let message = format!(
            "this is the admin token that commands on the hub's machine use{}",
            match descendants {
                0 => String::new(),
                _ => format!("; {} created with it would be revoked too", tokens(descendants)),
            }
        );
        let hint = "pass --force to revoke it anyway; the hub creates a new one when it restarts";
        return Err(Failure::new(Exit::Failed, message).hint(hint).into());
    }
    let answer = hub.delete(&["tokens", &id]).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let token: Token = answer.decode()?;
    out.line(&format!("Revoked {} token {} ({}).", token.kind, token.name, token.jti))?;
    if descendants > 0 {
        out.line(&format!("Also revoked {} created with it.", tokens(descendants)))?;
    }
    if is_local {
        out.note("Restart the hub, which then creates a new admin token.");
    }
    Ok(Exit::Ok.into())
}

/// Whether this is the hub's own admin token: only that one has no parent.
fn is_local_admin(detail: &TokenDetail) -> bool {
    let TokenDetail { token, state, .. } = detail;
    token.kind == TokenKind::Admin && token.parent.is_none() && *state == TokenState::Active
}

/// The number of valid tokens that were created with this token or its descendants.
async fn live_descendants(hub: &Hub, jti: TokenId, out: &Output) -> anyhow::Result<usize> {
    let all = ListArgs { limit: find::MAX_TOKENS, cursor: None };
    let page = listing::fetch(hub, &["tokens"], &[], &all, |_| true).await?;
    let all: Vec<Token> = page.items.iter().map(|raw| client::decode(raw)).collect::<Result<_, _>>()?;
    Ok(descendants(&all, jti).iter().filter(|token| token.state(out.now()).is_alive()).count())
}

fn descendants(all: &[Token], jti: TokenId) -> Vec<&Token> {
    let (mut found, mut known) = (Vec::new(), HashSet::from([jti]));
    loop {
        let before = found.len();
        for token in all {
            if token.parent.is_some_and(|parent| known.contains(&parent)) && known.insert(token.jti) {
                found.push(token);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn tokens(count: usize) -> String {
    if count == 1 { "1 token".to_owned() } else { format!("{count} tokens") }
}
