//! Finds a token by its id, the last characters of its id, or its name.

use plexus_proto::TokenId;
use plexus_proto::api::{Token, TokenState};

use crate::client::{self, Hub};
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::output::Output;
use crate::short_id;

/// Maximum number of candidates listed in an error.
const MAX_CANDIDATES: usize = 20;
/// Maximum number of tokens to search.
pub(super) const MAX_TOKENS: usize = 10_000;

/// Resolves an id, an id suffix or a name to a token id.
pub(super) async fn find_id(hub: &Hub, text: &str, out: &Output) -> anyhow::Result<TokenId> {
    if let Ok(jti) = text.parse() {
        return Ok(jti);
    }
    let is_named = |token: &Token| token.name == text && token.state(out.now()).is_alive();
    let suffix = short_id::parse_suffix(text);
    let has_suffix =
        |token: &Token| suffix.as_ref().is_some_and(|suffix| token.jti.to_string().ends_with(suffix));
    let all = ListArgs { limit: MAX_TOKENS, cursor: None };
    let page = listing::fetch(hub, &["tokens"], &[], &all, |raw| {
        client::decode::<Token>(raw).is_ok_and(|token| is_named(&token) || has_suffix(&token))
    })
    .await?;
    let matches: Vec<Token> = page.items.iter().map(|raw| client::decode(raw)).collect::<Result<_, _>>()?;
    let (mut found, by_suffix): (Vec<Token>, Vec<Token>) = matches.into_iter().partition(is_named);
    // Names take precedence, because a name can look like an id suffix.
    if found.is_empty() {
        match by_suffix.as_slice() {
            [] => {}
            [token] => return Ok(token.jti),
            several => {
                let line = |token: &Token| format!("{}  {}  {}", token.jti, token.kind, token.name);
                let candidates: Vec<String> = several.iter().map(line).collect();
                return Err(short_id::ambiguous("tokens", text, &candidates).into());
            }
        }
    }
    // A replaced token in its grace period is only a candidate if no active token has the name.
    let is_active = |token: &Token| token.state(out.now()) == TokenState::Active;
    if found.iter().any(is_active) {
        found.retain(is_active);
    }
    match without_renewals(&found).as_slice() {
        [token] => Ok(token.jti),
        [] => Err(Failure::new(
            Exit::Failed,
            format!("no active token is named {text:?}, and no token id ends with it"),
        )
        .hint("`plexus token list` lists the active tokens")
        .into()),
        several => Err(ambiguous(text, several, out).into()),
    }
}

/// The tokens that are not renewals of another token: a token and its renewals count as one.
fn without_renewals(found: &[Token]) -> Vec<&Token> {
    let is_child =
        |token: &Token| found.iter().any(|other| token.parent == Some(other.jti) && token.kind == other.kind);
    found.iter().filter(|token| !is_child(token)).collect()
}

fn ambiguous(text: &str, found: &[&Token], out: &Output) -> Failure {
    let mut message = format!("{} active tokens are named {text:?}:", found.len());
    for token in found.iter().take(MAX_CANDIDATES) {
        message.push_str(&format!(
            "\n  {}  {}  created {}  ends {}",
            token.jti,
            token.kind,
            out.when(token.created_at),
            out.when(super::ends(token)),
        ));
    }
    if found.len() > MAX_CANDIDATES {
        message.push_str(&format!("\n  and {} more", found.len() - MAX_CANDIDATES));
    }
    Failure::new(Exit::Failed, message).hint("select one by its id")
}
