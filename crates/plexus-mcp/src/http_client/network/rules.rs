//! Which addresses are connected to for the file of a server, or for a caller who names a URL.
//!
//! A hub stands in a network that the people who name servers may not see into. So an address that is not of the open
//! internet needs the word of the file or of the hub's settings, in whatever form it is written: an IPv4 address inside
//! of an IPv6 one is looked at as the IPv4 address that it leads to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Host;

/// Where addresses lead, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Public,
    Loopback,
    /// Not of the open internet: to be allowed by name.
    Inner(&'static str),
    /// No server is ever there, or one that gives away the machine's own credentials.
    Never(&'static str),
}

const METADATA: Kind = Kind::Never("the address of a cloud's metadata service");

/// Whether a URL says in so many words that it means this machine.
#[must_use]
pub fn names_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
        }
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => kind(IpAddr::V6(*address)) == Kind::Loopback,
    }
}

/// What to allow beside the open internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowed {
    /// The name that was looked up means this machine.
    pub(super) loopback: bool,
    /// The file or the hub's settings allow private networks.
    pub(super) inner: bool,
}

/// Why no connection is made to an address. `remedy` is what lets it be made, where something does.
pub(super) fn refusal(address: IpAddr, allowed: Allowed, remedy: &str) -> Option<String> {
    let what = match kind(address) {
        Kind::Public => return None,
        Kind::Loopback if allowed.loopback || allowed.inner => return None,
        Kind::Inner(_) if allowed.inner => return None,
        Kind::Loopback => "this machine itself",
        Kind::Inner(what) => what,
        Kind::Never(what) => return Some(format!("{address} is {what}, and nothing is ever asked there")),
    };
    Some(format!("{address} is {what}; if it is meant, {remedy}"))
}

fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> Kind {
    match address.octets() {
        [0, ..] => Kind::Never("no address of a machine"),
        [127, ..] => Kind::Loopback,
        // Of most clouds, of the tasks of one of them, and of one more.
        [169, 254, 169, 254] | [169, 254, 170, 2] | [100, 100, 100, 200] | [192, 0, 0, 192] => METADATA,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Kind::Inner("an address of a private network"),
        [169, 254, ..] => Kind::Inner("a link-local address"),
        [100, 64..=127, ..] => Kind::Inner("an address of a provider's inner network"),
        [192, 0, 0, _] | [192, 0, 2, _] | [198, 18..=19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Kind::Inner("an address set aside for tests and documents")
        }
        [224..=239, ..] => Kind::Never("a multicast address"),
        [255, 255, 255, 255] => Kind::Never("the broadcast address"),
        [240..=255, ..] => Kind::Inner("an address that is reserved"),
        _ => Kind::Public,
    }
}

fn kind_v6(address: Ipv6Addr) -> Kind {
    if address.is_loopback() {
        return Kind::Loopback;
    }
    if address.is_unspecified() {
        return Kind::Never("no address of a machine");
    }
    if let Some(inside) = address.to_ipv4_mapped() {
        return kind_v4(inside);
    }
    let translated = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        match kind_v4(Ipv4Addr::new(a, b, c, d)) {
            Kind::Loopback | Kind::Inner(_) => {
                Kind::Inner("an address of a private network behind a gateway")
            }
            other => other,
        }
    };
    match address.segments() {
        [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254] => METADATA,
        // NAT64 and 6to4 lead to an IPv4 address.
        [0x0064, 0xff9b, 0, 0, 0, 0, high, low] => translated(high, low),
        [0x2002, high, low, ..] => translated(high, low),
        [0x0064, 0xff9b, 1, ..] => Kind::Inner("an address of a private network behind a gateway"),
        [0xfc00..=0xfdff, ..] => Kind::Inner("an address of a private network"),
        [0xfe80..=0xfebf, ..] => Kind::Inner("a link-local address"),
        [0xfec0..=0xfeff, ..] => Kind::Inner("an address of a private network"),
        [0xff00..=0xffff, ..] => Kind::Never("a multicast address"),
        // Only what is given out today is public: 2000::/3 without tunnels and documents.
        [0x2001, 0..=0x01ff, ..] | [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => {
            Kind::Inner("an address set aside for tunnels, tests and documents")
        }
        [0x2000..=0x3fff, ..] => Kind::Public,
        _ => Kind::Inner("an address that is reserved"),
    }
}

#[cfg(test)]
mod tests;
