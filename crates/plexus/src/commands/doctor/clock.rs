//! Checks the clock: a wrong clock makes the hub refuse valid tokens.

use jiff::fmt::rfc2822;
use plexus_proto::Timestamp;

use super::Finding;
use super::hub::RunningHub;

const CHECK: &str = "clock";
/// Allowed difference between the clocks, in seconds.
const DRIFT: i64 = 30;
const FIX: &str = "sudo timedatectl set-ntp true";

pub(super) fn check(now: Timestamp, hub: Option<&RunningHub>) -> Finding {
    judge(now, hub.and_then(|hub| Some((hub.subject.as_str(), hub.date.as_deref()?))))
}

/// `hub` is its name and its date.
fn judge(now: Timestamp, hub: Option<(&str, &str)>) -> Finding {
    let year: i32 = now.strftime("%Y").to_string().parse().unwrap_or_default();
    if !(2025..2100).contains(&year) {
        return Finding::problem(CHECK, format!("the year on this machine is {year}"), FIX);
    }
    let shown = now.strftime("%Y-%m-%d %H:%M:%SZ");
    let Some((hub, date)) = hub else {
        return Finding::ok(CHECK, format!("{shown}; no hub to compare with"));
    };
    match rfc2822::parse(date) {
        Ok(hub_time) => match (hub_time.timestamp().as_second() - now.as_second()).abs() {
            apart if apart > DRIFT => Finding::problem(
                CHECK,
                format!("the clocks of this machine and of {hub} differ by {apart} s"),
                FIX,
            ),
            apart => Finding::ok(CHECK, format!("{shown}, {apart} s from the clock of {hub}")),
        },
        Err(_) => Finding::warning(
            CHECK,
            format!("the response of {hub} has no valid date"),
            "check whether a reverse proxy changes the Date header",
        ),
    }
}

#[cfg(test)]
mod tests;
