//! The machine and the version of a run.

use std::path::Path;
use std::process::Command;
use std::{fmt, fs};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gb: f64,
    pub(crate) kernel: String,
    /// Load average of the minute before the run, which shows other activity.
    pub(crate) load_before: f64,
    pub(crate) plexus: String,
    pub(crate) date: String,
    pub(crate) command: Vec<String>,
}

impl Machine {
    pub(crate) fn detect(plexus: &Path) -> Result<Self> {
        let version = Command::new(plexus).arg("--version").env_clear().output();
        let version = version.with_context(|| format!("cannot run {}", plexus.display()))?;
        ensure!(version.status.success(), "{} is not a hub", plexus.display());
        let load = read("/proc/loadavg");
        Ok(Self {
            cpu: value(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gb: memory().unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_before: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default(),
            plexus: String::from_utf8_lossy(&version.stdout).trim().to_owned(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            command: std::env::args().skip(1).collect(),
        })
    }
}

/// The first line of a report.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, plexus, date, load_before, .. } = self;
        write!(
            f,
            "{cpu}, {cores} cores, {plexus}; {date}; load average {load_before:.2} in the minute before."
        )
    }
}

fn memory() -> Option<f64> {
    let kib: f64 = value(&read("/proc/meminfo"), "MemTotal")?.trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024.0 / 1e9)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn value(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start().trim_start_matches(':').trim().to_owned())
}
