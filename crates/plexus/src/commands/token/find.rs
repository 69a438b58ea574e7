//! The token that a person means: by its id or the end of it, or by its name where that says it.

use plexus_proto::TokenId;
use plexus_proto::api::{Token, TokenState};

use crate::client::{self, Hub};
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::output::Output;
use crate::short_id;

/// Candidates that are named in an error.
const SHOWN: usize = 20;
/// Tokens that are looked at.
pub(super) const MOST: usize = 10_000;

/// The id itself, or that of the only active token of this name.
pub(super) async fn one(hub: &Hub, text: &str, out: &Output) -> anyhow::Result<TokenId> {
    if let Ok(jti) = text.parse() {
        return Ok(jti);
    }
    let is_named = |token: &Token| token.name == text && token.state(out.now()).is_alive();
    let end = short_id::parse_suffix(text);
    let ends = |token: &Token| end.as_ref().is_some_and(|end| token.jti.to_string().ends_with(end));
    let all = ListArgs { limit: MOST, cursor: None };
    let page = listing::fetch(hub, &["tokens"], &[], &all, |raw| {
        client::decode::<Token>(raw).is_ok_and(|token| is_named(&token) || ends(&token))
    })
    .await?;
    let fitting: Vec<Token> = page.items.iter().map(|raw| client::decode(raw)).collect::<Result<_, _>>()?;
    let (mut found, by_end): (Vec<Token>, Vec<Token>) = fitting.into_iter().partition(is_named);
    // A name counts before an id: it may look like one.
    if found.is_empty() {
        match by_end.as_slice() {
            [] => {}
            [token] => return Ok(token.jti),
            several => {
                let line = |token: &Token| format!("{}  {}  {}", token.jti, token.kind, token.name);
                let candidates: Vec<String> = several.iter().map(line).collect();
                return Err(short_id::ambiguous("tokens", text, &candidates).into());
            }
        }
    }
    // One that was replaced and has time left is meant only where there is no other.
    let is_active = |token: &Token| token.state(out.now()) == TokenState::Active;
    if found.iter().any(is_active) {
        found.retain(is_active);
    }
    match heads(&found).as_slice() {
        [token] => Ok(token.jti),
        [] => Err(Failure::new(
            Exit::Failed,
            format!("there is no active token named {text:?}, and none whose id ends like this"),
        )
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
