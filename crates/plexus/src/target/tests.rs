use std::fs::File;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;

use plexus_kit::{Environment, ExposeSecret, private_file};

use super::{Credential, Target};
use crate::cli::GlobalArgs;
use crate::failure::{Exit, Failure};

fn resolve(data_dir: &Path, hub: Option<&str>, vars: &[(&str, &str)]) -> anyhow::Result<Target> {
    let data_dir = ("PLEXUS_DATA_DIR", data_dir.to_str().unwrap());
    let vars = vars.iter().chain([&data_dir]);
    let environment: Environment = vars.map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let global = GlobalArgs { hub: hub.map(str::to_owned), json: false, data_dir: None };
    Target::resolve(&global, &environment)
}

/// Holds the lock of a folder, as the hub with this process id does.
fn lock(data_dir: &Path, pid: u32) -> File {
    let path = data_dir.join("plexus.lock");
    std::fs::write(&path, pid.to_string()).unwrap();
    let lock = File::open(&path).unwrap();
    lock.lock().unwrap();
    lock
}

fn token(target: &Target) -> Option<&str> {
    match &target.credential {
        Credential::Given { token, .. } | Credential::Local(token) => Some(token.expose_secret()),
        Credential::Missing(_) => None,
    }
}

fn folder_with_admin_token() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    private_file::write(&folder.path().join("admin-token"), b"local-admin\n").unwrap();
    folder
}

#[test]
fn admin_token_is_sent_to_loopback_only() {
    let folder = folder_with_admin_token();
    for hub in [
        "http://127.0.0.1:7420",
        "http://localhost:1",
        "https://[::1]:9",
        "http://127.8.9.1",
        "http://LOCALHOST",
    ] {
        let target = resolve(folder.path(), Some(hub), &[]).unwrap();
        assert_eq!(token(&target), Some("local-admin"), "{hub}");
    }
    for hub in [
        "http://10.0.0.5:7420",
        "http://0.0.0.0:7420",
        "https://hub.example.net",
        "http://localhost.example.net",
        "http://127.0.0.1.example.net",
        "http://sub.localhost",
        "http://[::ffff:127.0.0.1]",
        "http://[::]",
    ] {
        let error = resolve(folder.path(), Some(hub), &[]).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.exit, Exit::Denied, "{hub}");
        assert!(failure.hint.as_deref().unwrap().contains("set PLEXUS_TOKEN"), "{hub}");
    }
}

#[test]
fn token_from_the_environment_is_sent_to_any_hub_and_takes_precedence() {
    let folder = folder_with_admin_token();
    for hub in ["https://hub.example.net", "http://127.0.0.1:7420"] {
        let target = resolve(folder.path(), Some(hub), &[("PLEXUS_TOKEN", "mine")]).unwrap();
        assert_eq!(token(&target), Some("mine"), "{hub}");
    }
}

#[test]
fn missing_admin_token_is_not_an_error_for_a_loopback_hub() {
    let folder = tempfile::tempdir().unwrap();
    let target = resolve(folder.path(), None, &[]).unwrap();
    assert!(token(&target).is_none());
    assert_eq!(target.url.as_str(), "http://127.0.0.1:7420/");
}

#[test]
fn admin_token_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder_with_admin_token();
    let path = folder.path().join("admin-token");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let text = resolve(folder.path(), None, &[]).unwrap_err().to_string();
    assert!(text.contains("chmod 600") && !text.contains("local-admin"), "{text}");
}

