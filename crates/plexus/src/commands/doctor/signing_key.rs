//! Whether the hub's signing key is there, private and whole.

use std::os::unix::fs::PermissionsExt;

use plexus_auth::KeyRing;
use plexus_kit::Clock;

use super::{Finding, Subject};
use crate::shell;

const CHECK: &str = "signing key";

pub(super) fn check(subject: &Subject, has_database: bool) -> Finding {
    let path = subject.config.data_dir.join("signing-key");
    let word = shell::word(&path);
    match KeyRing::load(&subject.config.data_dir, Clock::system()) {
        Ok(Some(keys)) => {
            let names: Vec<String> =
                keys.list().iter().map(|key| format!("{} ({})", key.kid, key.state.as_str())).collect();
            Finding::ok(CHECK, names.join(", "))
        }
        Ok(None) if has_database => {
            let message = format!("{} is gone: with a new one, every token would end", path.display());
            Finding::problem(CHECK, message, "put it back from a backup before the hub is started again")
        }
        Ok(None) => {
            let message = "there is none; the hub makes one when it starts";
            Finding::warning(CHECK, message, format!("{} up", subject.plexus))
        }
        Err(error) => {
            let open = fs_err::metadata(&path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0);
            if open {
                let message = "others can read the key, and who has it can make tokens";
                return Finding::problem(CHECK, message, format!("chmod 600 {word}"));
            }
            // Tokens of a lost key are worth nothing: setting it aside makes a new one at the next start.
            let fix = format!(
                "put the key back from a backup; without one, mv {word} {word}.damaged and make all tokens anew"
            );
            Finding::problem(CHECK, error.to_string(), fix)
        }
    }
}
