//! Logins to servers: a person grants the hub access, or ends it.

use std::sync::Arc;

use plexus_proto::api::{FinishLoginParams, Upstream, UpstreamLogin, UpstreamLogout};

use crate::config::ServerConfig;
use crate::oauth::LoginError;
use crate::supervision::Upstreams;
use crate::supervision::unit::Unit;

impl Upstreams {
    /// Determines the URL at which a person can grant access, and waits for the browser's answer at
    /// `redirect`. Existing access is not affected.
    pub async fn begin_login(&self, name: &str, redirect: &str) -> Result<UpstreamLogin, LoginError> {
        let (unit, config) = self.login_target(name)?;
        let http = config.transport.http().ok_or_else(|| not_http(name))?;
        unit.account.begin(http, &self.0.shared.logins, redirect).await
    }

    /// Redeems the browser's answer, and restarts the server with the new access.
    pub async fn finish_login(
        &self,
        name: &str,
        id: &str,
        answer: &FinishLoginParams,
    ) -> Result<Upstream, LoginError> {
        let (unit, config) = self.login_target(name)?;
        config.transport.http().ok_or_else(|| not_http(name))?;
        unit.account.finish(|| unit.config(), &self.0.shared.logins, id, answer).await?;
        unit.settled(unit.request_restart(None), self.0.shared.timing.settle).await;
        Ok(self.describe(&unit))
    }

    /// Deletes the login to a server and revokes it at its authorization server if possible.
    pub async fn logout(&self, name: &str) -> Result<UpstreamLogout, LoginError> {
        let unit = self.unit(name).ok_or_else(|| LoginError::NoServer(name.to_owned()))?;
        let config = unit.config();
        let http = config.as_ref().and_then(|config| config.transport.http());
        let logout = unit.account.forget(http, &self.0.shared.logins).await?;
        if logout.forgotten {
            unit.settled(unit.request_restart(None), self.0.shared.timing.settle).await;
        }
        Ok(logout)
    }

    fn login_target(&self, name: &str) -> Result<(Arc<Unit>, Arc<ServerConfig>), LoginError> {
        let unit = self.unit(name).ok_or_else(|| LoginError::NoServer(name.to_owned()))?;
        let config = unit.config().ok_or_else(|| {
            LoginError::Unsuitable(format!("the file of {name} is invalid: fix it before you log in"))
        })?;
        Ok((unit, config))
    }
}

fn not_http(name: &str) -> LoginError {
    LoginError::Unsuitable(format!("{name} is a program on the hub's machine and needs no login"))
}
