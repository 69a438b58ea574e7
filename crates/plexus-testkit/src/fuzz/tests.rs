use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::{ConfigTarget, CursorTarget, HeadersTarget, JsonRpcTarget, Target, TokenTarget, UpstreamTarget};

/// Gives a target every input that is committed for it, in order of their names.
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
        assert!(ran.is_ok(), "{} breaks it; what did is above", path.display());
    }
}

#[test]
fn the_corpus_of_jsonrpc_holds() {
    replay::<JsonRpcTarget>();
}

#[test]
fn the_corpus_of_headers_holds() {
    replay::<HeadersTarget>();
}

#[test]
fn the_corpus_of_token_holds() {
    replay::<TokenTarget>();
}

#[test]
fn the_corpus_of_config_holds() {
    replay::<ConfigTarget>();
}

#[test]
fn the_corpus_of_cursor_holds() {
    replay::<CursorTarget>();
}

#[test]
fn the_corpus_of_upstream_holds() {
    replay::<UpstreamTarget>();
}
