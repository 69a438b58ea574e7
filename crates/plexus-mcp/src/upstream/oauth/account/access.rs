//! A person gives the hub access to a server, or takes it away.

use plexus_kit::{ExposeSecret, Secret};
use plexus_proto::api::{FinishLoginParams, UpstreamLogin, UpstreamLogout};

use super::{Account, Held};
use crate::upstream::config::{HttpConfig, is_protected};
use crate::upstream::oauth::asking::Asking;
use crate::upstream::oauth::grant::Grant;
use crate::upstream::oauth::login::{self, Logins};
use crate::upstream::oauth::terms::Terms;
use crate::upstream::oauth::{LoginError, quoted, token};

impl Account {
    /// Finds out where a person can give access.
    pub(in crate::upstream) async fn begin(
        &self,
        http: &HttpConfig,
        logins: &Logins,
        redirect: &str,
    ) -> Result<UpstreamLogin, LoginError> {
        let terms = self.terms_for_a_person(http)?;
        let asking = Asking::new(&terms, &self.around.settings)?;
        let now = self.around.clock.now();
        let (pending, begun) = login::begin(&asking, &terms, &self.server, redirect, now).await?;
        logins.add(pending, now)?;
        Ok(begun)
    }

    /// Takes what the browser brought back, and keeps what it is worth.
    pub(in crate::upstream) async fn finish(
        &self,
        http: &HttpConfig,
        logins: &Logins,
        id: &str,
        answer: &FinishLoginParams,
    ) -> Result<(), LoginError> {
        let terms = self.terms_for_a_person(http)?;
        let now = self.around.clock.now();
        let pending = logins.take(&self.server, id, answer, now)?;
        if pending.source.binding != terms.binding {
            let message = "the server's file has changed since the login was begun: log in anew";
            return Err(LoginError::Refused(message.to_owned()));
        }
        let code = login::decided(&pending, answer)?;
        let asking = Asking::new(&terms, &self.around.settings)?;
        let grant = login::redeem(&asking, &terms, &pending, &code, now).await?;
        self.follow(http).await?;
        let _turn = self.changing.lock().await;
        if let Some(vault) = &self.around.vault {
            vault.keep(&self.server, &grant).await.map_err(|error| {
                LoginError::Unreachable(format!("the login cannot be stored: {error}; log in anew"))
            })?;
        }
        self.put(Held { grant: Some(grant), ..Held::default() });
        Ok(())
    }

    /// Forgets access, and tells the authorization server so where it can be told.
    pub(in crate::upstream) async fn forget(
        &self,
        http: Option<&HttpConfig>,
        logins: &Logins,
    ) -> Result<UpstreamLogout, LoginError> {
        logins.forget(&self.server);
        if let Some(http) = http {
            self.follow(http).await?;
        }
        let held = {
            let _turn = self.changing.lock().await;
            if let Some(vault) = &self.around.vault {
                let forgotten = vault.forget(&self.server).await;
                forgotten.map_err(|error| {
                    LoginError::Unreachable(format!("the login cannot be forgotten now: {error}"))
                })?;
            }
            let held = self.held.load_full();
            let why = held.grant.is_some().then(|| "it was logged out".to_owned());
            self.put(Held { why, ..Held::default() });
            held
        };
        let mut logout = UpstreamLogout {
            name: self.server.clone(),
            forgotten: held.grant.is_some(),
            revoked: false,
            remark: None,
        };
        if let Some(grant) = &held.grant {
            match self.revoke(grant).await {
                Ok(()) => logout.revoked = true,
                Err(why) => {
                    let end =
                        "the access may go on until it expires; end it where your account there is kept";
                    logout.remark = Some(format!("{why}: {end}"));
                }
            }
        }
        Ok(logout)
    }

    /// Has the authorization server end access (RFC 7009).
    async fn revoke(&self, grant: &Grant) -> Result<(), String> {
        let (source, terms) = (&grant.source, self.terms.load_full());
        let (Some(endpoint), Some(terms)) = (&source.revocation_endpoint, terms) else {
            return Err(format!("{} has no way to be told", quoted(&source.issuer)));
        };
        let asking = Asking::new(&terms, &self.around.settings).map_err(|error| error.to_string())?;
        let tell = async |token: &Secret, kind: &str| {
            let pairs = [("token", token.expose_secret()), ("token_type_hint", kind)];
            let (form, authorization) = token::signed(&source.client, &terms.oauth, &pairs);
            let answer = asking.submit(endpoint, form, authorization).await;
            match answer.map_err(|error| error.to_string())?.status {
                status if status.is_success() => Ok(()),
                status => Err(format!("{} answers {status}", quoted(&source.issuer))),
            }
        };
        // What could be made from it goes first.
        if let Some(refresh) = &grant.refresh {
            tell(refresh, "refresh_token").await?;
        }
        tell(&grant.access, "access_token").await
    }

    /// The terms of a server that persons log in to.
    fn terms_for_a_person(&self, http: &HttpConfig) -> Result<Terms, LoginError> {
        let server = &self.server;
        if http.headers.contains_key("authorization") {
            return Err(LoginError::Unsuitable(format!(
                "the file of {server} has a header `Authorization`, which is what {server} is shown: remove it to log in"
            )));
        }
        let terms = Terms::of(http)?;
        if terms.by_itself() {
            return Err(LoginError::Unsuitable(format!(
                "{server} is used with the hub's own access (client_credentials), which nobody has to log in for"
            )));
        }
        if !is_protected(&terms.url) {
            return Err(LoginError::Unsuitable(format!(
                "the `url` of {server} is not encrypted, and whatever is given for it could be read on the way: write \
                 it with https://"
            )));
        }
        Ok(terms)
    }
}
