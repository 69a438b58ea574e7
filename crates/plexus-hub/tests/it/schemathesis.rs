//! Generated requests: schemathesis derives them from the OpenAPI document and looks for answers that the document
//! does not allow.

use std::process::Output;
use std::time::Duration;

use plexus_testkit::{Pinned, TestHub};

const VERSION: &str = "4.32.5";
const RUN: Duration = Duration::from_secs(150);
/// Number of requests of each kind per operation.
const EXAMPLES: &str = "12";
/// Fixes the generated requests, so that every run sends the same ones.
const SEED: &str = "7420";
/// The enabled checks. Excluded are checks that expect more from the document than it can express, such as that
/// every text matching a pattern is an existing tool.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,negative_data_rejection,\
                      missing_required_header,unsupported_method,allow_header_conformance,use_after_free,\
                      ignored_auth";

/// Runs it against the hub with this token.
///
/// `which` selects the operations; streams never end and are always excluded.
async fn run(program: &Pinned, hub: &TestHub, token: &str, which: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = folder.path().join("schemathesis.toml");
    // The token is not an argument, because arguments are visible to all users of the machine. A request that may wait
    // for a change for a minute would use up the time of the run.
    let settings =
        "headers = { Authorization = \"Bearer ${PLEXUS_TOKEN}\" }\nparameters = { \"query.wait\" = 0 }\n";
    std::fs::write(&config, settings).unwrap();
    let mut command = program.command("schemathesis", folder.path());
    command
        .arg("--config-file")
        .arg(&config)
        .args(["--no-color", "run", &hub.url("/api/v1/openapi.json")])
        .args(["--checks", CHECKS, "--max-examples", EXAMPLES, "--seed", SEED, "--workers", "1"])
        .args(["--generation-database", "none", "--generation-with-security-parameters", "false"])
        .args(which)
        .args(["--warnings", "off", "--request-timeout", "20", "--continue-on-failure"])
        .env("PLEXUS_TOKEN", token);
    tokio::time::timeout(RUN, command.output()).await.expect("an end in time").expect("the program runs")
}

/// Asserts that no problem was found, and that requests were made.
fn check(output: &Output) {
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("No issues found"), "{stdout}");
}

/// The requests came from this subject, and some of them succeeded: refusals alone prove little.
async fn assert_busy(hub: &TestHub, subject: &str) {
    let sessions = hub.api(&format!("/api/v1/sessions?owner={subject}&limit=200")).await;
    let sessions = sessions["items"].as_array().unwrap();
    assert!(sessions.iter().any(|session| session["key"].as_str().unwrap().starts_with("named:")));
    assert!(sessions.iter().any(|session| session["last_seq"].as_u64().unwrap() > 0));
}

#[tokio::test]
async fn schemathesis_finds_nothing_as_an_admin() {
    let Some(program) = Pinned::python("schemathesis", VERSION).await else { return };
    let hub = TestHub::start().await;
    // Operations that could end the token of this run are tested separately.
    let others = ["--exclude-path-regex", "/(keys|tokens/)|/stream$"];
    check(&run(&program, &hub, &hub.admin_token(), &others).await);
    assert_busy(&hub, "admin:local").await;
}

#[tokio::test]
async fn schemathesis_finds_nothing_as_an_agent() {
    let Some(program) = Pinned::python("schemathesis", VERSION).await else { return };
    let hub = TestHub::start().await;
    let token = hub.token("fuzzer", &["call:*"]).await.token;
    check(&run(&program, &hub, &token, &["--exclude-path-regex", "/stream$"]).await);
    assert_busy(&hub, "agent:fuzzer").await;
}

#[tokio::test]
async fn schemathesis_finds_nothing_in_keys_and_tokens() {
    let Some(program) = Pinned::python("schemathesis", VERSION).await else { return };
    let hub = TestHub::start().await;
    // A revoked token is still shown, as revoked.
    let keys = ["--include-path-regex", "/(keys|tokens)", "--exclude-checks", "use_after_free"];
    check(&run(&program, &hub, &hub.admin_token(), &keys).await);
}
