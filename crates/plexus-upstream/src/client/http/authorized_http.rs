//! HTTP to one server as configured in its file, with the headers of the file and the hub's token.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use plexus_kit::ExposeSecret;
use plexus_mcp::http_client::{self, Endpoint, HttpError, Network, Reply};
use url::Url;

use crate::client::ClientError;
use crate::config::{HttpConfig, is_of_the_hub};
use crate::oauth::{AccountAccess, BearerStatus};

/// The advice for a server on a private network.
const ALLOW_PRIVATE: &str = "set `allow_private` to true in the server's file";

pub(crate) struct AuthorizedHttp {
    /// Sends the headers of the file with each request. No other credentials are ever sent; callers'
    /// credentials for the hub stay in the hub.
    client: Arc<http_client::HttpClient>,
    /// The hub's login at the server, unless the file sets an `Authorization` header.
    account: Option<AccountAccess>,
}

impl fmt::Debug for AuthorizedHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

impl From<HttpError> for ClientError {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Unreachable(why) => Self::Unreachable(why),
            HttpError::Lost(why) => Self::Lost(why),
            HttpError::Protocol(why) => Self::Protocol(why),
        }
    }
}

impl AuthorizedHttp {
    /// `private`: whether the hub's settings allow private networks for all servers. `limit`: size limit of one
    /// message in bytes.
    pub(crate) fn new(
        config: &HttpConfig,
        private: bool,
        patience: Duration,
        limit: usize,
    ) -> Result<Self, ClientError> {
        let (home, headers) = of_file(config)?;
        let private = private || config.allow_private;
        let network =
            Network::for_server(&home.url, config.auth.tls.clone(), private, ALLOW_PRIVATE, patience);
        Ok(Self {
            client: Arc::new(http_client::HttpClient::new(home, headers, network, limit)),
            account: None,
        })
    }

    /// Adds the tokens of an account, unless the file sets an `Authorization` header.
    pub(crate) fn with_account(mut self, account: Option<AccountAccess>) -> Self {
        self.account = account.filter(|_| !self.client.has_own_header(&AUTHORIZATION));
        self
    }

    /// The URL in the file.
    pub(crate) fn home(&self) -> &Arc<Endpoint> {
        self.client.home()
    }

    /// Size limit of a message in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.client.limit()
    }

    /// The hub's login at the server that sent this reply, or that it would use there.
    pub(crate) fn account(&self, reply: &Reply) -> Option<&AccountAccess> {
        self.account.as_ref().filter(|_| reply.is_from_home())
    }

    /// Sends a request, following redirects, and waits for the head of the answer. There is no time limit;
    /// the caller sets one.
    ///
    /// A request that a server rejects because of an outdated token was not carried out, and is sent once
    /// more with a newer token if there is one.
    pub(crate) async fn send(
        &self,
        endpoint: &Arc<Endpoint>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Reply, ClientError> {
        let Some(account) = &self.account else {
            return Ok(self.client.send(endpoint, method, headers, body, None).await?);
        };
        let bearer = match account.bearer_status() {
            BearerStatus::Ready(bearer) => bearer,
            BearerStatus::NeedsRenewal => Box::pin(account.bearer()).await?,
        };
        let authorization = bearer.as_ref().map(|bearer| &bearer.header);
        let reply = self.client.send(endpoint, method, headers, body, authorization).await?;
        if !account.is_refused(&reply, bearer.as_ref()) {
            return Ok(reply);
        }
        Box::pin(async {
            let Some(newer) = account.renewed(bearer.as_ref()).await? else { return Ok(reply) };
            let reply = self.client.send(endpoint, method, headers, body, Some(&newer.header)).await?;
            account.is_refused(&reply, Some(&newer));
            Ok(reply)
        })
        .await
    }

    /// Like [`Self::send`], without following redirects and without the hub's token.
    pub(crate) async fn send_once(
        &self,
        endpoint: &Arc<Endpoint>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Reply, ClientError> {
        Ok(self.client.send_once(endpoint, method, headers, body).await?)
    }

    /// Closes idle connections.
    pub(crate) fn sweep(&self) {
        self.client.sweep();
    }

    /// Closes all idle connections immediately.
    pub(crate) fn close(&self) {
        self.client.close();
    }
}

/// The URL and headers in a server's file.
fn of_file(config: &HttpConfig) -> Result<(Endpoint, HeaderMap), ClientError> {
    let url = Url::parse(config.url.expose_secret())
        .map_err(|error| wrong(format!("the `url` of the server's file is invalid: {error}")))?;
    let mut headers = HeaderMap::with_capacity(config.headers.len());
    for (name, value) in &config.headers {
        if is_of_the_hub(name) {
            return Err(wrong(format!(
                "the header `{name}` is set by the hub: remove it from the server's file"
            )));
        }
        let (Ok(name), Ok(mut value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value.expose_secret().trim()))
        else {
            return Err(wrong(format!("the header `{name}` of the server's file is invalid")));
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok((Endpoint::home(url)?, headers))
}

fn wrong(message: String) -> ClientError {
    ClientError::Protocol(message)
}
