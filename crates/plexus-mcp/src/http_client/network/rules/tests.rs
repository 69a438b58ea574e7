use super::*;

const STRICT: Allowed = Allowed { loopback: false, private: false };
const PRIVATE: Allowed = Allowed { loopback: false, private: true };

fn refused(address: &str, allowed: Allowed) -> bool {
    refusal(address.parse().unwrap(), allowed, "say so").is_some()
}

#[test]
fn public_address_is_allowed() {
    for address in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "192.0.1.1", "2606:4700::1111", "2a00::1"] {
        assert!(!refused(address, STRICT), "{address}");
    }
    // Also when embedded in an IPv6 address.
    for address in ["::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1"] {
        assert!(!refused(address, STRICT), "{address}");
    }
}

#[test]
fn private_address_is_refused_in_every_notation() {
    for address in [
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.1.1",
        "100.64.0.1",
        "100.127.255.255",
        "198.18.0.1",
        "192.0.2.1",
        "240.0.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "2001::1",
        "2001:db8::1",
        "::10.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:a00:1::1",
        "2002:7f00:1::1",
    ] {
        assert!(refused(address, STRICT), "{address}");
        assert!(!refused(address, PRIVATE), "{address}");
    }
}

#[test]
fn metadata_and_non_host_addresses_are_always_refused() {
    for address in [
        "0.0.0.0",
        "0.1.2.3",
        "::",
        "::ffff:0.0.0.0",
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "fd00:ec2::254",
        "224.0.0.1",
        "239.255.255.255",
        "255.255.255.255",
        "ff02::1",
    ] {
        assert!(refused(address, Allowed { loopback: true, private: true }), "{address}");
    }
}

#[test]
fn loopback_is_allowed_only_if_named() {
    for host in ["http://localhost/", "http://LOCALHOST./", "http://a.localhost/", "http://127.0.0.1/"] {
        assert!(names_loopback(&url::Url::parse(host).unwrap().host().unwrap()), "{host}");
    }
    for host in ["http://127.1/", "http://2130706433/", "http://0x7f.0.0.1/", "http://[::1]/"] {
        assert!(names_loopback(&url::Url::parse(host).unwrap().host().unwrap()), "{host}");
    }
    for host in ["http://localhost.example/", "http://notlocalhost/", "http://10.0.0.1/", "http://[::2]/"] {
        assert!(!names_loopback(&url::Url::parse(host).unwrap().host().unwrap()), "{host}");
    }
    let named = Allowed { loopback: true, private: false };
    assert!(!refused("127.0.0.1", named) && !refused("::1", named));
    // A name of this machine allows nothing else.
    assert!(refused("10.0.0.1", named));
}

#[test]
fn refusal_contains_remedy() {
    let text = refusal("10.0.0.1".parse().unwrap(), STRICT, "say so").unwrap();
    assert!(text.contains("10.0.0.1") && text.contains("say so"), "{text}");
}
