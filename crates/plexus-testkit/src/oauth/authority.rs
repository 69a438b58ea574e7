//! A third-party authorization server: oidc-provider, in its own process.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::pinned::{Pinned, Script};

/// Stopped when it is dropped.
#[derive(Debug)]
pub struct Authority {
    /// Its listening address.
    url: String,
    issuer: String,
    http: reqwest::Client,
    _script: Script,
}

impl Authority {
    /// A server whose tokens last an hour; `None` on a machine without npm.
    pub async fn start() -> Option<Self> {
        Self::start_with(None, 3600).await
    }

    /// A server with another issuer than its own address, such as that of a link that can be cut, and with tokens
    /// that last this many seconds.
    pub async fn start_with(issuer: Option<&str>, ttl: u64) -> Option<Self> {
        let npm = Pinned::npm("oidc-provider").await?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/authority.mjs");
        let options = json!({ "issuer": issuer, "ttl": ttl }).to_string();
        let mut script = npm.script(&script, &[&options], "");
        let url = script.line().await["url"].as_str().expect("its address").to_owned();
        let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client");
        Some(Self { issuer: issuer.map_or_else(|| url.clone(), str::to_owned), url, http, _script: script })
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    pub fn address(&self) -> SocketAddr {
        self.url.trim_start_matches("http://").parse().expect("an address")
    }

    /// The URL at which a resource server validates tokens.
    pub fn check_url(&self) -> String {
        format!("{}/test/check", self.url)
    }

    async fn test(&self, what: &str) -> Value {
        let answer = self.http.get(format!("{}/test/{what}", self.url)).send().await.expect("an answer");
        answer.json().await.expect("JSON")
    }

    /// Number of grants of this kind (`refresh_token`, …), of refusals (`refused`), or of registered clients
    /// (`registered`).
    pub async fn count(&self, what: &str) -> u64 {
        self.test("counts").await[what].as_u64().expect("a number")
    }

    /// Invalidates all access tokens, but no refresh tokens.
    pub async fn expire_access(&self) {
        self.test("expire").await;
    }

    /// Invalidates all refresh tokens.
    pub async fn revoke_refresh(&self) {
        self.test("revoke").await;
    }

    /// Answers all requests with 503 until [`Self::come_up`].
    pub async fn go_down(&self) {
        self.test("down").await;
    }

    pub async fn come_up(&self) {
        self.test("up").await;
    }
}
