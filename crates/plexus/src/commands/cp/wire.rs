//! What `transfer` is asked and answers, as far as a copy needs it.

use serde::{Deserialize, Serialize};

use crate::remote::Remote;

/// Bytes of one part: as base64 it fits into what a hub and a node take in one message.
pub(super) const CHUNK: u64 = 1 << 20;
/// What a hub with narrower limits may force it down to.
pub(super) const LEAST_CHUNK: u64 = 16 << 10;

#[derive(Debug, Clone, Copy, Serialize, Default)]
pub(super) struct Asked<'a> {
    pub(super) action: &'a str,
    pub(super) path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) modified: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replace: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    #[default]
    Nothing,
    File,
    Folder,
    Link,
    #[serde(other)]
    Special,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) what: What,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: String,
    pub(super) identity: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    pub(super) entries: Vec<Entry>,
    pub(super) more: bool,
    pub(super) unnamed: usize,
    pub(super) data: Option<String>,
    pub(super) changed: bool,
    pub(super) sha256: Option<String>,
    pub(super) received: Option<u64>,
    pub(super) done: bool,
    pub(super) exists: bool,
    pub(super) damaged: bool,
}

pub(super) const TOOL: &str = "transfer";

pub(super) async fn ask(remote: &Remote, asked: Asked<'_>) -> anyhow::Result<Told> {
    remote.call(TOOL, &asked, None).await
}

pub(super) async fn stat(remote: &Remote, path: &str) -> anyhow::Result<Entry> {
    remote.call(TOOL, &Asked { action: "stat", path, ..Asked::default() }, None).await
}

/// The hash of a file there; none: it is not the one that was meant any more.
pub(super) async fn hash(remote: &Remote, path: &str, identity: &str) -> anyhow::Result<Option<String>> {
    loop {
        let asked = Asked { action: "hash", path, identity: Some(identity), ..Asked::default() };
        let told = ask(remote, asked).await?;
        if told.changed {
            return Ok(None);
        }
        if let Some(hash) = told.sha256 {
            return Ok(Some(hash));
        }
    }
}
