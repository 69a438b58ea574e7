//! Time as a value that is passed in.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use plexus_proto::Timestamp;

/// Returns the current time. Cheap to clone; all clones of a manual clock advance together.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until it is set or advanced.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(start.as_millisecond()))))
    }

    /// The current time in whole milliseconds, so that stored times equal the times compared in memory.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => from_millis(Timestamp::now().as_millisecond()),
            Source::Manual(millis) => from_millis(millis.load(Ordering::SeqCst)),
        }
    }

    /// Sets a manual clock, also backwards, as may happen to a system clock.
    pub fn set(&self, to: Timestamp) {
        if let Source::Manual(millis) = &self.0 {
            millis.store(to.as_millisecond(), Ordering::SeqCst);
        }
    }

    /// Advances a manual clock; has no effect on the system clock.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(millis) = &self.0 {
            millis.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::System => "Clock::system",
            Source::Manual(_) => "Clock::manual",
        })
    }
}

/// A timestamp from stored milliseconds; out-of-range values are clamped.
#[must_use]
pub fn from_millis(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(if millis < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// `500ms`, `30s`, `5m`, `1h`, or a number of seconds.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    match unit.trim_start() {
        "ms" => Some(Duration::from_millis(number)),
        "" | "s" => Some(Duration::from_secs(number)),
        "m" | "min" => Some(Duration::from_secs(number.checked_mul(60)?)),
        "h" => Some(Duration::from_secs(number.checked_mul(3600)?)),
        _ => None,
    }
}
