//! `plexus node` with real processes: invitations, joining, running, draining, labels and removal.

use std::time::Duration;

use plexus_testkit::{HubProcess, Plexus, Signal, send};
use serde_json::Value;
use tokio::process::Child;

use crate::certificates::Authority;
use crate::nodes::{join, wait_for_state};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Another machine: a home, and its node while it runs.
struct Machine {
    plexus: Plexus,
    process: Option<Child>,
}

impl Machine {
    fn new() -> Self {
        Self { plexus: crate::plexus(), process: None }
    }

    fn run(&mut self, args: &[&str]) {
        self.process = Some(self.plexus.spawn(&[&["node", "run"], args].concat()));
    }

    async fn stop(&mut self) -> bool {
        let mut process = self.process.take().expect("a node that runs");
        send(&process, Signal::TERM);
        let ended = tokio::time::timeout(TIMEOUT, process.wait()).await.expect("it ends in time");
        ended.expect("a status").success()
    }
}

async fn invite(plexus: &Plexus, name: &str) -> Value {
    plexus.run(&["node", "invite", name, "--label", "role=storage", "--json"]).await.json(0)
}

async fn echo_works(plexus: &Plexus, node: &str, word: &str) -> bool {
    let command = format!("command=echo {word} from $HOME");
    let args = ["tools", "call", "terminal", "--node", node, "--arg", "action=run", "--arg", &command];
    plexus.run(&args).await.ok().contains(&format!("{word} from"))
}

/// A hub whose local node is online.
async fn hub(plexus: &Plexus) -> HubProcess {
    let hub = plexus.up().await;
    wait_for_state(plexus, "local", "online").await;
    hub
}

#[tokio::test]
async fn machine_is_invited_joins_runs_commands_and_is_removed() {
    let plexus = crate::plexus();
    let hub = hub(&plexus).await;
    let listed = plexus.run(&["node", "list"]).await;
    assert!(listed.ok().starts_with("local\tonline") && listed.stderr.contains("plexus node invite"));

    // The printed line can be run as it is.
    let invited_nas = plexus.run(&["node", "invite", "nas", "--label", "role=storage"]).await;
    let line = invited_nas.ok().trim().to_owned();
    assert!(line.starts_with(&format!("plexus node join {} ", hub.url(""))), "{invited_nas:?}");
    assert!(
        invited_nas.stderr.contains("plexus node run") && invited_nas.stderr.contains("warning:"),
        "{invited_nas:?}"
    );
    let mut nas = Machine::new();
    let joined = nas.plexus.shell(&line).await;
    assert!(joined.ok().contains("is now nas of"), "{joined:?}");
    // The code is valid for one machine only.
    let again = Machine::new().plexus.shell(&line).await;
    assert!(again.failed(5).contains("the code is not valid"), "{again:?}");
    assert!(
        nas.plexus.shell(&line).await.failed(2).contains("already"),
        "a joined node keeps its credential"
    );

    let shown = plexus.run(&["node", "show", "nas"]).await;
    assert!(shown.ok().contains("state\tnew") && shown.stderr.contains("never connected"), "{shown:?}");
    nas.run(&[]);
    wait_for_state(&plexus, "nas", "online").await;
    assert!(echo_works(&plexus, "nas", "hello").await);
    assert!(echo_works(&plexus, "role=storage", "label").await);
    assert!(echo_works(&plexus, "local", "here").await);

    plexus.run(&["node", "drain", "nas"]).await.ok();
    assert!(plexus.run(&run_id_on("nas")).await.failed(1).contains("draining"));
    plexus.run(&["node", "drain", "nas", "--off"]).await.ok();
    plexus.run(&["node", "rename", "nas", "cellar"]).await.ok();
    assert!(echo_works(&plexus, "cellar", "renamed").await);
    let misspelt = plexus.run(&["node", "show", "celar"]).await;
    assert!(misspelt.failed(1).contains("Did you mean cellar?"), "{misspelt:?}");

    assert!(nas.stop().await);
    wait_for_state(&plexus, "cellar", "offline").await;
    assert!(plexus.run(&run_id_on("cellar")).await.failed(1).contains("offline"));
    let unconfirmed = plexus.run(&["node", "remove", "cellar"]).await;
    assert!(unconfirmed.failed(2).contains("--yes"), "{unconfirmed:?}");
    plexus.run(&["node", "remove", "cellar", "--yes"]).await.ok();
    let left = plexus.run(&["node", "list"]).await;
    assert_eq!(left.ok().lines().count(), 1, "{left:?}");
    assert!(hub.terminate().await.success());
}

