//! The examples in docs/rest.md, run as printed.

use std::time::Duration;

use plexus_testkit::TestHub;
use tokio::process::Command;

const RUN: Duration = Duration::from_secs(30);

/// The shell blocks of the page, in order.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[tokio::test]
async fn examples_of_the_rest_page_work_as_printed() {
    let page = include_str!("../../../../docs/rest.md");
    let blocks = blocks(page);
    let (variables, examples) = blocks.split_first().expect("examples");
    assert!(variables.starts_with("HUB=") && !examples.is_empty(), "{variables}");
    let hub = TestHub::start().await;
    // The page's placeholders for the address and the token are replaced. An HTTP error fails the line that caused
    // it.
    let script =
        format!("set -eu\ncurl() {{ command curl --fail-with-body \"$@\"; }}\n{}", examples.join("\n"));
    let run = Command::new("/bin/sh")
        .args(["-c", &script])
        .env("HUB", hub.url(""))
        .env("TOKEN", hub.admin_token())
        .env("NO_PROXY", "127.0.0.1")
        .kill_on_drop(true)
        .output();
    let ran = tokio::time::timeout(RUN, run).await.expect("an end in time").expect("a shell");
    let stdout = String::from_utf8_lossy(&ran.stdout);
    if ran.status.code() == Some(127) && std::env::var_os("CI").is_none_or(|ci| ci != "true") {
        println!("skipped the examples of docs/rest.md: curl is not installed");
        return;
    }
    assert!(ran.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&ran.stderr));
    for part in ["write the docs", "\"key\":\"named:release\"", "\"external_id\":\"tag-1\"", "304"] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
}
