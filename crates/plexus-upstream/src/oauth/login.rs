//! A person gives the hub access: begun here, decided in a browser, ended here.
//!
//! What was begun is kept in memory for [`LASTING`], at most [`MAX`] at a time; the oldest goes first where there are
//! more of one server, and one more is refused where there are not.

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
use super::token::{self, Refused, Tokens};
use super::{LoginError, quoted};

pub(super) const LASTING: Duration = Duration::from_secs(10 * 60);
const MAX: usize = 64;
/// Of one server: a person may have begun anew after closing a browser.
const MAX_OF_ONE: usize = 4;
/// Access that lasts when the person is gone; asked for where the authorization server knows it.
const OFFLINE: &str = "offline_access";

/// A login that waits for its person.
pub(crate) struct Pending {
    id: String,
    server: String,
    state: Secret,
    verifier: Secret,
    redirect: String,
    /// Its answers say whose they are.
    names_itself: bool,
    pub(super) source: Source,
    expires_at: Timestamp,
}

/// The logins that wait.
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
        if of_one >= MAX_OF_ONE
            && let Some(oldest) = all.iter().position(|one| one.server == pending.server)
        {
            all.remove(oldest);
        }
        if all.len() >= MAX {
            return Err(LoginError::Full(MAX));
        }
        all.push(pending);
        Ok(())
    }

    /// The login that an answer of the browser is to. One whose answer is another's stays: anybody can call the address
    /// that the browser is sent back to.
    pub(super) fn take(
        &self,
        server: &str,
        id: &str,
        answer: &FinishLoginParams,
        now: Timestamp,
    ) -> Result<Pending, LoginError> {
        let mut all = self.lock();
        all.retain(|one| one.expires_at > now);
        let found = all.iter().position(|one| one.id == id && one.server == server);
        let found = found.ok_or(LoginError::NoLogin)?;
        if answer.state.as_deref() != Some(all[found].state.expose_secret()) {
            let message =
                "the answer is not to this login: its `state` is another one. Nothing was taken from it";
            return Err(LoginError::Refused(message.to_owned()));
        }
        Ok(all.remove(found))
    }

    /// Nobody is to be logged in there any more.
    pub(super) fn forget(&self, server: &str) {
        self.lock().retain(|one| one.server != server);
    }
}

/// Finds out where a person can give access, and as whom to ask for it.
pub(super) async fn begin(
    asking: &OauthHttp,
    terms: &Terms,
    server: &str,
    redirect: &str,
    now: Timestamp,
) -> Result<(Pending, UpstreamLogin), LoginError> {
    client::check_redirect(redirect, terms.oauth.redirect_port)?;
    let challenge = asking.challenge().await?;
    let resource = discovery::resource(asking, terms, &challenge).await?;
    let authority = discovery::authority(asking, &resource.issuer).await?;
    let issuer = quoted(&authority.issuer);
    if !authority.proves_possession {
        return Err(LoginError::Refused(format!(
            "{issuer} does not say that it protects codes with PKCE (S256), and is not logged in to without"
        )));
    }
    let Some(endpoint) = authority.authorization_endpoint.clone() else {
        return Err(LoginError::Refused(format!("{issuer} does not say where a person can give access")));
    };
    let client = Client::choose(asking, terms, &authority, redirect).await?;
    let wanted = match (terms.oauth.scopes.is_empty(), challenge.scope) {
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
        scopes: &wanted,
    });
    let lasting = i64::try_from(LASTING.as_millis()).unwrap_or(i64::MAX);
    let expires_at = from_millis(now.as_millisecond().saturating_add(lasting));
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
    if authority.scopes.iter().any(|scope| scope == OFFLINE) && !scopes.iter().any(|scope| scope == OFFLINE) {
        scopes.push(OFFLINE.to_owned());
    }
    scopes
}

/// What a person is asked to decide on.
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
    if decision.scopes.iter().any(|scope| scope == OFFLINE) {
        // OpenID Connect gives such access only to those who are asked for it.
        query.append_pair("prompt", "consent");
    }
    drop(query);
    url
}

/// The half of the proof that may be seen (RFC 7636).
fn challenge(verifier: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.expose_secret().as_bytes()))
}

fn random() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

/// Whether an answer is of the authorization server that was asked (RFC 9207), and what it brings.
pub(super) fn decided(pending: &Pending, answer: &FinishLoginParams) -> Result<Secret, LoginError> {
    let issuer = &pending.source.issuer;
    match &answer.iss {
        Some(iss) if iss == issuer => {}
        None if !pending.names_itself => {}
        // Nothing of what it says is repeated: it may be anybody's.
        Some(_) => {
            let message = format!("the answer is of another authorization server than {}", quoted(issuer));
            return Err(LoginError::Refused(format!("{message}. Nothing was taken from it")));
        }
        None => {
            let message =
                format!("the answer does not say that it is of {}, which always does", quoted(issuer));
            return Err(LoginError::Refused(format!("{message}. Nothing was taken from it")));
        }
    }
    if let Some(error) = &answer.error {
        let more = answer.error_description.as_deref().map(|more| format!(" ({})", quoted(more)));
        let (issuer, error) = (quoted(issuer), quoted(error));
        let message = format!("{issuer} gives no access: {error}{}", more.unwrap_or_default());
        return Err(LoginError::Refused(message));
    }
    let code = answer.code.as_deref().filter(|code| !code.is_empty());
    code.map(Secret::from)
        .ok_or_else(|| LoginError::Refused("the answer has neither a code nor an error in it".to_owned()))
}

/// Turns the code into access.
pub(super) async fn redeem(
    asking: &OauthHttp,
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
    let asked = token::ask(asking, &source.token_endpoint, &source.client, &terms.oauth, &pairs).await;
    let tokens: Tokens = asked.map_err(|refused| match refused {
        // Whether it was taken nobody knows, and a code is good for once.
        Refused::Passing(why) => LoginError::Unreachable(format!("{why}; log in anew")),
        Refused::Grant(why) | Refused::Other(why) => LoginError::Refused(why),
    })?;
    Grant::new(source.clone(), tokens, now)
        .ok_or_else(|| LoginError::Refused("the token that was given cannot be sent".to_owned()))
}

#[cfg(test)]
mod tests;
