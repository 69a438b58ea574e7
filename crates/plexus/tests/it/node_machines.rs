//! Other machines from the command line, with real processes: invited, joined, run, used, and sent away again.

use std::time::Duration;

use plexus_testkit::{HubProcess, Plexus, Signal, send};
use serde_json::Value;
use tokio::process::Child;

use crate::certificates::Authority;

const PATIENCE: Duration = Duration::from_secs(20);

/// Another machine: a home of its own. It ends with the test.
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
        let ended = tokio::time::timeout(PATIENCE, process.wait()).await.expect("it ends in time");
        ended.expect("a status").success()
    }
}

/// Waits until the hub says this of a node.
pub(crate) async fn state(plexus: &Plexus, name: &str, wanted: &str) {
    let found = async {
        loop {
            let nodes = plexus.run(&["node", "list", "--json"]).await.json(0);
            let node = nodes["items"].as_array().unwrap().iter().find(|node| node["name"] == name).cloned();
            if node.is_some_and(|node| node["state"] == wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("{name} does not get {wanted}"));
}

async fn invited(plexus: &Plexus, name: &str) -> Value {
    plexus.run(&["node", "invite", name, "--label", "role=storage", "--json"]).await.json(0)
}

async fn echoed(plexus: &Plexus, node: &str, word: &str) -> bool {
    let command = format!("command=echo {word} from $HOME");
    let args = ["tools", "call", "terminal", "--node", node, "--arg", "action=run", "--arg", &command];
    plexus.run(&args).await.ok().contains(&format!("{word} from"))
}

/// A hub whose machine is in the list of machines from the start.
async fn hub(plexus: &Plexus) -> HubProcess {
    let hub = plexus.up().await;
    state(plexus, "local", "online").await;
    hub
}

#[tokio::test]
async fn a_machine_is_invited_joins_is_used_and_is_sent_away() {
    let plexus = crate::plexus();
    let hub = hub(&plexus).await;
    let listed = plexus.run(&["node", "list"]).await;
    assert!(listed.ok().starts_with("local\tonline") && listed.stderr.contains("plexus node invite"));

    // The line that is printed is the one to run.
    let told = plexus.run(&["node", "invite", "nas", "--label", "role=storage"]).await;
    let line = told.ok().trim().to_owned();
    assert!(line.starts_with(&format!("plexus node join {} ", hub.url(""))), "{told:?}");
    assert!(told.stderr.contains("plexus node run") && told.stderr.contains("warning:"), "{told:?}");
    let mut nas = Machine::new();
    let joined = nas.plexus.shell(&line).await;
    assert!(joined.ok().contains("is now nas of"), "{joined:?}");
    // Once, and by one machine only.
    let again = Machine::new().plexus.shell(&line).await;
    assert!(again.failed(5).contains("the code is not valid"), "{again:?}");
    assert!(nas.plexus.shell(&line).await.failed(2).contains("already"), "it keeps what it has");

    let shown = plexus.run(&["node", "show", "nas"]).await;
    assert!(shown.ok().contains("state\tnew") && shown.stderr.contains("never linked"), "{shown:?}");
    nas.run(&[]);
    state(&plexus, "nas", "online").await;
    assert!(echoed(&plexus, "nas", "hello").await);
    assert!(echoed(&plexus, "role=storage", "label").await);
    assert!(echoed(&plexus, "local", "here").await);

    plexus.run(&["node", "drain", "nas"]).await.ok();
    let args = ["tools", "call", "terminal", "--node", "nas", "--arg", "action=run", "--arg", "command=id"];
    assert!(plexus.run(&args).await.failed(1).contains("draining"));
    plexus.run(&["node", "drain", "nas", "--off"]).await.ok();
    plexus.run(&["node", "rename", "nas", "cellar"]).await.ok();
    assert!(echoed(&plexus, "cellar", "renamed").await);
    let misspelt = plexus.run(&["node", "show", "celar"]).await;
    assert!(misspelt.failed(1).contains("Did you mean cellar?"), "{misspelt:?}");

    assert!(nas.stop().await);
    state(&plexus, "cellar", "offline").await;
    assert!(plexus.run(&args_for("cellar")).await.failed(1).contains("offline"));
    let unasked = plexus.run(&["node", "remove", "cellar"]).await;
    assert!(unasked.failed(2).contains("--yes"), "{unasked:?}");
    plexus.run(&["node", "remove", "cellar", "--yes"]).await.ok();
    let left = plexus.run(&["node", "list"]).await;
    assert_eq!(left.ok().lines().count(), 1, "{left:?}");
    assert!(hub.terminate().await.success());
}

fn args_for(node: &str) -> [&str; 9] {
    ["tools", "call", "terminal", "--node", node, "--arg", "action=run", "--arg", "command=id"]
}

#[tokio::test]
async fn a_machine_links_by_requests_and_finds_its_hub_again() {
    let plexus = crate::plexus();
    let hub = hub(&plexus).await;
    let invite = invited(&plexus, "nas").await;
    let mut nas = Machine::new();
    nas.plexus.run(&["node", "join", &hub.url(""), invite["code"].as_str().unwrap()]).await.ok();
    nas.run(&["--transport", "poll"]);
    state(&plexus, "nas", "online").await;
    let shown = plexus.run(&["node", "show", "nas", "--json"]).await.json(0);
    assert_eq!((&shown["transport"], &shown["labels"]["role"]), (&"poll".into(), &"storage".into()));
    assert!(echoed(&plexus, "nas", "polled").await);
    let address = hub.address().to_string();
    hub.kill().await;
    let hub = plexus.up_with(&["--listen", &address]).await;
    state(&plexus, "nas", "online").await;
    assert!(echoed(&plexus, "nas", "again").await);
    assert!(nas.stop().await);
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn a_machine_with_a_certificate_needs_no_code_and_keeps_no_secret_of_the_hub() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    let (own, nas_pair) = (authority.vouch("127.0.0.1"), authority.vouch("nas"));
    let text = |path: &std::path::Path| path.display().to_string();
    let settings = format!(
        "[tls]\ncert = {:?}\nkey = {:?}\n[nodes]\nclient_ca = {:?}\n",
        text(&own.cert),
        text(&own.key),
        text(&authority.file)
    );
    std::fs::create_dir_all(plexus.data_dir()).unwrap();
    std::fs::write(plexus.data_dir().join("plexus.toml"), settings).unwrap();
    let hub = hub(&plexus).await;
    let mut nas = Machine::new();
    let (ca, cert, key) = (text(&authority.file), text(&nas_pair.cert), text(&nas_pair.key));
    let url = hub.url("");
    // A hub that it cannot trust is not spoken to.
    let refused = nas.plexus.run(&["node", "join", &url, "--cert", &cert, "--key", &key]).await;
    assert!(refused.failed(4).contains("certificate"), "{refused:?}");
    let args = ["node", "join", &url, "--ca", &ca, "--cert", &cert, "--key", &key];
    nas.plexus.run(&args).await.ok();
    // The files are remembered.
    nas.run(&[]);
    state(&plexus, "nas", "online").await;
    assert!(echoed(&plexus, "nas", "certified").await);
    let kept = nas.plexus.home().join(".local/share/plexus-node/credential.json");
    assert!(!std::fs::read_to_string(kept).unwrap().contains("token"), "a token that is not needed");
    assert!(nas.stop().await);
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn invitations_are_listed_and_withdrawn_and_labels_changed() {
    let (plexus, machine) = (crate::plexus(), crate::plexus());
    let hub = plexus.up().await;
    crate::machines::join(&plexus, &machine, &hub.url(""), "nas", &["--label", "role=nas"]).await;
    let code = plexus.run(&["node", "invite", "attic", "--label", "floor=3", "--json"]).await.json(0);
    let listed = plexus.run(&["node", "invites"]).await;
    let listed = listed.ok();
    assert!(listed.contains("attic") && listed.contains("floor=3"), "{listed}");
    assert!(!listed.contains(code["code"].as_str().expect("a code")) && !listed.contains("nas"), "{listed}");
    plexus.run(&["node", "uninvite", "attic"]).await.ok();
    let left = plexus.run(&["node", "invites", "--json"]).await.json(0);
    assert_eq!(left["items"], serde_json::json!([]));
    let gone = plexus.run(&["node", "uninvite", "attic"]).await;
    assert_ne!(gone.code, Some(0), "{gone:?}");
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
