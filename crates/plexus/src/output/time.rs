//! Formats times and durations.

use plexus_proto::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Times at least this far away are formatted as a date.
const MAX_RELATIVE: i64 = 60 * DAY;

/// `2026-01-02 03:04:05Z`.
pub(super) fn utc(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// `now`, `5m ago`, `in 3h`, or a date.
pub(super) fn relative(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.as_second().saturating_sub(now.as_second());
    match seconds {
        -4..=4 => "now".to_owned(),
        _ if seconds.abs() >= MAX_RELATIVE => at.strftime("%Y-%m-%d").to_string(),
        _ if seconds < 0 => format!("{} ago", coarse(-seconds)),
        _ => format!("in {}", coarse(seconds)),
    }
}

fn coarse(seconds: i64) -> String {
    match seconds {
        ..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => format!("{}h", seconds / HOUR),
        _ => format!("{}d", seconds / DAY),
    }
}

/// `12ms`, `3.4s`, `5m 6s`, `2d 3h`.
pub(super) fn duration(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    match milliseconds {
        ..1_000 => format!("{milliseconds}ms"),
        1_000..60_000 => format!("{seconds}.{}s", milliseconds % 1000 / 100),
        _ if seconds < HOUR => format!("{}m {}s", seconds / MINUTE, seconds % MINUTE),
        _ if seconds < DAY => format!("{}h {}m", seconds / HOUR, seconds % HOUR / MINUTE),
        _ => format!("{}d {}h", seconds / DAY, seconds % DAY / HOUR),
    }
}
