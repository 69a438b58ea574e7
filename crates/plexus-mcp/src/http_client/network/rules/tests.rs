use super::*;

const STRICT: Allowed = Allowed { loopback: false, inner: false };
const INNER: Allowed = Allowed { loopback: false, inner: true };

fn refused(address: &str, allowed: Allowed) -> bool {
    refusal(address.parse().unwrap(), allowed, "say so").is_some()
}

#[test]
fn the_open_internet_needs_no_word() {
    for address in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "192.0.1.1", "2606:4700::1111", "2a00::1"] {
        assert!(!refused(address, STRICT), "{address}");
    }
    // Public ones in other dress stay public.
    for address in ["::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1"] {
        assert!(!refused(address, STRICT), "{address}");
    }
}

#[test]
fn what_is_not_of_the_open_internet_needs_one_in_every_dress() {
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
        assert!(!refused(address, INNER), "{address}");
    }
}

#[test]
fn some_addresses_are_refused_whatever_is_allowed() {
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
        assert!(refused(address, Allowed { loopback: true, inner: true }), "{address}");
    }
}

#[test]
fn loopback_is_allowed_only_where_it_was_named() {
    for host in ["http://localhost/", "http://LOCALHOST./", "http://a.localhost/", "http://127.0.0.1/"] {
        assert!(names_loopback(&url::Url::parse(host).unwrap().host().unwrap()), "{host}");
    }
    for host in ["http://127.1/", "http://2130706433/", "http://0x7f.0.0.1/", "http://[::1]/"] {
        assert!(names_loopback(&url::Url::parse(host).unwrap().host().unwrap()), "{host}");
    }
    for host in ["http://localhost.example/", "http://notlocalhost/", "http://10.0.0.1/", "http://[::2]/"] {
        assert!(!names_loopback(&url::Url::parse(host).unwrap().host().unwrap()), "{host}");
    }
    let named = Allowed { loopback: true, inner: false };
    assert!(!refused("127.0.0.1", named) && !refused("::1", named));
    // A name that means this machine opens nothing else.
    assert!(refused("10.0.0.1", named));
}

#[test]
fn a_refusal_says_what_to_do() {
    let text = refusal("10.0.0.1".parse().unwrap(), STRICT, "say so").unwrap();
    assert!(text.contains("10.0.0.1") && text.contains("say so"), "{text}");
}
