//! `plexus-bench files`: searching many files with the node's filesystem tool, compared with ripgrep on the same
//! tree.
//!
//! The tool is called as an agent calls it: through the hub, on the hub's own machine. ripgrep is a new process for
//! each search, as a person starts it. Both run alternately and must find the same.

mod report;
mod tree;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::MeasurementArgs;
use crate::machine::Machine;
use crate::nodes::site::Site;
use crate::report::write_measurement;
use crate::run::median;

/// The tool may take this many times as long as ripgrep.
const BUDGET: f64 = 1.5;

/// All measurements of a run.
#[derive(Debug, Serialize)]
struct Measured {
    machine: Machine,
    ripgrep: String,
    files: usize,
    rows: Vec<Row>,
}

/// One kind of search; medians in milliseconds.
#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    found: u64,
    ripgrep_ms: f64,
    tool_ms: f64,
}

impl Row {
    fn times(&self) -> f64 {
        self.tool_ms / self.ripgrep_ms
    }
}

/// A search, for both programs.
struct Search {
    what: &'static str,
    ripgrep: &'static [&'static str],
    arguments: Value,
}

fn searches() -> Vec<Search> {
    let grep = |pattern: &str, more: Value| {
        let mut call = json!({ "action": "grep", "pattern": pattern });
        if let (Some(call), Some(more)) = (call.as_object_mut(), more.as_object()) {
            call.extend(more.clone());
        }
        call
    };
    vec![
        Search {
            what: "grep, a word that is rare",
            ripgrep: &["-n", tree::RARE],
            arguments: grep(tree::RARE, json!({})),
        },
        Search {
            what: "grep, a regular expression",
            ripgrep: &["-n", r"fn\s+\w+_4711\b"],
            arguments: grep(r"fn\s+\w+_4711\b", json!({})),
        },
        Search {
            what: "grep, without case, in `*.py`",
            ripgrep: &["-n", "-i", "-g", "*.py", "RARE_WORD"],
            arguments: grep("RARE_WORD", json!({ "ignore_case": true, "files": ["*.py"] })),
        },
        Search {
            what: "grep, files only",
            ripgrep: &["-l", "return"],
            arguments: grep("return", json!({ "show": "files" })),
        },
        Search {
            what: "glob `*.rs`",
            ripgrep: &["--files", "-g", "*.rs"],
            arguments: json!({ "action": "glob", "pattern": "*.rs" }),
        },
    ]
}

pub(crate) async fn run(args: MeasurementArgs, scratch: &Path) -> Result<()> {
    let version = Command::new("rg").arg("--version").output();
    let Ok(version) = version else {
        bail!("ripgrep is required for the comparison: install `rg` (Debian: ripgrep)");
    };
    let ripgrep = String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or_default().to_owned();
    let plexus = args.plexus()?;
    let (folders, rounds) = if args.quick { (100, 1) } else { (1_000, 7) };
    let root = scratch.join("tree");
    eprintln!("{} files", folders * tree::FILES);
    let files = tree::make(&root, folders)?;
    let site = Site::open(&plexus, &scratch.join("site"), None).await?;
    let mut rows = Vec::new();
    for search in searches() {
        eprintln!("{}", search.what);
        rows.push(measure(&site, &root, &search, rounds).await?);
    }
    let measured = Measured { machine: Machine::detect(&plexus)?, ripgrep, files, rows };
    write_measurement("files", &report::text(&measured), &measured, &args)
}

async fn measure(site: &Site, root: &Path, search: &Search, rounds: usize) -> Result<Row> {
    let mut arguments = search.arguments.clone();
    arguments["path"] = root.display().to_string().into();
    let (mut theirs, mut ours, mut found) = (Vec::new(), Vec::new(), 0);
    // The first round only warms up the system's caches.
    for round in 0..=rounds {
        let (lines, ripgrep_ms) = ripgrep(root, search.ripgrep)?;
        let begun = Instant::now();
        let answer = site.call("filesystem", &arguments).await?;
        let tool_ms = begun.elapsed().as_secs_f64() * 1e3;
        let total = &answer["structured"]["total"];
        let counted = match arguments["show"] == "files" || arguments["action"] == "glob" {
            true => &total["entries"],
            false => &total["matches"],
        };
        ensure!(
            counted.as_u64() == Some(lines),
            "{}: ripgrep found {lines}, the tool {counted}: {}",
            search.what,
            total
        );
        found = lines;
        if round > 0 {
            theirs.push(ripgrep_ms);
            ours.push(tool_ms);
        }
    }
    let (ripgrep_ms, tool_ms) = (median(theirs.into_iter())?, median(ours.into_iter())?);
    Ok(Row { what: search.what, found, ripgrep_ms, tool_ms })
}

/// Number of lines in the output, and the duration.
fn ripgrep(root: &Path, arguments: &[&str]) -> Result<(u64, f64)> {
    let begun = Instant::now();
    let output = Command::new("rg").args(arguments).arg(root).stdin(Stdio::null()).output().context("rg")?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    ensure!(output.status.success(), "rg: {}", String::from_utf8_lossy(&output.stderr));
    Ok((output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64, took))
}
