//! Reads the bytes of an image from a file or a URL, if the policy allows it.

use std::io::Read as _;

use bytes::Bytes;
use plexus_mcp::http_client::{FetchError, Fetcher};
use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::args::wrong;
use crate::files::{FileError, Files};
use crate::policy::ImageRules;

/// The maximum size of a file.
const MAX_FILE: u64 = 32 << 20;
/// The accepted types; the response is checked regardless.
const ACCEPT: &str = "image/png, image/jpeg, image/webp, image/gif, image/bmp, image/*;q=0.5";
/// The remedy shown when a private network is refused.
pub(super) const REMEDY: &str =
    "its owner sets `images.private_networks` to true in the node.toml of the machine";

#[derive(Debug)]
pub(super) enum Source {
    Path(String),
    Url(String),
}

/// Returns the content of a file and its real path. Blocks.
pub(super) fn read(files: &Files, path_or_url: &str) -> Result<(Vec<u8>, String), CallError> {
    let path = files.path(path_or_url)?;
    let (handle, file) = files.read(&path).map_err(read_error)?;
    let shown = handle.path().display().to_string();
    // The read is limited, because the file may grow meanwhile.
    let mut bytes = Vec::new();
    let length = file.metadata().map_or(0, |about| about.len());
    if length <= MAX_FILE {
        let read = file.take(MAX_FILE + 1).read_to_end(&mut bytes);
        read.map_err(|error| read_error(FileError::io(handle.path(), error)))?;
    }
    if length.max(bytes.len() as u64) > MAX_FILE {
        let message = format!("{shown} is larger than the maximum of {} MiB", MAX_FILE >> 20);
        return Err(CallError::new(ErrorCode::TooLarge, message)
            .hint("Scale it down or crop it on the machine, and view the result."));
    }
    Ok((bytes, shown))
}

/// Adapts the hints to a tool without actions.
fn read_error(error: FileError) -> CallError {
    let hint = match &error {
        FileError::NotFound(_) => {
            Some("Look for it with the tool `filesystem`, action \"list\" or \"glob\".")
        }
        FileError::NotThis { .. } => Some("Give the path of an image file."),
        _ => None,
    };
    let error = CallError::from(error);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// Fetches a URL, if the policy allows it.
pub(super) async fn fetch(fetcher: &Fetcher, rules: ImageRules, url: &str) -> Result<Bytes, CallError> {
    if !rules.urls {
        return Err(CallError::new(ErrorCode::Forbidden, "the policy of this machine does not allow fetching images")
            .hint("Nothing was fetched. Give the `path` of a file, or ask the owner of the machine to change its node.toml.")
            .before_it_ran());
    }
    fetcher.get(url, rules.private_networks, ACCEPT).await.map_err(|error| {
        let (code, hint) = match &error {
            FetchError::Url(why) => return wrong("url", why),
            FetchError::Refused(_) => {
                (ErrorCode::Forbidden, "Nothing was fetched. Use another URL, or ask the owner of the machine.")
            }
            FetchError::Failed(_) => (ErrorCode::ToolFailed, "Check the URL."),
            FetchError::Status { .. } => (
                ErrorCode::ToolFailed,
                "Check the URL. It is requested without cookies and credentials; an image that requires a login must \
                 be downloaded on the machine.",
            ),
            FetchError::TooLong { .. } => {
                (ErrorCode::TooLarge, "Use a smaller version, or download it on the machine and scale it down there.")
            }
            FetchError::TooSlow { .. } => (ErrorCode::DeadlineExceeded, "Try again, or download it on the machine."),
        };
        CallError::new(code, error.to_string()).hint(hint)
    })
}
