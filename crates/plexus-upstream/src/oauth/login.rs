//! Logins in progress: started here, decided by a person in a browser, completed here.
//!
//! Pending logins stay in memory for [`LOGIN_LIFETIME`], at most [`MAX_PENDING`] of them. If one server has too many, its
//! oldest is dropped; if the total is reached, further logins are refused.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plexus_kit::clock::from_millis;
use plexus_kit::{ExposeSecret, Secret};
use plexus_proto::Timestamp;
use plexus_proto::api::{FinishLoginParams, UpstreamLogin};
use url::Url;

use super::client::{self, Client};
use super::discovery::{self, Authority};
use super::grant::{Grant, Source};
use super::http::OauthHttp;
use super::terms::Terms;
use super::token::{self, TokenError, Tokens};
use super::{LoginError, quoted};

pub(super) const LOGIN_LIFETIME: Duration = Duration::from_secs(10 * 60);
const MAX_PENDING: usize = 64;
/// Limit per server: a person may have started again after closing a browser.
const MAX_PENDING_PER_SERVER: usize = 4;
/// The scope for access that outlasts the browser session; requested if the authorization server supports it.
const OFFLINE_SCOPE: &str = "offline_access";

/// A login that waits for a person.
pub(crate) struct Pending {
    id: String,
    server: String,
    state: Secret,
    verifier: Secret,
    redirect: String,
    /// The authorization server's responses contain `iss`.
    names_itself: bool,
    pub(super) source: Source,
    expires_at: Timestamp,
}

/// The pending logins.
#[derive(Default)]
pub(crate) struct Logins(Mutex<Vec<Pending>>);

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Logins").field(&self.lock().len()).finish()
    }
}

impl Logins {
    fn lock(&self) -> MutexGuard<'_, Vec<Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, pending: Pending, now: Timestamp) -> Result<(), LoginError> {
        let mut all = self.lock();
        all.retain(|one| one.expires_at > now);
        let of_one = all.iter().filter(|one| one.server == pending.server).count();
        if of_one >= MAX_PENDING_PER_SERVER
            && let Some(oldest) = all.iter().position(|one| one.server == pending.server)
        {
            all.remove(oldest);
        }
        if all.len() >= MAX_PENDING {
            return Err(LoginError::Full(MAX_PENDING));
        }
        all.push(pending);
        Ok(())
    }

    /// Takes the login that an answer of the browser belongs to. A login stays if the answer has a different
    /// `state`, because anyone can call the redirect URI.
    pub(super) fn take(
        &self,
        server: &str,
        id: &str,
        answer: &FinishLoginParams,
        now: Timestamp,
    ) -> Result<Pending, LoginError> {
        let mut all = self.lock();
        all.retain(|one| one.expires_at > now);
        let position = all.iter().position(|one| one.id == id && one.server == server);
        let position = position.ok_or(LoginError::NoLogin)?;
        if answer.state.as_deref() != Some(all[position].state.expose_secret()) {
            let message = "the answer does not belong to this login: its `state` differs. It was ignored";
            return Err(LoginError::Refused(message.to_owned()));
        }
        Ok(all.remove(position))
    }

    /// Drops all pending logins of a server.
    pub(super) fn forget(&self, server: &str) {
        self.lock().retain(|one| one.server != server);
    }
}

/// Determines the URL at which a person can grant access, and the client to use.
pub(super) async fn begin(
    oauth_http: &OauthHttp,
    terms: &Terms,
    server: &str,
    redirect: &str,
    now: Timestamp,
) -> Result<(Pending, UpstreamLogin), LoginError> {
    client::check_redirect(redirect, terms.oauth.redirect_port)?;
    let challenge = oauth_http.challenge().await?;
    let resource = discovery::resource(oauth_http, terms, &challenge).await?;
    let authority = discovery::authority(oauth_http, &resource.issuer).await?;
    let issuer = quoted(&authority.issuer);
    if !authority.proves_possession {
        return Err(LoginError::Refused(format!(
            "{issuer} does not announce support for PKCE (S256), which the hub requires"
        )));
    }
    let Some(endpoint) = authority.authorization_endpoint.clone() else {
        return Err(LoginError::Refused(format!("{issuer} names no authorization endpoint")));
    };
    let client = Client::choose(oauth_http, terms, &authority, redirect).await?;
    let scopes = match (terms.oauth.scopes.is_empty(), challenge.scope) {
        (false, _) => terms.oauth.scopes.clone(),
        (true, Some(scope)) => with_offline(scope.split(' ').map(str::to_owned).collect(), &authority),
        (true, None) => with_offline(resource.scopes, &authority),
    };
    let (state, verifier) = (Secret::from(random()), Secret::from(random()));
    let url = address(&Decision {
        endpoint,
        client: &client.id,
        redirect,
        state: &state,
        verifier: &verifier,
        resource: &resource.id,
        scopes: &scopes,
    });
    let lifetime = i64::try_from(LOGIN_LIFETIME.as_millis()).unwrap_or(i64::MAX);
    let expires_at = from_millis(now.as_millisecond().saturating_add(lifetime));
    let pending = Pending {
        id: random(),
        server: server.to_owned(),
        state,
        verifier,
        redirect: redirect.to_owned(),
        names_itself: authority.names_itself,
        source: source(terms, &authority, client, resource.id),
        expires_at,
    };
    let login =
        UpstreamLogin { id: pending.id.clone(), url: url.to_string(), issuer: authority.issuer, expires_at };
    Ok((pending, login))
}

