//! Checks that the hub's signing key exists, is private and is valid.

use std::os::unix::fs::PermissionsExt;

use plexus_auth::KeyRing;
use plexus_kit::Clock;

use super::{CheckContext, Finding};
use crate::shell;

const CHECK: &str = "signing key";

pub(super) fn check(context: &CheckContext, has_database: bool) -> Finding {
    let path = context.config.data_dir.join("signing-key");
    let word = shell::word(&path);
    match KeyRing::load(&context.config.data_dir, Clock::system()) {
        Ok(Some(keys)) => {
            let names: Vec<String> =
                keys.list().iter().map(|key| format!("{} ({})", key.kid, key.state.as_str())).collect();
            Finding::ok(CHECK, names.join(", "))
        }
        Ok(None) if has_database => {
            let message =
                format!("{} is missing: with a new key, every token becomes invalid", path.display());
            Finding::problem(CHECK, message, "restore it from a backup before you start the hub again")
        }
        Ok(None) => {
            let message = "there is none; the hub creates one when it starts";
            Finding::warning(CHECK, message, format!("{} up", context.plexus))
        }
        Err(error) => {
            let open = fs_err::metadata(&path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0);
            if open {
                let message = "others can read the key and create tokens with it";
                return Finding::problem(CHECK, message, format!("chmod 600 {word}"));
            }
            // Tokens of a lost key are invalid; without the damaged file, the hub creates a new key at its next start.
            let fix = format!(
                "restore the key from a backup; without one, mv {word} {word}.damaged and create all tokens again"
            );
            Finding::problem(CHECK, error.to_string(), fix)
        }
    }
}