#[test]
fn flag_overrides_variable_which_overrides_the_running_hub() {
    let folder = folder_with_admin_token();
    std::fs::write(folder.path().join("hub.json"), r#"{"url":"http://127.0.0.1:3","pid":7}"#).unwrap();
    let port =
        |hub: Option<&str>, vars: &[(&str, &str)]| resolve(folder.path(), hub, vars).unwrap().url.port();
    let variable = [("PLEXUS_HUB", "http://127.0.0.1:2")];
    assert_eq!(port(Some("http://127.0.0.1:1"), &variable), Some(1));
    assert_eq!(port(None, &variable), Some(2));
    assert_eq!(port(None, &[]), Some(3));
    // A folder on the command line means its own hub.
    let environment: Environment = variable.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect();
    let global = GlobalArgs { hub: None, json: false, data_dir: Some(folder.path().to_owned()) };
    assert_eq!(Target::resolve(&global, &environment).unwrap().url.port(), Some(3));
}

#[test]
fn admin_token_is_not_sent_for_a_folder_that_no_hub_runs_on() {
    let folder = folder_with_admin_token();
    write_hub_file(folder.path(), "127.0.0.1", 7);
    // As in a copy of the folder of a running hub, or after a crash.
    let missing = resolve(folder.path(), None, &[]).unwrap().credential;
    assert!(matches!(missing, Credential::Missing(why) if why.contains(folder.path().to_str().unwrap())));
    let lock = lock(folder.path(), 7);
    assert_eq!(token(&resolve(folder.path(), None, &[]).unwrap()), Some("local-admin"));
    drop(lock);
    // As in a folder whose hub was stopped: another program may listen at the default address.
    std::fs::remove_file(folder.path().join("hub.json")).unwrap();
    assert!(matches!(resolve(folder.path(), None, &[]).unwrap().credential, Credential::Missing(_)));
    let global = GlobalArgs { hub: None, json: false, data_dir: Some(folder.path().to_owned()) };
    let named = Target::resolve(&global, &Environment::default()).unwrap();
    assert!(matches!(named.credential, Credential::Missing(_)));
}

#[test]
fn admin_token_is_not_sent_to_a_remote_address_in_the_hub_file() {
    let folder = folder_with_admin_token();
    std::fs::write(folder.path().join("hub.json"), r#"{"url":"http://203.0.113.9:7420","pid":7}"#).unwrap();
    assert!(resolve(folder.path(), None, &[]).is_err());
}

#[test]
fn invalid_hub_url_is_a_usage_error_without_the_password() {
    let folder = tempfile::tempdir().unwrap();
    for hub in ["ftp://127.0.0.1", "http://u:hunter2@127.0.0.1", "http://h/?a=b", "http://", "not a url"] {
        let error = resolve(folder.path(), Some(hub), &[]).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.exit, Exit::Usage, "{hub}");
        assert!(!failure.message.contains("hunter2"), "{hub}");
    }
}

#[test]
fn address_without_scheme_and_mcp_endpoint_are_accepted_as_hub_url() {
    let folder = tempfile::tempdir().unwrap();
    for hub in ["127.0.0.1:7420", "http://127.0.0.1:7420/mcp", "http://127.0.0.1:7420/mcp/v1/"] {
        let target = resolve(folder.path(), Some(hub), &[]).unwrap();
        assert_eq!(target.url.as_str(), "http://127.0.0.1:7420/", "{hub}");
    }
}

#[test]
fn admin_token_is_sent_only_to_the_hub_of_its_data_folder() {
    let folder = folder_with_admin_token();
    std::fs::write(folder.path().join("hub.json"), r#"{"url":"http://127.0.0.1:3","pid":7}"#).unwrap();
    let credential = |hub: &str| resolve(folder.path(), Some(hub), &[]).unwrap().credential;
    assert!(matches!(credential("http://localhost:3"), Credential::Local(_)));
    assert!(matches!(credential("http://127.0.0.1:4"), Credential::Missing(_)));
}

/// A non-loopback address of this machine. None without a network.
fn network_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing; this only selects a route.
    socket.connect("203.0.113.77:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

fn write_hub_file(folder: &Path, ip: impl std::fmt::Display, pid: u32) {
    let text = format!(r#"{{"url":"http://{ip}:7420","pid":{pid}}}"#);
    std::fs::write(folder.join("hub.json"), text).unwrap();
}

#[test]
fn admin_token_is_sent_to_the_local_address_in_the_hub_file() {
    let Some(ip) = network_address() else {
        eprintln!("skipped: this machine has no network");
        return;
    };
    let folder = folder_with_admin_token();
    write_hub_file(folder.path(), ip, std::process::id());
    let lock = lock(folder.path(), std::process::id());
    let own = resolve(folder.path(), None, &[]).unwrap();
    assert_eq!((token(&own), own.is_local), (Some("local-admin"), true));
    // The same address given by the user may belong to another server.
    let url = format!("http://{ip}:7420");
    assert!(resolve(folder.path(), Some(&url), &[]).is_err());
    assert!(resolve(folder.path(), None, &[("PLEXUS_HUB", &url)]).is_err());
    // So may the address of a hub that has ended, also while another one starts. No process has an id this high.
    write_hub_file(folder.path(), ip, 0x7fff_ffff);
    assert!(matches!(resolve(folder.path(), None, &[]).unwrap().credential, Credential::Missing(_)));
    drop(lock);
    assert!(matches!(resolve(folder.path(), None, &[]).unwrap().credential, Credential::Missing(_)));
}

#[test]
fn live_process_does_not_make_a_remote_address_local() {
    let folder = folder_with_admin_token();
    for ip in ["203.0.113.9", "0.0.0.0", "[::]", "hub.example.net"] {
        write_hub_file(folder.path(), ip, std::process::id());
        assert!(resolve(folder.path(), None, &[]).is_err(), "{ip}");
    }
}

#[test]
fn has_admin_token_tells_whether_the_admin_token_would_be_used() {
    let folder = folder_with_admin_token();
    let has_admin_token =
        |folder: &Path, hub: &str| match resolve(folder, Some(hub), &[("PLEXUS_TOKEN", "mine")])
            .unwrap()
            .credential
        {
            Credential::Given { has_admin_token, .. } => has_admin_token,
            other => panic!("{other:?}"),
        };
    assert!(has_admin_token(folder.path(), "http://127.0.0.1:7420"));
    assert!(!has_admin_token(folder.path(), "https://hub.example.net"));
    assert!(!has_admin_token(tempfile::tempdir().unwrap().path(), "http://127.0.0.1:7420"));
}
