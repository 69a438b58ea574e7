//! Tests of `code_exec` with real interpreters, and with malicious code.
//!
//! Every snippet here is also bounded by itself: if a limit does not work, a test fails and the machine keeps
//! running.

mod bombs;
mod ends;
mod files;
mod hogs;
mod killed;
mod languages;
mod levels;
mod output;

use serde_json::{Value, json};

use crate::workbench::{Workbench, poll_until};

/// Low limits, and no sandbox.
const SMALL: &str = r#"
[sandbox]
level = "none"
[code]
seconds = 10
cpu_seconds = 8
memory_mb = 96
file_mb = 4
processes = 12
output_kb = 16
"#;

async fn small() -> Workbench {
    Workbench::with_launcher(SMALL).await
}

/// Runs Python.
async fn python(bench: &Workbench, code: &str) -> Value {
    bench.code(json!({ "language": "python", "code": code })).await.unwrap()
}

/// The processes of this machine's snippets, which all have its folder in their environment.
fn running(bench: &Workbench) -> Vec<u32> {
    let folder = bench.folder().display().to_string();
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_it = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        *pid != std::process::id() && String::from_utf8_lossy(&environment).contains(&folder)
    };
    numbers.filter(has_it).collect()
}

/// The snippet folders that still exist.
fn folders(bench: &Workbench) -> usize {
    std::fs::read_dir(bench.folder().join("code")).unwrap().count()
}

/// An answer is returned only after everything was removed.
fn nothing_is_left(bench: &Workbench) {
    assert_eq!((running(bench), folders(bench)), (vec![], 0));
}

/// The same, after a while.
async fn nothing_will_be_left(bench: &Workbench) {
    poll_until(async || (running(bench).is_empty() && folders(bench) == 0).then_some(())).await;
}