pub(super) fn source(terms: &Terms, authority: &Authority, client: Client, resource: String) -> Source {
    Source {
        binding: terms.binding.clone(),
        issuer: authority.issuer.clone(),
        token_endpoint: authority.token_endpoint.clone(),
        revocation_endpoint: authority.revocation_endpoint.clone(),
        client,
        resource,
    }
}

fn with_offline(mut scopes: Vec<String>, authority: &Authority) -> Vec<String> {
    scopes.retain(|scope| !scope.is_empty());
    if authority.scopes.iter().any(|scope| scope == OFFLINE_SCOPE)
        && !scopes.iter().any(|scope| scope == OFFLINE_SCOPE)
    {
        scopes.push(OFFLINE_SCOPE.to_owned());
    }
    scopes
}

/// The parameters of an authorization request.
struct Decision<'a> {
    endpoint: Url,
    client: &'a str,
    redirect: &'a str,
    state: &'a Secret,
    verifier: &'a Secret,
    resource: &'a str,
    scopes: &'a [String],
}

fn address(decision: &Decision<'_>) -> Url {
    let mut url = decision.endpoint.clone();
    url.set_fragment(None);
    let mut query = url.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", decision.client)
        .append_pair("redirect_uri", decision.redirect)
        .append_pair("state", decision.state.expose_secret())
        .append_pair("code_challenge", &challenge(decision.verifier))
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", decision.resource);
    if !decision.scopes.is_empty() {
        query.append_pair("scope", &decision.scopes.join(" "));
    }
    if decision.scopes.iter().any(|scope| scope == OFFLINE_SCOPE) {
        // OpenID Connect grants offline access only after an explicit consent prompt.
        query.append_pair("prompt", "consent");
    }
    drop(query);
    url
}

/// The public half of the PKCE proof (RFC 7636).
fn challenge(verifier: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.expose_secret().as_bytes()))
}

fn random() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

/// Checks that an answer comes from the expected authorization server (RFC 9207), and returns its code.
pub(super) fn decided(pending: &Pending, answer: &FinishLoginParams) -> Result<Secret, LoginError> {
    let issuer = &pending.source.issuer;
    match &answer.iss {
        Some(iss) if iss == issuer => {}
        None if !pending.names_itself => {}
        // The answer may come from anyone, so nothing of it is repeated.
        Some(_) => {
            let message =
                format!("the answer comes from a different authorization server than {}", quoted(issuer));
            return Err(LoginError::Refused(format!("{message}. It was ignored")));
        }
        None => {
            let message =
                format!("the answer lacks the `iss` parameter, which {} always sends", quoted(issuer));
            return Err(LoginError::Refused(format!("{message}. It was ignored")));
        }
    }
    if let Some(error) = &answer.error {
        let more = answer.error_description.as_deref().map(|more| format!(" ({})", quoted(more)));
        let (issuer, error) = (quoted(issuer), quoted(error));
        let message = format!("{issuer} denied access: {error}{}", more.unwrap_or_default());
        return Err(LoginError::Refused(message));
    }
    let code = answer.code.as_deref().filter(|code| !code.is_empty());
    code.map(Secret::from)
        .ok_or_else(|| LoginError::Refused("the answer contains neither a code nor an error".to_owned()))
}

/// Exchanges the code for tokens.
pub(super) async fn redeem(
    oauth_http: &OauthHttp,
    terms: &Terms,
    pending: &Pending,
    code: &Secret,
    now: Timestamp,
) -> Result<Grant, LoginError> {
    let source = &pending.source;
    let pairs = [
        ("grant_type", "authorization_code"),
        ("code", code.expose_secret()),
        ("redirect_uri", &pending.redirect),
        ("code_verifier", pending.verifier.expose_secret()),
        ("resource", &source.resource),
    ];
    let token_answer =
        token::ask(oauth_http, &source.token_endpoint, &source.client, &terms.oauth, &pairs).await;
    let tokens: Tokens = token_answer.map_err(|refused| match refused {
        // It is unknown whether the code was used, and a code is valid only once.
        TokenError::Transient(why) => LoginError::Unreachable(format!("{why}; log in again")),
        TokenError::InvalidGrant(why) | TokenError::Other(why) => LoginError::Refused(why),
    })?;
    Grant::new(source.clone(), tokens, now)
        .ok_or_else(|| LoginError::Refused("the issued token is not a valid header value".to_owned()))
}

#[cfg(test)]
mod tests;
