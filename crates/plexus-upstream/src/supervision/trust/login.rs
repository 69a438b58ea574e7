//! Access to a server: a person gives it to the hub, or takes it away.

use std::sync::Arc;

use plexus_proto::api::{FinishLoginParams, Upstream, UpstreamLogin, UpstreamLogout};

use crate::config::ServerConfig;
use crate::oauth::LoginError;
use crate::supervision::Upstreams;
use crate::supervision::unit::Unit;

impl Upstreams {
    /// Finds out where a person can give access to a server, and waits for the answer that the browser brings to
    /// `redirect`. Nothing of what the hub has is touched by that.
    pub async fn begin_login(&self, name: &str, redirect: &str) -> Result<UpstreamLogin, LoginError> {
        let (unit, config) = self.to_log_in(name)?;
        let http = config.transport.http().ok_or_else(|| not_http(name))?;
        unit.account.begin(http, &self.0.shared.logins, redirect).await
    }

    /// Takes what the browser brought back. The server is then started anew with the access it was given.
    pub async fn finish_login(
        &self,
        name: &str,
        id: &str,
        answer: &FinishLoginParams,
    ) -> Result<Upstream, LoginError> {
        let (unit, config) = self.to_log_in(name)?;
        config.transport.http().ok_or_else(|| not_http(name))?;
        unit.account.finish(|| unit.config(), &self.0.shared.logins, id, answer).await?;
        unit.settled(unit.want_restart(None), self.0.shared.timing.settle).await;
        Ok(self.describe(&unit))
    }

    /// Forgets the access to a server and, where its authorization server can be told, ends it there.
    pub async fn logout(&self, name: &str) -> Result<UpstreamLogout, LoginError> {
        let unit = self.unit(name).ok_or_else(|| LoginError::NoServer(name.to_owned()))?;
        let config = unit.config();
        let http = config.as_ref().and_then(|config| config.transport.http());
        let logout = unit.account.forget(http, &self.0.shared.logins).await?;
        if logout.forgotten {
            unit.settled(unit.want_restart(None), self.0.shared.timing.settle).await;
        }
        Ok(logout)
    }

    fn to_log_in(&self, name: &str) -> Result<(Arc<Unit>, Arc<ServerConfig>), LoginError> {
        let unit = self.unit(name).ok_or_else(|| LoginError::NoServer(name.to_owned()))?;
        let config = unit.config().ok_or_else(|| {
            LoginError::Unsuitable(format!("the file of {name} is wrong: put it right before you log in"))
        })?;
        Ok((unit, config))
    }
}

fn not_http(name: &str) -> LoginError {
    LoginError::Unsuitable(format!("{name} is a program on the hub's machine, which nobody logs in to"))
}
