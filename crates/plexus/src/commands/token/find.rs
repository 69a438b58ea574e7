//! The token that a person means: by its id, or by its name where that says it.

use plexus_proto::TokenId;
use plexus_proto::api::{Token, TokenState};

use crate::client::{self, Hub};
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::output::Output;

/// Candidates that are named in an error.
const SHOWN: usize = 20;
/// Tokens that are looked at.
pub(super) const MOST: usize = 10_000;

/// The id itself, or that of the only active token of this name.
pub(super) async fn one(hub: &Hub, text: &str, out: &Output) -> anyhow::Result<TokenId> {
    if let Ok(jti) = text.parse() {
        return Ok(jti);
    }
    let alive = |token: &Token| token.name == text && token.state(out.now()).is_alive();
    let all = ListArgs { limit: MOST, cursor: None };
    let page = listing::fetch(hub, &["tokens"], &[], &all, |raw| {
        client::decode::<Token>(raw).is_ok_and(|token| alive(&token))
    })
    .await?;
    let mut found: Vec<Token> = page.items.iter().map(|raw| client::decode(raw)).collect::<Result<_, _>>()?;
    // One that was replaced and has time left is meant only where there is no other.
    let is_active = |token: &Token| token.state(out.now()) == TokenState::Active;
    if found.iter().any(is_active) {
        found.retain(is_active);
    }
    match heads(&found).as_slice() {
        [token] => Ok(token.jti),
        [] => Err(Failure::new(Exit::Failed, format!("there is no active token named {text:?}"))
            .hint("`plexus token list` shows the active ones")
            .into()),
        several => Err(ambiguous(text, several, out).into()),
    }
}

/// Those that are not the child of another: a token and its renewals are one.
fn heads(found: &[Token]) -> Vec<&Token> {
    let is_child =
        |token: &Token| found.iter().any(|other| token.parent == Some(other.jti) && token.kind == other.kind);
    found.iter().filter(|token| !is_child(token)).collect()
}

fn ambiguous(text: &str, found: &[&Token], out: &Output) -> Failure {
    let mut message = format!("{} active tokens are named {text:?}:", found.len());
    for token in found.iter().take(SHOWN) {
        message.push_str(&format!(
            "\n  {}  {}  created {}  ends {}",
            token.jti,
            token.kind,
            out.when(token.created_at),
            out.when(super::ends(token)),
        ));
    }
    if found.len() > SHOWN {
        message.push_str(&format!("\n  and {} more", found.len() - SHOWN));
    }
    Failure::new(Exit::Failed, message).hint("say which one by its id")
}
