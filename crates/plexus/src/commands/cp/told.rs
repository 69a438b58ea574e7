//! What a copy tells: a bar for people, a line of JSON for each file for programs.

use std::sync::Mutex;

use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{self, Bar};

pub(super) struct Told {
    json: bool,
    bar: Bar,
    sum: Mutex<Sum>,
    begun: std::time::Instant,
}

#[derive(Debug, Default)]
struct Sum {
    files: u64,
    bytes: u64,
    /// Of these, bytes that did not have to be carried.
    there_before: u64,
    failed: u64,
}

/// How it went with one file.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    /// Bytes that were there from an earlier run.
    pub(super) resumed: u64,
    /// It was there as a whole.
    pub(super) unchanged: bool,
}

impl Told {
    pub(super) fn new(json: bool) -> Self {
        Self { json, bar: Bar::new(json), sum: Mutex::default(), begun: std::time::Instant::now() }
    }

    pub(super) fn bar(&self) -> Bar {
        self.bar.clone()
    }

    fn sum(&self) -> std::sync::MutexGuard<'_, Sum> {
        self.sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn copied(&self, copied: &Copied) -> anyhow::Result<()> {
        {
            let mut sum = self.sum();
            sum.files += 1;
            sum.bytes += copied.bytes;
            sum.there_before += if copied.unchanged { copied.bytes } else { copied.resumed };
        }
        match self.json {
            true => output::json_event(&json!({
                "event": "file",
                "from": copied.from,
                "to": copied.to,
                "bytes": copied.bytes,
                "sha256": copied.sha256,
                "resumed_at": copied.resumed,
                "unchanged": copied.unchanged,
            })),
            false => Ok(()),
        }
    }

    /// One of several files could not be copied; the others go on.
    pub(super) fn failed(&self, from: &str, error: &anyhow::Error) -> anyhow::Result<Exit> {
        self.sum().failed += 1;
        let failure = error.downcast_ref::<Failure>();
        let hint = failure.and_then(|failure| failure.hint.clone());
        match self.json {
            true => output::json_event(
                &json!({ "event": "failed", "from": from, "message": format!("{error:#}"), "hint": hint }),
            )?,
            false => {
                self.bar.remark(&format!("error: {from}: {error:#}"));
                if let Some(hint) = hint {
                    self.bar.remark(&format!("hint: {hint}"));
                }
            }
        }
        Ok(failure.map_or(Exit::Failed, |failure| failure.exit))
    }

    pub(super) fn left_out(&self, what: &str) -> anyhow::Result<()> {
        match self.json {
            true => output::json_event(&json!({ "event": "left_out", "what": what })),
            false => {
                self.bar.remark(&format!("left out: {what}"));
                Ok(())
            }
        }
    }

    pub(super) fn end(&self) {
        self.bar.end();
    }

    pub(super) fn summary(&self) -> anyhow::Result<()> {
        self.bar.end();
        let sum = self.sum();
        let seconds = self.begun.elapsed().as_secs_f64();
        if self.json {
            return output::json_event(&json!({
                "event": "summary",
                "files": sum.files,
                "bytes": sum.bytes,
                "carried": sum.bytes - sum.there_before,
                "failed": sum.failed,
                "seconds": seconds,
            }));
        }
        if self.bar.is_shown() {
            let rate =
                output::bytes_in_words(((sum.bytes - sum.there_before) as f64 / seconds.max(0.001)) as u64);
            let files = if sum.files == 1 { "1 file".to_owned() } else { format!("{} files", sum.files) };
            self.bar.remark(&format!(
                "{files}, {} in {seconds:.1} s, {rate}/s",
                output::bytes_in_words(sum.bytes)
            ));
        }
        Ok(())
    }
}
