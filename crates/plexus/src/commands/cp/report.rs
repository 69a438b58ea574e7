//! Reports a copy: a progress bar on a terminal, a JSON line for each file with `--json`.

use std::sync::Mutex;

use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{self, Bar};

pub(super) struct CopyReport {
    json: bool,
    bar: Bar,
    totals: Mutex<Totals>,
    started: std::time::Instant,
}

#[derive(Debug, Default)]
struct Totals {
    files: u64,
    bytes: u64,
    /// Bytes of these that did not have to be transferred.
    already_present: u64,
    failed: u64,
}

/// The result of one file.
#[derive(Debug)]
pub(super) struct CopiedFile {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    /// Bytes that an earlier run had transferred.
    pub(super) resumed: u64,
    /// Whether the target already had this content.
    pub(super) unchanged: bool,
}

impl CopyReport {
    pub(super) fn new(json: bool) -> Self {
        Self { json, bar: Bar::new(json), totals: Mutex::default(), started: std::time::Instant::now() }
    }

    pub(super) fn bar(&self) -> Bar {
        self.bar.clone()
    }

    fn totals(&self) -> std::sync::MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn copied(&self, copied: &CopiedFile) -> anyhow::Result<()> {
        {
            let mut totals = self.totals();
            totals.files += 1;
            totals.bytes += copied.bytes;
            totals.already_present += if copied.unchanged { copied.bytes } else { copied.resumed };
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

    /// Reports a file that could not be copied; the copy of the others continues.
    pub(super) fn failed(&self, from: &str, error: &anyhow::Error) -> anyhow::Result<Exit> {
        self.totals().failed += 1;
        let failure = error.downcast_ref::<Failure>();
        let hint = failure.and_then(|failure| failure.hint.clone());
        match self.json {
            true => output::json_event(
                &json!({ "event": "failed", "from": from, "message": format!("{error:#}"), "hint": hint }),
            )?,
            false => {
                self.bar.note(&format!("error: {from}: {error:#}"));
                if let Some(hint) = hint {
                    self.bar.note(&format!("hint: {hint}"));
                }
            }
        }
        Ok(failure.map_or(Exit::Failed, |failure| failure.exit))
    }

    pub(super) fn skipped(&self, what: &str) -> anyhow::Result<()> {
        match self.json {
            true => output::json_event(&json!({ "event": "left_out", "what": what })),
            false => {
                self.bar.note(&format!("skipped: {what}"));
                Ok(())
            }
        }
    }

    pub(super) fn end(&self) {
        self.bar.end();
    }

    pub(super) fn summary(&self) -> anyhow::Result<()> {
        self.bar.end();
        let totals = self.totals();
        let seconds = self.started.elapsed().as_secs_f64();
        if self.json {
            return output::json_event(&json!({
                "event": "summary",
                "files": totals.files,
                "bytes": totals.bytes,
                "carried": totals.bytes - totals.already_present,
                "failed": totals.failed,
                "seconds": seconds,
            }));
        }
        if self.bar.is_shown() {
            let rate = output::human_bytes(
                ((totals.bytes - totals.already_present) as f64 / seconds.max(0.001)) as u64,
            );
            let files =
                if totals.files == 1 { "1 file".to_owned() } else { format!("{} files", totals.files) };
            self.bar
                .note(&format!("{files}, {} in {seconds:.1} s, {rate}/s", output::human_bytes(totals.bytes)));
        }
        Ok(())
    }
}
