//! `plexus upstream login` with a browser and a third-party authorization server.

use std::process::Stdio;
use std::time::Duration;

use plexus_testkit::Plexus;
use plexus_testkit::oauth::{Authority, Browser, ProtectedServer, TokenValidation};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A login that waits for the browser.
struct PendingLogin {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// The URL to open in the browser.
    url: String,
}

impl PendingLogin {
    async fn start(plexus: &Plexus, args: &[&str]) -> Self {
        let mut command = plexus.command(env!("CARGO_BIN_EXE_plexus"), &["upstream", "login"]);
        let mut child = command.args(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        tokio::time::timeout(TIMEOUT, stdout.read_line(&mut line)).await.expect("in time").unwrap();
        let url = match serde_json::from_str::<serde_json::Value>(&line) {
            Ok(json) => json["url"].as_str().unwrap().to_owned(),
            Err(_) => line.trim().to_owned(),
        };
        assert!(url.starts_with("http://127.0.0.1:"), "{line:?}");
        Self { stdin: child.stdin.take().unwrap(), child, stdout, url }
    }

    /// Exit code, remaining output and errors.
    async fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        let mut stderr = self.child.stderr.take().unwrap();
        let ended = tokio::time::timeout(TIMEOUT, async {
            tokio::try_join!(self.stdout.read_to_string(&mut out), stderr.read_to_string(&mut err)).unwrap();
            self.child.wait().await.unwrap()
        });
        (ended.await.expect("it ends in time").code(), out, err)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn login_by_browser_or_pasted_url_survives_a_restart() {
    let Some(authority) = Authority::start().await else { return };
    let server =
        ProtectedServer::start(authority.issuer(), TokenValidation::Introspection(authority.check_url()))
            .await;
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let added = plexus.run(&["upstream", "add", "docs", &server.url()]).await;
    let stderr = added.failed(1);
    assert!(
        stderr.contains("requires a login") && stderr.contains("Run `plexus upstream login docs`"),
        "{stderr}"
    );
    let status = plexus.run(&["status"]).await;
    assert!(status.ok().contains("1 waiting for a login"), "{status:?}");
    let shown = plexus.run(&["upstream", "show", "docs"]).await;
    assert!(shown.ok().contains("state\tneeds_login\n"), "{shown:?}");

    let login = PendingLogin::start(&plexus, &["docs", "--no-browser"]).await;
    // A forged callback is refused.
    let callback = redirect_uri(&login.url);
    let forged = plexus.http().get(format!("{callback}?code=forged&state=guessed")).send().await.unwrap();
    assert_eq!(forged.status(), 400);
    let page = Browser::new().log_in(&login.url).await;
    assert!(page.contains("You can close this window"), "{page}");
    let (code, out, err) = login.end().await;
    assert_eq!(code, Some(0), "{out} {err}");
    assert!(out.starts_with("docs is up and has "), "{out}");
    assert!(err.contains("Logged in to docs."), "{err}");
    assert!(
        err.contains(&format!("log in at {}:", authority.issuer())),
        "the authorization server is named: {err}"
    );
    let called = plexus.run(&["tools", "call", "mcp__docs__echo", "--arg", "text=hello"]).await;
    assert_eq!(called.ok(), "hello\n");

    let out = plexus.run(&["upstream", "logout", "docs"]).await;
    assert!(out.ok().starts_with("Logged out of docs and revoked its tokens."), "{out:?}");
    let again = plexus.run(&["upstream", "logout", "docs", "--json"]).await.json(0);
    assert_eq!(again["forgotten"], false, "{again}");

    // With a browser on another machine, the user pastes the callback URL.
    let mut login = PendingLogin::start(&plexus, &["docs", "--no-browser", "--json"]).await;
    let callback = Browser::new().decide(&login.url).await;
    login.stdin.write_all(format!("nonsense\n{callback}\n").as_bytes()).await.unwrap();
    let (code, out, err) = login.end().await;
    assert_eq!(code, Some(0), "{out} {err}");
    let upstream: serde_json::Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(upstream["state"], "ready", "{upstream}");
    // The login survives a restart of the hub.
    assert!(hub.terminate().await.success());
    let hub = plexus.up().await;
    let called = plexus.run(&["tools", "call", "mcp__docs__echo", "--arg", "text=still"]).await;
    assert_eq!(called.ok(), "still\n");
    assert_eq!(authority.count("authorization_code").await, 2);

    let removed = plexus.run(&["upstream", "remove", "docs"]).await;
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(plexus.run(&["upstream", "login", "docs"]).await.failed(1).contains("no server docs"));
    let log = hub.log();
    assert!(!log.contains("code=") && !log.contains("Bearer "), "{log}");
}

/// The redirect URI in an authorization URL.
fn redirect_uri(url: &str) -> String {
    let encoded = url.split("redirect_uri=").nth(1).unwrap().split('&').next().unwrap();
    encoded.replace("%3A", ":").replace("%2F", "/")
}
