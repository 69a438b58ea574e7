//! Logging in and logging out: a person grants the hub access to a server, or ends it.

use std::sync::Arc;

use plexus_kit::{ExposeSecret, Secret};
use plexus_proto::api::{FinishLoginParams, UpstreamLogin, UpstreamLogout};

use super::{Account, AccountState};
use crate::config::{HttpConfig, OauthConfig, ServerConfig, is_protected};
use crate::oauth::grant::Grant;
use crate::oauth::http::OauthHttp;
use crate::oauth::login::{self, Logins};
use crate::oauth::terms::Terms;
use crate::oauth::vault::StoredGrant;
use crate::oauth::{LoginError, quoted, token};

impl Account {
    /// Determines the URL at which a person can grant access.
    pub(crate) async fn begin(
        &self,
        http: &HttpConfig,
        logins: &Logins,
        redirect: &str,
    ) -> Result<UpstreamLogin, LoginError> {
        let terms = self.terms_for_a_person(http)?;
        let oauth_http = OauthHttp::new(&terms, &self.context.settings)?;
        let now = self.context.clock.now();
        let (pending, login) = login::begin(&oauth_http, &terms, &self.server, redirect, now).await?;
        logins.add(pending, now)?;
        Ok(login)
    }

    /// Redeems the browser's answer and stores the resulting grant. `file` returns the current configuration
    /// of the server each time it is called; a grant for terms that changed meanwhile is discarded.
    pub(crate) async fn finish(
        &self,
        file: impl Fn() -> Option<Arc<ServerConfig>> + Send + Sync,
        logins: &Logins,
        id: &str,
        answer: &FinishLoginParams,
    ) -> Result<(), LoginError> {
        let logouts = *self.change_lock.lock().await;
        let terms = file().and_then(|config| Some(self.terms_for_a_person(config.transport.http()?)));
        let terms = terms.unwrap_or_else(|| Err(changed()))?;
        let now = self.context.clock.now();
        let pending = logins.take(&self.server, id, answer, now)?;
        if pending.source.binding != terms.binding {
            return Err(changed());
        }
        let code = login::decided(&pending, answer)?;
        let oauth_http = OauthHttp::new(&terms, &self.context.settings)?;
        let grant = login::redeem(&oauth_http, &terms, &pending, &code, now).await?;
        let turn = self.change_lock.lock().await;
        let newest = file().and_then(|config| Terms::of(config.transport.http()?).ok());
        let newest = newest.filter(|newest| newest.binding == grant.source.binding);
        let (Some(newest), true) = (newest, *turn == logouts) else {
            let why = if *turn == logouts { changed() } else { logged_out() };
            drop(turn);
            self.revoke_unwanted(&terms, &grant).await;
            return Err(why);
        };
        if let Some(vault) = &self.context.vault {
            vault.save(&self.server, &grant).await.map_err(|error| {
                LoginError::Unreachable(format!("the login cannot be stored: {error}; log in again"))
            })?;
        }
        let (terms, grant) = (Some(Arc::new(newest)), Some(Arc::new(grant)));
        self.replace_state(AccountState { terms, grant, ..AccountState::default() });
        Ok(())
    }

