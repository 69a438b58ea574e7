use std::net::{IpAddr, UdpSocket};
use std::path::Path;

use plexus_kit::{Environment, ExposeSecret, private_file};

use super::{Credential, Target};
use crate::cli::GlobalArgs;
use crate::failure::{Exit, Failure};

fn resolve(data_dir: &Path, hub: Option<&str>, vars: &[(&str, &str)]) -> anyhow::Result<Target> {
    let environment: Environment = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let global = GlobalArgs { hub: hub.map(str::to_owned), json: false, data_dir: Some(data_dir.to_owned()) };
    Target::resolve(&global, &environment)
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
fn the_admin_token_goes_to_loopback_only() {
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
fn a_token_the_user_names_goes_anywhere_and_wins() {
    let folder = folder_with_admin_token();
    for hub in ["https://hub.example.net", "http://127.0.0.1:7420"] {
        let target = resolve(folder.path(), Some(hub), &[("PLEXUS_TOKEN", "mine")]).unwrap();
        assert_eq!(token(&target), Some("mine"), "{hub}");
    }
}

#[test]
fn a_loopback_hub_without_an_admin_token_is_still_asked() {
    let folder = tempfile::tempdir().unwrap();
    let target = resolve(folder.path(), None, &[]).unwrap();
    assert!(token(&target).is_none());
    assert_eq!(target.url.as_str(), "http://127.0.0.1:7420/");
}

#[test]
fn an_admin_token_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder_with_admin_token();
    let path = folder.path().join("admin-token");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let text = resolve(folder.path(), None, &[]).unwrap_err().to_string();
    assert!(text.contains("chmod 600") && !text.contains("local-admin"), "{text}");
}

#[test]
fn the_flag_wins_over_the_variable_over_the_running_hub() {
    let folder = folder_with_admin_token();
    std::fs::write(folder.path().join("hub.json"), r#"{"url":"http://127.0.0.1:3","pid":7}"#).unwrap();
    let port =
        |hub: Option<&str>, vars: &[(&str, &str)]| resolve(folder.path(), hub, vars).unwrap().url.port();
    let variable = [("PLEXUS_HUB", "http://127.0.0.1:2")];
    assert_eq!(port(Some("http://127.0.0.1:1"), &variable), Some(1));
    assert_eq!(port(None, &variable), Some(2));
    assert_eq!(port(None, &[]), Some(3));
}

#[test]
fn a_hub_file_that_points_elsewhere_does_not_get_the_admin_token() {
    let folder = folder_with_admin_token();
    std::fs::write(folder.path().join("hub.json"), r#"{"url":"http://203.0.113.9:7420","pid":7}"#).unwrap();
    assert!(resolve(folder.path(), None, &[]).is_err());
}

#[test]
fn what_is_no_hub_url_is_a_usage_error_that_repeats_no_password() {
    let folder = tempfile::tempdir().unwrap();
    for hub in ["ftp://127.0.0.1", "http://u:hunter2@127.0.0.1", "http://h/?a=b", "http://", "not a url"] {
        let error = resolve(folder.path(), Some(hub), &[]).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.exit, Exit::Usage, "{hub}");
        assert!(!failure.message.contains("hunter2"), "{hub}");
    }
}

#[test]
fn an_address_alone_and_the_mcp_endpoint_name_the_hub() {
    let folder = tempfile::tempdir().unwrap();
    for hub in ["127.0.0.1:7420", "http://127.0.0.1:7420/mcp", "http://127.0.0.1:7420/mcp/v1/"] {
        let target = resolve(folder.path(), Some(hub), &[]).unwrap();
        assert_eq!(target.url.as_str(), "http://127.0.0.1:7420/", "{hub}");
    }
}

#[test]
fn the_admin_token_goes_to_the_hub_of_its_own_folder_only() {
    let folder = folder_with_admin_token();
    std::fs::write(folder.path().join("hub.json"), r#"{"url":"http://127.0.0.1:3","pid":7}"#).unwrap();
    let asked = |hub: &str| resolve(folder.path(), Some(hub), &[]).unwrap().credential;
    assert!(matches!(asked("http://localhost:3"), Credential::Local(_)));
    assert!(matches!(asked("http://127.0.0.1:4"), Credential::Missing(_)));
}

/// An address of this machine that is not loopback; none where it is on no network.
fn network_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: this only asks which way it would go.
    socket.connect("203.0.113.77:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

fn write_hub_file(folder: &Path, ip: impl std::fmt::Display, pid: u32) {
    let text = format!(r#"{{"url":"http://{ip}:7420","pid":{pid}}}"#);
    std::fs::write(folder.join("hub.json"), text).unwrap();
}

#[test]
fn the_admin_token_goes_to_the_address_of_this_machine_where_its_own_hub_listens() {
    let Some(ip) = network_address() else {
        eprintln!("left out: this machine is on no network");
        return;
    };
    let folder = folder_with_admin_token();
    write_hub_file(folder.path(), ip, std::process::id());
    let own = resolve(folder.path(), None, &[]).unwrap();
    assert_eq!((token(&own), own.here), (Some("local-admin"), true));
    // The same address named by hand may be anybody's.
    let url = format!("http://{ip}:7420");
    assert!(resolve(folder.path(), Some(&url), &[]).is_err());
    assert!(resolve(folder.path(), None, &[("PLEXUS_HUB", &url)]).is_err());
    // So may the address of a hub that has ended: no process has a number as high as this.
    write_hub_file(folder.path(), ip, 0x7fff_ffff);
    assert!(matches!(resolve(folder.path(), None, &[]).unwrap().credential, Credential::Missing(_)));
}

#[test]
fn a_live_process_does_not_make_a_foreign_address_ones_own() {
    let folder = folder_with_admin_token();
    for ip in ["203.0.113.9", "0.0.0.0", "[::]", "hub.example.net"] {
        write_hub_file(folder.path(), ip, std::process::id());
        assert!(resolve(folder.path(), None, &[]).is_err(), "{ip}");
    }
}

#[test]
fn it_is_known_whether_the_admin_token_would_do_instead_of_the_one_given() {
    let folder = folder_with_admin_token();
    let instead = |folder: &Path, hub: &str| match resolve(folder, Some(hub), &[("PLEXUS_TOKEN", "mine")])
        .unwrap()
        .credential
    {
        Credential::Given { admin_instead, .. } => admin_instead,
        other => panic!("{other:?}"),
    };
    assert!(instead(folder.path(), "http://127.0.0.1:7420"));
    assert!(!instead(folder.path(), "https://hub.example.net"));
    assert!(!instead(tempfile::tempdir().unwrap().path(), "http://127.0.0.1:7420"));
}
