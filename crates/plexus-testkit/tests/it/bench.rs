//! `plexus-bench`, run for moments instead of minutes. The tests check that it works, not the measurements.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use plexus_testkit::{Signal, send};
use serde_json::Value;
use tokio::process::{Child, Command};

/// Far longer than a run takes here.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Contenders that need no network, with short measurements.
const BRIEF: [&str; 11] = [
    "--rounds",
    "1",
    "--seconds",
    "0.02",
    "--tools",
    "20",
    "--sessions",
    "5",
    "--only",
    "direct,floor,plexus,upstream,upstream-old,upstream-stdio,upstream-sse,plexus-list",
    "--json",
];

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plexus-bench"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn finished(mut command: Command) -> Output {
    tokio::time::timeout(TIMEOUT, command.output()).await.expect("an end in time").expect("the program runs")
}

/// The hub built with the workspace; `None` if only this crate was built, except in CI.
fn hub() -> Option<PathBuf> {
    let hub = Path::new(env!("CARGO_BIN_EXE_plexus-bench")).with_file_name("plexus");
    if hub.exists() {
        return Some(hub);
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "CI must build {}", hub.display());
    println!("skipped the benchmark of the hub: {} does not exist", hub.display());
    None
}

#[tokio::test]
async fn benchmark_reports_every_row_without_failed_calls() {
    if hub().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (json, docs) = (folder.path().join("bench.json"), folder.path().join("page.md"));
    let page =
        "Before.\n<!-- Written by `make bench`: begin -->\n<!-- Written by `make bench`: end -->\nAfter.\n";
    std::fs::write(&docs, page).unwrap();
    let mut command = bench(&BRIEF);
    command.arg(&json).arg("--docs").arg(&docs);
    let output = finished(command).await;
    let (printed, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");

    let results: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert!(results["machine"]["cores"].as_u64().unwrap() > 0, "{results}");
    assert!(results["at_rest"]["rss_mb"].as_f64().unwrap() > 1.0, "{results}");
    let keys = |rows: &str| -> Vec<String> {
        let rows = results[rows].as_array().unwrap().iter();
        rows.map(|row| {
            let calls = row["figures"]["calls_per_second"].as_f64();
            assert!(calls.is_some_and(|calls| calls > 0.0) && row["missing"].is_null(), "{row}");
            format!("{} {} {}", row["contender"], row["workload"], row["era"]).replace('"', "")
        })
        .collect()
    };
    let rows = |names: &[&str], each: usize| -> Vec<String> {
        let eras = ["2025-11-25", "2026-07-28"];
        let rows = names.iter().flat_map(|name| eras.map(|era| format!("{name} {era}")));
        rows.flat_map(|row| vec![row; each]).collect()
    };
    let calls = [
        "direct echo",
        "floor echo",
        "plexus todo list",
        "plexus todo update",
        "upstream echo",
        "upstream-old echo",
        "upstream-stdio echo",
        "upstream-sse echo",
    ];
    assert_eq!(keys("calls"), rows(&calls, 3));
    let lists = ["direct tools/list", "floor tools/list", "upstream tools/list", "plexus-list tools/list"];
    assert_eq!(keys("lists"), rows(&lists, 2));
    for row in results["idle"].as_array().unwrap() {
        assert!(row["figures"]["rss_after_mb"].as_f64().unwrap() > 1.0, "{row}");
    }

    assert!(printed.contains("| Plexus, todo list"), "{printed}");
    assert!(printed.contains("| Plexus → stdio"), "{printed}");
    let written = std::fs::read_to_string(&docs).unwrap();
    assert!(written.starts_with("Before.\n") && written.ends_with("After.\n"), "{written}");
    assert!(written.contains(printed.trim()), "{written}");
}

#[tokio::test]
async fn benchmark_of_the_proxy_reports_every_table() {
    if hub().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (json, docs) = (folder.path().join("bench.json"), folder.path().join("page.md"));
    let mark = |position: &str| format!("<!-- Written by `make bench ARGS=proxy`: {position} -->\n");
    std::fs::write(&docs, format!("Before.\n{}{}After.\n", mark("begin"), mark("end"))).unwrap();
    let mut command = bench(&["proxy", "--quick", "--json"]);
    command.arg(&json).arg("--docs").arg(&docs);
    let output = finished(command).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let measured: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let length = |name: &str| measured[name].as_array().map(Vec::len);
    assert_eq!(
        (length("calls"), length("replays"), length("idle")),
        (Some(4), Some(2), Some(2)),
        "{measured}"
    );
    let page = std::fs::read_to_string(&docs).unwrap();
    let rows: Vec<Vec<&str>> = page.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    for cells in [&["`todo list`", "2026-07-28"][..], &["a proxy over stdio"], &["over HTTP"]] {
        assert!(rows.iter().any(|row| row.get(1..=cells.len()) == Some(cells)), "no {cells:?} in {page}");
    }
}

#[tokio::test]
async fn interrupted_benchmark_ends_its_processes() {
    if hub().is_none() {
        return;
    }
    let mut run = bench(&["--seconds", "60", "--only", "floor"]).spawn().expect("the program runs");
    // The pass-through, and the echo server behind it.
    let children = loop_until(|| Some(children(&run)).filter(|children| children.len() == 2)).await;
    send(&run, Signal::INT);
    let status = tokio::time::timeout(TIMEOUT, run.wait()).await.expect("an end in time").unwrap();
    assert_eq!(status.code(), Some(130));
    for child in children {
        assert!(!Path::new("/proc").join(&child).exists(), "{child} still runs");
    }
}

#[tokio::test]
async fn unknown_contender_is_refused_with_the_known_ones() {
    if hub().is_none() {
        return;
    }
    let output = finished(bench(&["--only", "nobody"])).await;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("unknown contender `nobody`") && stderr.contains("direct, floor, plexus"),
        "{stderr}"
    );
}

/// Process ids of a process's children.
fn children(of: &Child) -> Vec<String> {
    let id = of.id().expect("a running process");
    let ids = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    ids.split_whitespace().map(ToOwned::to_owned).collect()
}

async fn loop_until<T>(look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < TIMEOUT, "it did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