    /// Deletes the login, and revokes it at the authorization server if that supports revocation.
    pub(crate) async fn forget(
        &self,
        http: Option<&HttpConfig>,
        logins: &Logins,
    ) -> Result<UpstreamLogout, LoginError> {
        logins.forget(&self.server);
        if let Some(http) = http {
            self.follow(http).await?;
        }
        let mut turn = self.change_lock.lock().await;
        let state = self.state.load_full();
        let (mut grant, mut unreadable) = (state.grant.clone(), false);
        if let Some(vault) = &self.context.vault {
            let later = |error| LoginError::Unreachable(format!("the login cannot be deleted now: {error}"));
            // The login may have been granted under earlier terms of the file; it is deleted all the same.
            match vault.read(&self.server).await.map_err(later)? {
                StoredGrant::Nothing => {}
                StoredGrant::Unreadable => unreadable = true,
                StoredGrant::Grant(stored) => {
                    grant = stored.grant().map(Arc::new);
                    unreadable = grant.is_none();
                }
            }
            vault.forget(&self.server).await.map_err(later)?;
        }
        grant = self.renewing().take_unsaved().map(Arc::new).or(grant);
        *turn += 1;
        let forgotten = grant.is_some() || unreadable;
        let why = forgotten.then(|| "it was logged out".to_owned());
        self.replace_state(AccountState { terms: state.terms.clone(), why, ..AccountState::default() });
        drop(turn);
        let revocation = match &grant {
            Some(grant) => self.revoke(state.terms.as_deref(), grant).await,
            None if unreadable => Err("the stored login cannot be read".to_owned()),
            None => Ok(()),
        };
        let (name, revoked) = (self.server.clone(), grant.is_some() && revocation.is_ok());
        let remark = revocation.err().map(|why| {
            format!("{why}: the tokens may stay valid until they expire; revoke them in your account there")
        });
        Ok(UpstreamLogout { name, forgotten, revoked, remark })
    }

    /// Revokes the tokens of a grant at the authorization server (RFC 7009).
    async fn revoke(&self, terms: Option<&Terms>, grant: &Grant) -> Result<(), String> {
        let source = &grant.source;
        let issuer = quoted(&source.issuer);
        let Some(endpoint) = &source.revocation_endpoint else {
            return Err(format!("{issuer} has no revocation endpoint"));
        };
        let Some(terms) = terms else {
            return Err(format!("the server's file, which says how to reach {issuer}, cannot be used"));
        };
        let oauth_http = OauthHttp::new(terms, &self.context.settings).map_err(|error| error.to_string())?;
        // A secret is only sent to the authorization server that the file names with it, which may have
        // changed since.
        let unnamed = OauthConfig::default();
        let oauth = if terms.binding == source.binding { &terms.oauth } else { &unnamed };
        let revoke = async |token: &Secret, kind: &str| {
            let pairs = [("token", token.expose_secret()), ("token_type_hint", kind)];
            let (form, authorization) = token::signed(&source.client, oauth, &pairs);
            let answer = oauth_http.submit(endpoint, form, authorization).await;
            match answer.map_err(|error| error.to_string())?.status {
                status if status.is_success() => Ok(()),
                status => Err(format!("{issuer} answers {status}")),
            }
        };
        // The refresh token first, because new access tokens could be made from it.
        if let Some(refresh) = &grant.refresh {
            revoke(refresh, "refresh_token").await?;
        }
        revoke(&grant.access, "access_token").await
    }

    /// Revokes a grant that arrived after it was no longer wanted.
    pub(super) async fn revoke_unwanted(&self, terms: &Terms, grant: &Grant) {
        if let Err(why) = self.revoke(Some(terms), grant).await {
            let server = &self.server;
            tracing::warn!(%server, %why, "a token that arrived too late could not be revoked; it stays valid until it expires");
        }
    }

    /// The terms of a server that people log in to.
    fn terms_for_a_person(&self, http: &HttpConfig) -> Result<Terms, LoginError> {
        let server = &self.server;
        if http.headers.contains_key("authorization") {
            return Err(LoginError::Unsuitable(format!(
                "the file of {server} sets a header `Authorization`, which is sent to {server} instead: remove it to log in"
            )));
        }
        let terms = Terms::of(http)?;
        if terms.uses_client_credentials() {
            return Err(LoginError::Unsuitable(format!(
                "{server} uses the hub's own credentials (client_credentials) and needs no login"
            )));
        }
        if !is_protected(&terms.url) {
            return Err(LoginError::Unsuitable(format!(
                "the `url` of {server} is not encrypted, so tokens could be read in transit: use https://"
            )));
        }
        Ok(terms)
    }
}

fn changed() -> LoginError {
    LoginError::Refused("the server's file has changed since the login started: log in again".to_owned())
}

fn logged_out() -> LoginError {
    LoginError::Refused("somebody has logged out since the login started: log in again".to_owned())
}
