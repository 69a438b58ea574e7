//! Requests and replies of the tool `transfer` that a copy needs.

use serde::{Deserialize, Serialize};

use crate::remote::Remote;

/// Bytes of one part; as base64 it fits into one message with the default limits of hub and node.
pub(super) const CHUNK: u64 = 1 << 20;
/// Smallest part, for a hub with lower limits.
pub(super) const MIN_CHUNK: u64 = 16 << 10;

#[derive(Debug, Clone, Copy, Serialize, Default)]
pub(super) struct TransferRequest<'a> {
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
pub(super) enum EntryKind {
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
    #[serde(rename = "what")]
    pub(super) kind: EntryKind,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: String,
    pub(super) identity: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TransferReply {
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

pub(super) async fn call(remote: &Remote, request: TransferRequest<'_>) -> anyhow::Result<TransferReply> {
    remote.call(TOOL, &request, None).await
}

pub(super) async fn stat(remote: &Remote, path: &str) -> anyhow::Result<Entry> {
    remote.call(TOOL, &TransferRequest { action: "stat", path, ..TransferRequest::default() }, None).await
}

/// The hash of a file on the node; none if the file has changed.
pub(super) async fn hash(remote: &Remote, path: &str, identity: &str) -> anyhow::Result<Option<String>> {
    loop {
        let request =
            TransferRequest { action: "hash", path, identity: Some(identity), ..TransferRequest::default() };
        let reply = call(remote, request).await?;
        if reply.changed {
            return Ok(None);
        }
        if let Some(hash) = reply.sha256 {
            return Ok(Some(hash));
        }
    }
}
