//! The official conformance suite, run against a server.
//!
//! Its two pinned versions are sets of `scripts/node-env`. It does not support tokens: a server that requires one
//! is reached through a [`Link`](crate::Link) that adds it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::Pinned;

/// Time limit for all scenarios of a revision: far beyond what they take.
const RUN: Duration = Duration::from_secs(150);

/// The suite's output folder, in its home.
const RESULTS: &str = "results";

/// A version of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// The released version, for 2025-06-18 and 2025-11-25.
    Sessions,
    /// The version that also supports 2026-07-28, and parts of 2025-03-26.
    Stateless,
}

/// The results by scenario.
#[derive(Debug)]
pub struct Report {
    pub scenarios: BTreeMap<String, Vec<Check>>,
}

/// One check of a scenario.
#[derive(Debug, Clone)]
pub struct Check {
    pub id: String,
    /// `SUCCESS`, `FAILURE`, `WARNING`, `SKIPPED` or `INFO`.
    pub status: String,
    /// The suite's explanation; empty if there is none.
    pub why: String,
}

impl Check {
    /// Whether the check passed or is informational only.
    pub fn is_good(&self) -> bool {
        matches!(self.status.as_str(), "SUCCESS" | "INFO")
    }
}

impl Report {
    /// The checks that did not pass, each with its scenario.
    pub fn complaints(&self) -> impl Iterator<Item = (&str, &Check)> {
        self.scenarios.iter().flat_map(|(scenario, checks)| {
            checks.iter().filter(|check| !check.is_good()).map(move |check| (scenario.as_str(), check))
        })
    }
}

impl Suite {
    /// Its set in `scripts/node-env`.
    pub fn set(self) -> &'static str {
        match self {
            Self::Sessions => "conformance-1",
            Self::Stateless => "conformance-2",
        }
    }
}

/// Runs every scenario of a revision against the server at `url`; `None` on a machine without npm, except in CI.
pub async fn run(suite: Suite, url: &str, revision: &str) -> Option<Report> {
    let program = Pinned::npm(suite.set()).await?;
    let home = tempfile::tempdir().expect("a temporary folder");
    let suite_output =
        server(&program, home.path(), url, &["--suite", "all", "--spec-version", revision]).await;
    assert!(suite_output.contains("=== SUMMARY ==="), "the suite stopped early:\n{suite_output}");
    let started = suite_output.lines().filter_map(|line| line.strip_prefix("Running client scenario '"));
    let started = started.filter_map(|line| line.split('\'').next());
    let scenarios = started.map(|name| (name.to_owned(), checks(&home.path().join(RESULTS), name))).collect();
    Some(Report { scenarios })
}

/// Runs one scenario, such as those of extensions, which belong to no revision.
pub async fn run_one(suite: Suite, url: &str, scenario: &str) -> Option<Vec<Check>> {
    let program = Pinned::npm(suite.set()).await?;
    let home = tempfile::tempdir().expect("a temporary folder");
    server(&program, home.path(), url, &["--scenario", scenario]).await;
    Some(checks(&home.path().join(RESULTS), scenario))
}

/// The suite's output for a server. Its exit code is ignored, because the caller judges the results.
async fn server(program: &Pinned, home: &Path, url: &str, args: &[&str]) -> String {
    let mut command = program.command("conformance", home);
    command.args(["server", "--url", url, "--output-dir"]).arg(home.join(RESULTS)).args(args);
    let Output { stdout, stderr, .. } = output_of(command).await;
    format!("{}\n{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr))
}

/// The names of all server scenarios of a suite, in order.
pub async fn scenarios(suite: Suite) -> Option<Vec<String>> {
    let program = Pinned::npm(suite.set()).await?;
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut command = program.command("conformance", home.path());
    command.args(["list", "--server"]);
    let output = output_of(command).await;
    assert!(output.status.success(), "{output:?}");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = listed.lines().filter_map(|line| line.trim_start().strip_prefix("- ")?.split(' ').next());
    Some(names.map(str::to_owned).collect())
}

async fn output_of(mut command: Command) -> Output {
    let ended = tokio::time::timeout(RUN, command.output()).await;
    ended.expect("the suite ends in time").expect("the suite runs")
}

/// The checks of a scenario, from the folder named after it and the time of the run.
fn checks(results: &Path, scenario: &str) -> Vec<Check> {
    let prefix = format!("server-{scenario}-");
    let folders = std::fs::read_dir(results).into_iter().flatten().flatten();
    let mut of_this = folders.filter(|folder| {
        let name = folder.file_name();
        let time = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        time.is_some_and(|time| time.starts_with(|first: char| first.is_ascii_digit()))
    });
    let Some(folder) = of_this.next() else {
        // The scenario stopped early; a missing result must not count as passed.
        let why = "the suite wrote no result".to_owned();
        return vec![Check { id: scenario.to_owned(), status: "FAILURE".to_owned(), why }];
    };
    let text = std::fs::read_to_string(folder.path().join("checks.json")).expect("its checks");
    let checks: Vec<Value> = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let check = |check: &Value| Check {
        id: text(check, "id"),
        status: text(check, "status"),
        why: text(check, "errorMessage"),
    };
    checks.iter().map(check).collect()
}
