//! Isolation of third-party programs: their network, and the end of their child processes.

use std::io::ErrorKind;
use std::path::Path;

use plexus_testkit::{AgentHome, on_loopback, until};
use tokio::net::{TcpListener, TcpStream};

/// An address reserved for documentation (RFC 5737).
const ELSEWHERE: &str = "192.0.2.1:80";

#[test]
fn on_loopback_only_loopback_can_be_reached() {
    on_loopback(async || {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        // Without a namespace this is the machine's network, which proves nothing.
        if std::env::var_os("PLEXUS_TEST_ON_LOOPBACK").is_some() {
            let refused = TcpStream::connect(ELSEWHERE).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NetworkUnreachable, "{refused}");
        }
    });
}

/// Whether the process runs; an ended one may remain as a zombie.
fn runs(process: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Codex as installed by npm: a script that starts the real program and waits for it.
#[tokio::test]
async fn children_of_a_program_like_codex_end_with_it() {
    let Some(home) = AgentHome::of("node").await else { return };
    let script = "const child = require('child_process').spawn('sleep', ['600']);\
                  require('fs').writeFileSync('new', String(child.pid));\
                  require('fs').renameSync('new', 'pid');";
    let agent = home.start("node", &["-e", script]);
    let file = home.work().join("pid");
    until("the program has started a child", async || file.exists()).await;
    let started = std::fs::read_to_string(file).unwrap();
    assert!(runs(&started));
    drop(agent);
    until("the child has ended", async || !runs(&started)).await;
}

#[tokio::test]
async fn program_like_codex_does_not_inherit_the_environment() {
    let Some(home) = AgentHome::of("node").await else { return };
    let home = home.with("GIVEN", "by the test");
    let ran = home.run("node", &["-p", "Object.keys(process.env).sort().join()"]).await;
    let names: Vec<&str> = ran.ok().trim().split(',').collect();
    let expected = [
        "ALL_PROXY",
        "GIVEN",
        "HOME",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "LANG",
        "NO_PROXY",
        "PATH",
        "TMPDIR",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
    ];
    assert_eq!(names, expected);
}
