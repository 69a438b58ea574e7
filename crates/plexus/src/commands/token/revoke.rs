//! `plexus token revoke`: ends a token, and says what ends with it.

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
    let jti = find::one(&hub, token, out).await?;
    let id = jti.to_string();
    // Who may revoke a token but not look at it revokes it without more ado.
    let detail = match hub.get(&["tokens", &id], &[]).await {
        Ok(answer) => Some(answer.decode::<TokenDetail>()?),
        Err(_) => None,
    };
    let ending = match &detail {
        // Who may not see the others learns only how many there ever were.
        Some(TokenDetail { children: children @ 1.., .. }) => {
            made_from(&hub, jti, out).await.unwrap_or(usize::try_from(*children).unwrap_or_default())
        }
        _ => 0,
    };
    let is_local = detail.as_ref().is_some_and(is_local_admin);
    if is_local && !force {
        let message = format!(
            "this is the admin token with which commands on the hub's machine reach it{}",
            match ending {
                0 => String::new(),
                _ => format!("; {} made from it would end as well", tokens(ending)),
            }
        );
        let hint = "pass --force to revoke it all the same; the hub makes a new one when it is restarted";
        return Err(Failure::new(Exit::Failed, message).hint(hint).into());
    }
    let answer = hub.delete(&["tokens", &id]).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let token: Token = answer.decode()?;
    out.line(&format!("Revoked {} token {} ({}).", token.kind, token.name, token.jti))?;
    if ending > 0 {
        out.line(&format!("With it ended {} made from it.", tokens(ending)))?;
    }
    if is_local {
        out.note("Restart the hub: it makes a new admin token when it starts.");
    }
    Ok(Exit::Ok.into())
}

/// Every other token was made with one that was there before.
fn is_local_admin(detail: &TokenDetail) -> bool {
    let TokenDetail { token, state, .. } = detail;
    token.kind == TokenKind::Admin && token.parent.is_none() && *state == TokenState::Active
}

/// How many tokens that are alive were made from this one, by it or by one it made.
async fn made_from(hub: &Hub, jti: TokenId, out: &Output) -> anyhow::Result<usize> {
    let all = ListArgs { limit: find::MOST, cursor: None };
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
