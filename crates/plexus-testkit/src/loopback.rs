//! A network with only loopback, for tests of programs that might contact their vendor.
//!
//! The test runs itself again in a new network namespace, together with everything it starts: the hub, the model
//! and the agent. If the machine does not allow namespaces, the test prints that and runs in the normal network; in
//! CI that is a failure.

use std::any::type_name;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::runtime::Runtime;

/// Marks a test that runs in the namespace.
const INSIDE_VARIABLE: &str = "PLEXUS_TEST_ON_LOOPBACK";
/// As root, and as another user.
const UNSHARE_OPTIONS: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
/// In a new namespace, loopback is down.
const ENABLE_LOOPBACK: &str = r#"ip link set lo up && exec "$@""#;
/// Time limit for the whole inner test; nextest ends one that takes longer.
const TIMEOUT: Duration = Duration::from_secs(170);

/// Runs the body of a `#[test]` on loopback only. The body must be a closure of the test function itself, from
/// which the test's name is derived.
pub fn on_loopback<F: AsyncFnOnce()>(body: F) {
    run(runtime(), &test_name::<F>(), body());
}

pub(crate) fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
}

/// Runs the test with this name again in a namespace or, if already inside one, its body.
pub(crate) fn run(runtime: Runtime, test: &str, body: impl Future<Output = ()>) {
    let inside = std::env::var_os(INSIDE_VARIABLE).is_some();
    match UNSHARE_OPTIONS.iter().find(|options| !inside && can_unshare(options)) {
        Some(options) => runtime.block_on(run_in_namespace(options, test)),
        None => {
            if inside {
                assert_eq!(
                    external_interfaces(),
                    Vec::<String>::new(),
                    "the namespace has an interface other than loopback"
                );
            } else {
                let reason = "no network namespace can be created here (util-linux and iproute2 are needed)";
                assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{reason}");
                let _ = writeln!(std::io::stdout(), "{reason}, so this runs in the network of the machine");
            }
            runtime.block_on(body);
            // Tasks that still wait for killed processes are abandoned.
            runtime.shutdown_background();
        }
    }
}

/// `it::agents::codex::the_test::{{closure}}` without the crate and the closure.
pub(crate) fn test_name<F>() -> String {
    let parts: Vec<&str> = type_name::<F>().split("::").skip(1).collect();
    parts.into_iter().take_while(|part| !part.starts_with('{')).collect::<Vec<_>>().join("::")
}

fn can_unshare(options: &[&str]) -> bool {
    let mut command = Command::new("unshare");
    command.args(options).args(["sh", "-c", ENABLE_LOOPBACK, "sh", "true"]);
    let tried = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

async fn run_in_namespace(options: &[&str], test: &str) {
    let this = std::env::current_exe().expect("the path of this test");
    let mut command = tokio::process::Command::new("unshare");
    command.args(options).args(["sh", "-c", ENABLE_LOOPBACK, "sh"]).arg(this);
    command.args(["--exact", test, "--nocapture", "--include-ignored"]).env(INSIDE_VARIABLE, "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let output = command.spawn().expect("the test starts again").wait_with_output();
    let output = tokio::time::timeout(TIMEOUT, output).await.expect("ends in time").expect("its output");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let _ = std::io::stdout().write_all(&output.stdout);
    assert!(output.status.success(), "{test} failed on loopback; its output is above");
    // A name that matches no test would run none, and succeed.
    assert!(stdout.contains("1 passed"), "{test} did not run on loopback: {stdout}");
}

/// Interfaces other than loopback that could send packets.
fn external_interfaces() -> Vec<String> {
    let routes = |path: &str, column: usize, head: usize| -> Vec<String> {
        let table = std::fs::read_to_string(path).unwrap_or_default();
        let interface_of = |line: &str| line.split_whitespace().nth(column).map(str::to_owned);
        table.lines().skip(head).filter_map(interface_of).filter(|interface| interface != "lo").collect()
    };
    let mut interfaces = routes("/proc/self/net/route", 0, 1);
    interfaces.extend(routes("/proc/self/net/ipv6_route", 9, 0));
    interfaces
}