fn run_id_on(node: &str) -> [&str; 9] {
    ["tools", "call", "terminal", "--node", node, "--arg", "action=run", "--arg", "command=id"]
}

#[tokio::test]
async fn polling_node_reconnects_after_a_hub_restart() {
    let plexus = crate::plexus();
    let hub = hub(&plexus).await;
    let invitation = invite(&plexus, "nas").await;
    let mut nas = Machine::new();
    nas.plexus.run(&["node", "join", &hub.url(""), invitation["code"].as_str().unwrap()]).await.ok();
    nas.run(&["--transport", "poll"]);
    wait_for_state(&plexus, "nas", "online").await;
    let shown = plexus.run(&["node", "show", "nas", "--json"]).await.json(0);
    assert_eq!((&shown["transport"], &shown["labels"]["role"]), (&"poll".into(), &"storage".into()));
    assert!(echo_works(&plexus, "nas", "polled").await);
    let address = hub.address().to_string();
    hub.kill().await;
    let hub = plexus.up_with(&["--listen", &address]).await;
    wait_for_state(&plexus, "nas", "online").await;
    assert!(echo_works(&plexus, "nas", "again").await);
    assert!(nas.stop().await);
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn node_with_a_certificate_needs_no_code_and_stores_no_token() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    let (server_certificate, nas_certificate) = (authority.issue("127.0.0.1"), authority.issue("nas"));
    let text = |path: &std::path::Path| path.display().to_string();
    let settings = format!(
        "[tls]\ncert = {:?}\nkey = {:?}\n[nodes]\nclient_ca = {:?}\n",
        text(&server_certificate.cert),
        text(&server_certificate.key),
        text(&authority.file)
    );
    std::fs::create_dir_all(plexus.data_dir()).unwrap();
    std::fs::write(plexus.data_dir().join("plexus.toml"), settings).unwrap();
    let hub = hub(&plexus).await;
    let mut nas = Machine::new();
    let (ca, cert, key) = (text(&authority.file), text(&nas_certificate.cert), text(&nas_certificate.key));
    let url = hub.url("");
    // A hub with an untrusted certificate is refused.
    let refused = nas.plexus.run(&["node", "join", &url, "--cert", &cert, "--key", &key]).await;
    assert!(refused.failed(4).contains("certificate"), "{refused:?}");
    let args = ["node", "join", &url, "--ca", &ca, "--cert", &cert, "--key", &key];
    nas.plexus.run(&args).await.ok();
    // The node remembers the files.
    nas.run(&[]);
    wait_for_state(&plexus, "nas", "online").await;
    assert!(echo_works(&plexus, "nas", "certified").await);
    let credential = nas.plexus.home().join(".local/share/plexus-node/credential.json");
    assert!(
        !std::fs::read_to_string(credential).unwrap().contains("token"),
        "the node has a certificate and needs no token"
    );
    assert!(nas.stop().await);
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn invitations_can_be_withdrawn_and_labels_changed() {
    let (plexus, machine) = (crate::plexus(), crate::plexus());
    let hub = plexus.up().await;
    join(&plexus, &machine, &hub.url(""), "nas", &["--label", "role=nas"]).await;
    let code = plexus.run(&["node", "invite", "attic", "--label", "floor=3", "--json"]).await.json(0);
    let listed = plexus.run(&["node", "invites"]).await;
    let listed = listed.ok();
    assert!(listed.contains("attic") && listed.contains("floor=3"), "{listed}");
    assert!(!listed.contains(code["code"].as_str().expect("a code")) && !listed.contains("nas"), "{listed}");
    plexus.run(&["node", "uninvite", "attic"]).await.ok();
    let left = plexus.run(&["node", "invites", "--json"]).await.json(0);
    assert_eq!(left["items"], serde_json::json!([]));
    let refused_again = plexus.run(&["node", "uninvite", "attic"]).await;
    assert_ne!(refused_again.code, Some(0), "{refused_again:?}");
    let refused =
        machine.run(&["node", "join", &hub.url(""), code["code"].as_str().expect("a code"), "--again"]).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");

    let changed = plexus.run(&["node", "label", "nas", "site=home", "floor=1"]).await;
    assert_eq!(changed.ok().trim(), "nas: floor=1 role=nas site=home");
    let changed = plexus.run(&["node", "label", "nas", "role-", "floor=2", "--json"]).await.json(0);
    assert_eq!(changed["labels"], serde_json::json!({ "floor": "2", "site": "home" }));
    for odd in ["role", "-", "=x"] {
        assert_eq!(plexus.run(&["node", "label", "nas", "--", odd]).await.code, Some(2), "{odd}");
    }
    assert!(hub.terminate().await.success());
}
