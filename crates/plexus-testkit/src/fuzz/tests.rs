use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::{ConfigTarget, CursorTarget, HeadersTarget, JsonRpcTarget, Target, TokenTarget, UpstreamTarget};

/// Runs a target with all its committed inputs, in the order of their names.
fn replay<T: Target>() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(T::NAME);
    let entries = std::fs::read_dir(&folder).expect("a folder of inputs");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= 10, "only {} inputs in {}", paths.len(), folder.display());
    let mut target = T::start();
    for path in paths {
        let input = std::fs::read(&path).expect("an input");
        let ran = catch_unwind(AssertUnwindSafe(|| target.run(&input)));
        assert!(ran.is_ok(), "{} fails; the reason is above", path.display());
    }
}

#[test]
fn corpus_of_jsonrpc_passes() {
    replay::<JsonRpcTarget>();
}

#[test]
fn corpus_of_headers_passes() {
    replay::<HeadersTarget>();
}

#[test]
fn corpus_of_token_passes() {
    replay::<TokenTarget>();
}

#[test]
fn corpus_of_config_passes() {
    replay::<ConfigTarget>();
}

#[test]
fn corpus_of_cursor_passes() {
    replay::<CursorTarget>();
}

#[test]
fn corpus_of_upstream_passes() {
    replay::<UpstreamTarget>();
}
