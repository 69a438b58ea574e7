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
        Credential::Given(token) | Credential::Local(token) => Some(token.expose_secret()),
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
