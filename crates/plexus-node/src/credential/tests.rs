//! The time of renewal under any clock, and the stored file.

use std::time::Duration;

use plexus_kit::Clock;
use plexus_proto::api::NodeCredential;
use plexus_proto::{NodeId, Timestamp};

use super::Credential;
use crate::hub_client::HubClient;
use crate::link::tls::TlsOptions;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn credential(issued: i64, expires: i64) -> Credential {
    let hub = HubClient::new("http://127.0.0.1:7420/", &TlsOptions::default()).unwrap();
    let given = NodeCredential {
        node_id: NodeId::new(),
        name: "nas".to_owned(),
        token: Some("not-a-token".to_owned()),
        expires_at: at(expires),
    };
    Credential::new(&hub, given, &Clock::manual(at(issued)))
}

#[test]
fn renewal_is_due_at_half_of_the_lifetime() {
    let credential = credential(0, 1_000);
    assert_eq!(credential.renew_in(at(0)), Duration::from_secs(500));
    assert_eq!(credential.renew_in(at(400)), Duration::from_secs(100));
    assert_eq!(credential.renew_in(at(700)), Duration::ZERO);
}

#[test]
fn clock_jump_renews_early_or_after_half_of_the_lifetime() {
    let credential = credential(0, 1_000);
    assert_eq!(credential.renew_in(at(-50_000)), Duration::from_secs(500), "the clock was set back");
    assert_eq!(credential.renew_in(at(9_000_000)), Duration::ZERO, "the clock was set forward");
}

#[test]
fn renewal_interval_has_a_minimum_if_the_hub_clock_is_behind() {
    assert_eq!(credential(5_000, 1_000).renew_in(at(5_000)), Duration::from_secs(30));
}

#[test]
fn stored_credential_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Credential::read(folder.path()).unwrap(), None);
    let credential = credential(0, 1_000);
    credential.write(folder.path()).unwrap();
    assert_eq!(Credential::read(folder.path()).unwrap(), Some(credential.clone()));
    assert!(!format!("{credential:?}").contains("not-a-token"));
    let file = folder.path().join(super::FILE);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = Credential::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("0644"), "{error}");
}
