//! Where the bytes of a picture come from: a file that the policy lets be read, or a server that may be asked.

use std::io::Read as _;

use bytes::Bytes;
use plexus_mcp::http_client::{FetchError, Fetcher};
use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::args::wrong;
use crate::files::{FileError, Files};
use crate::policy::ImageRules;

/// Bytes of a file.
const MAX_FILE: u64 = 32 << 20;
/// What is asked for; what comes is looked at all the same.
const ACCEPT: &str = "image/png, image/jpeg, image/webp, image/gif, image/bmp, image/*;q=0.5";
/// What lets pictures be fetched from private networks.
pub(super) const REMEDY: &str =
    "its owner sets `images.private_networks` to true in the node.toml of the machine";

#[derive(Debug)]
pub(super) enum Source {
    Path(String),
    Url(String),
}

/// The content of a file, and where it really is. Blocks.
pub(super) fn read(files: &Files, given: &str) -> Result<(Vec<u8>, String), CallError> {
    let path = files.path(given)?;
    let (handle, file) = files.read(&path).map_err(told)?;
    let shown = handle.path().display().to_string();
    // What it says of its length is not what bounds it: it may grow meanwhile.
    let mut bytes = Vec::new();
    let length = file.metadata().map_or(0, |about| about.len());
    if length <= MAX_FILE {
        let read = file.take(MAX_FILE + 1).read_to_end(&mut bytes);
        read.map_err(|error| told(FileError::io(handle.path(), error)))?;
    }
    if length.max(bytes.len() as u64) > MAX_FILE {
        let message = format!("{shown} is larger than the {} MiB that are looked at", MAX_FILE >> 20);
        return Err(CallError::new(ErrorCode::TooLarge, message)
            .hint("Scale it down or crop a part of it on the machine, and look at that."));
    }
    Ok((bytes, shown))
}

/// In the words of a tool that has no actions.
fn told(error: FileError) -> CallError {
    let hint = match &error {
        FileError::NotFound(_) => {
            Some("Look for it with the tool `filesystem`, action \"list\" or \"glob\".")
        }
        FileError::NotThis { .. } => Some("Give the path of a file with a picture in it."),
        _ => None,
    };
    let error = CallError::from(error);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// What a server gives for a URL, if it may be asked.
pub(super) async fn fetch(fetcher: &Fetcher, rules: ImageRules, url: &str) -> Result<Bytes, CallError> {
    if !rules.urls {
        return Err(CallError::new(ErrorCode::Forbidden, "the policy of this machine lets no pictures be fetched")
            .hint("Nothing was asked. Give the `path` of a file, or ask the owner of the machine to change its node.toml.")
            .before_it_ran());
    }
    fetcher.get(url, rules.private_networks, ACCEPT).await.map_err(|error| {
        let (code, hint) = match &error {
            FetchError::Url(why) => return wrong("url", why),
            FetchError::Refused(_) => {
                (ErrorCode::Forbidden, "Nothing was fetched. Use another URL, or ask the owner of the machine.")
            }
            FetchError::Failed(_) => (ErrorCode::ToolFailed, "Look whether the URL is right."),
            FetchError::Status { .. } => (
                ErrorCode::ToolFailed,
                "Look whether the URL is right. It is asked for without cookies and credentials: what needs a login \
                 has to be downloaded on the machine.",
            ),
            FetchError::TooLong { .. } => {
                (ErrorCode::TooLarge, "Use a smaller version, or download it on the machine and scale it down there.")
            }
            FetchError::TooSlow { .. } => (ErrorCode::DeadlineExceeded, "Try again, or download it on the machine."),
        };
        CallError::new(code, error.to_string()).hint(hint)
    })
}
