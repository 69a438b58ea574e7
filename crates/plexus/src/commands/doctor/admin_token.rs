//! Whether the token with which commands on this machine reach the hub is there, private and good
//! for a while.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plexus_kit::private_file;
use plexus_proto::Timestamp;
use serde::Deserialize;

use super::{Finding, Subject};
use crate::shell;

const CHECK: &str = "admin token";
/// With less than this left, the hub makes a new one when it starts.
const MONTH: i64 = 30 * 24 * 3600;

#[derive(Deserialize)]
struct Claims {
    exp: i64,
}

pub(super) fn check(subject: &Subject, now: Timestamp) -> Finding {
    let path = subject.config.data_dir.join("admin-token");
    let restart = format!("restart the hub, which makes a new one: {} up", subject.plexus);
    let content = match private_file::read(&path) {
        Ok(Some(content)) => content,
        Ok(None) => {
            return Finding::warning(CHECK, "there is none; the hub makes one when it starts", restart);
        }
        Err(_) => {
            let message = "others can read the token, and who has it may do everything";
            return Finding::problem(CHECK, message, format!("chmod 600 {}", shell::word(&path)));
        }
    };
    let Some(left) = expiry(&content).map(|at| at - now.as_second()) else {
        return Finding::problem(CHECK, format!("{} holds no token", path.display()), restart);
    };
    judge(left, restart)
}

fn judge(left: i64, restart: String) -> Finding {
    let days = left / (24 * 3600);
    match left {
        ..=0 => Finding::problem(CHECK, "it has expired", restart),
        1..=MONTH => Finding::warning(CHECK, format!("it expires in {days} days"), restart),
        _ => Finding::ok(CHECK, format!("good for {days} days")),
    }
}

/// When the token ends, as it says itself; only the hub can tell whether it is genuine.
fn expiry(token: &[u8]) -> Option<i64> {
    let token = std::str::from_utf8(token).ok()?.trim();
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    Some(serde_json::from_slice::<Claims>(&claims).ok()?.exp)
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::{MONTH, URL_SAFE_NO_PAD, expiry, judge};
    use base64::Engine as _;

    #[test]
    fn a_token_that_ends_soon_is_found() {
        let level = |left| judge(left, String::new()).level;
        assert_eq!(
            [0, 1, MONTH, MONTH + 1].map(level),
            [Level::Problem, Level::Warning, Level::Warning, Level::Ok]
        );
    }

    #[test]
    fn the_end_of_a_token_is_read_from_the_token() {
        let token = format!("e30.{}.c2ln\n", URL_SAFE_NO_PAD.encode(r#"{"exp":1767225600}"#));
        assert_eq!(expiry(token.as_bytes()), Some(1_767_225_600));
        for damaged in ["", "x", "a.b.c", "e30.e30.x"] {
            assert_eq!(expiry(damaged.as_bytes()), None, "{damaged}");
        }
    }
}
