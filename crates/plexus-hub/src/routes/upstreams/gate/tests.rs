use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};

use plexus_upstream::config::Inward;

use super::{RequestOrigin, check_network_setting, check_references, is_loader_variable};

fn origin(peer: &str, headers: &[(&'static str, &'static str)]) -> RequestOrigin {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    RequestOrigin::of(peer.parse::<IpAddr>().ok(), &headers)
}

#[test]
fn only_direct_loopback_requests_are_local() {
    for (peer, host) in [
        ("127.0.0.1", "127.0.0.1:7420"),
        ("127.8.9.1", "localhost:7420"),
        ("::1", "[::1]:7420"),
        ("::ffff:127.0.0.1", "LOCALHOST"),
    ] {
        assert_eq!(origin(peer, &[("host", host)]), RequestOrigin::Local, "{peer} {host}");
    }
    let remote = |peer: &str, headers: &[(&'static str, &'static str)]| match origin(peer, headers) {
        RequestOrigin::Remote(how) => how,
        RequestOrigin::Local => panic!("{peer} with {headers:?} is treated as local"),
    };
    let here = ("host", "127.0.0.1:7420");
    for peer in ["192.0.2.7", "10.0.0.1", "fe80::1", "0.0.0.0", "::ffff:192.0.2.7"] {
        assert!(remote(peer, &[here]).contains("comes from"), "{peer}");
    }
    assert!(remote("", &[here]).contains("an unknown origin"));
    for header in ["forwarded", "via", "x-forwarded-for", "x-forwarded-anything", "x-real-ip", "x-client-ip"]
    {
        let how = remote("127.0.0.1", &[here, (header, "")]);
        assert!(how.contains(header), "{header}: {how}");
    }
    for host in ["hub.example.net", "localhost.example.net", "192.0.2.7:7420", "[fe80::1]:7420", ""] {
        assert!(remote("127.0.0.1", &[("host", host)]).contains("not a loopback address"), "{host}");
    }
    assert!(remote("127.0.0.1", &[]).contains("no host"));
}

#[test]
fn references_require_a_local_request() {
    let remote = RequestOrigin::Remote("comes from afar".to_owned());
    let refused = check_references(&remote, true).unwrap_err();
    assert!(refused.message.contains("comes from afar"), "{refused:?}");
    assert!(
        check_references(&RequestOrigin::Local, true).is_ok() && check_references(&remote, false).is_ok()
    );
}

#[test]
fn private_networks_require_a_local_request_or_the_setting() {
    let remote = RequestOrigin::Remote("comes from afar".to_owned());
    let (private, loopback) =
        (Inward { private: true, loopback: false }, Inward { private: false, loopback: true });
    for (inward, word) in [(private, "allow_private"), (loopback, "`url`")] {
        let refused = check_network_setting(false, &remote, inward).unwrap_err();
        assert!(refused.message.contains(word) && refused.message.contains("from afar"), "{refused:?}");
        assert!(refused.hint.unwrap().contains("upstreams.private_networks"));
        assert!(
            check_network_setting(true, &remote, inward).is_ok()
                && check_network_setting(false, &RequestOrigin::Local, inward).is_ok()
        );
    }
    assert!(check_network_setting(false, &remote, Inward::default()).is_ok());
}

#[test]
fn loader_variables_are_detected() {
    for variable in ["PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"] {
        assert!(is_loader_variable(variable), "{variable}");
    }
    for variable in ["PATH_TO_FILES", "API_KEY", "OLD_PATH", "HOME"] {
        assert!(!is_loader_variable(variable), "{variable}");
    }
}
