//! Passes the environment of a command through intermediate programs that it must not affect.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// The name prefix of a command's variables until it is executed; a number follows.
const NAME: &str = "PLEXUS_LAUNCH_";

/// The variables for the launcher.
#[must_use]
pub fn packed(variables: &[(String, String)]) -> Vec<(String, String)> {
    let pack = |(index, (name, value)): (usize, &(String, String))| {
        (format!("{NAME}{index}"), format!("{name}={value}"))
    };
    variables.iter().enumerate().map(pack).collect()
}

/// The variables for the command.
pub(super) fn unpacked(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    variables
        .filter(|(name, _)| name.as_bytes().starts_with(NAME.as_bytes()))
        .filter_map(|(_, text)| split(&text))
        .collect()
}

fn split(text: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = text.as_bytes();
    let end = bytes.iter().position(|byte| *byte == b'=')?;
    Some((OsString::from_vec(bytes[..end].to_vec()), OsString::from_vec(bytes[end + 1..].to_vec())))
}
