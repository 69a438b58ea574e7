//! An authorization server as its authors publish it: oidc-provider, in a process of its own.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::pinned::{Pinned, Script};

/// It ends with its value.
#[derive(Debug)]
pub struct Authority {
    /// Where it listens.
    url: String,
    issuer: String,
    http: reqwest::Client,
    _script: Script,
}

impl Authority {
    /// Whose tokens last an hour; none where this machine has no npm.
    pub async fn start() -> Option<Self> {
        Self::start_with(None, 3600).await
    }

    /// One that is known by another address than its own, such as that of a wire that can be cut, and whose tokens last
    /// so many seconds.
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

    /// Where a door asks whether a token is good.
    pub fn check_url(&self) -> String {
        format!("{}/test/check", self.url)
    }

    async fn test(&self, what: &str) -> Value {
        let answer = self.http.get(format!("{}/test/{what}", self.url)).send().await.expect("an answer");
        answer.json().await.expect("JSON")
    }

    /// How often it has given access in this way (`refresh_token`, …), refused it (`refused`), or `registered` a client.
    pub async fn count(&self, what: &str) -> u64 {
        self.test("counts").await[what].as_u64().expect("a number")
    }

    /// No access token that it gave is good any more; refresh tokens are.
    pub async fn expire_access(&self) {
        self.test("expire").await;
    }

    /// No refresh token that it gave is good any more.
    pub async fn revoke_refresh(&self) {
        self.test("revoke").await;
    }

    /// Answers nothing but 503 until it is `up` again.
    pub async fn go_down(&self) {
        self.test("down").await;
    }

    pub async fn come_up(&self) {
        self.test("up").await;
    }
}
