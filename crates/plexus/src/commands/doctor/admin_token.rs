//! Checks that the token of local commands exists, is private and does not expire soon.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plexus_kit::private_file;
use plexus_proto::Timestamp;
use serde::Deserialize;

use super::{CheckContext, Finding};
use crate::shell;

const CHECK: &str = "admin token";
/// With less time left, the hub creates a new token at start.
const MONTH: i64 = 30 * 24 * 3600;

#[derive(Deserialize)]
struct Claims {
    exp: i64,
}

pub(super) fn check(context: &CheckContext, now: Timestamp) -> Finding {
    let path = context.config.data_dir.join("admin-token");
    let restart = format!("restart the hub, which creates a new one: {} up", context.plexus);
    let content = match private_file::read(&path) {
        Ok(Some(content)) => content,
        Ok(None) => {
            return Finding::warning(CHECK, "there is none; the hub creates one when it starts", restart);
        }
        Err(_) => {
            let message = "others can read the token, which allows everything";
            return Finding::problem(CHECK, message, format!("chmod 600 {}", shell::word(&path)));
        }
    };
    let Some(left) = expiry(&content).map(|at| at - now.as_second()) else {
        return Finding::problem(CHECK, format!("{} does not contain a token", path.display()), restart);
    };
    judge(left, restart)
}

fn judge(left: i64, restart: String) -> Finding {
    let days = left / (24 * 3600);
    match left {
        ..=0 => Finding::problem(CHECK, "it has expired", restart),
        1..=MONTH => Finding::warning(CHECK, format!("it expires in {days} days"), restart),
        _ => Finding::ok(CHECK, format!("valid for {days} days")),
    }
}

/// The expiry that the token claims; only the hub can verify the token.
fn expiry(token: &[u8]) -> Option<i64> {
    let token = std::str::from_utf8(token).ok()?.trim();
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    Some(serde_json::from_slice::<Claims>(&claims).ok()?.exp)
}

#[cfg(test)]
mod tests;
