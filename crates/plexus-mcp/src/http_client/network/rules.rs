//! Rules for the addresses that may be connected to, for configured servers and for URLs that callers choose.
//!
//! The hub may be in a network that the people who name servers cannot reach. So an address outside the public
//! internet has to be allowed in the server's file or the hub's settings, in every notation: an IPv4 address embedded
//! in an IPv6 address is judged as the IPv4 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Host;

/// What an address leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Public,
    Loopback,
    /// Outside the public internet: has to be allowed.
    Private(&'static str),
    /// Never a server, or one that hands out the machine's own credentials.
    Never(&'static str),
}

const METADATA: Kind = Kind::Never("the address of a cloud's metadata service");

/// Whether a URL's host explicitly names this machine.
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

/// Addresses allowed in addition to the public internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowed {
    /// The name that was looked up names this machine.
    pub(super) loopback: bool,
    /// The server's file or the hub's settings allow private networks.
    pub(super) private: bool,
}

/// Why an address is refused; none if it is allowed. `remedy` says how to allow it, if that is possible.
pub(super) fn refusal(address: IpAddr, allowed: Allowed, remedy: &str) -> Option<String> {
    let description = match kind(address) {
        Kind::Public => return None,
        Kind::Loopback if allowed.loopback || allowed.private => return None,
        Kind::Private(_) if allowed.private => return None,
        Kind::Loopback => "this machine",
        Kind::Private(description) => description,
        Kind::Never(description) => {
            return Some(format!("{address} is {description}, which is never allowed"));
        }
    };
    Some(format!("{address} is {description}; to allow it, {remedy}"))
}

fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> Kind {
    match address.octets() {
        [0, ..] => Kind::Never("not the address of a machine"),
        [127, ..] => Kind::Loopback,
        // Most clouds; AWS ECS tasks; Alibaba Cloud; Oracle Cloud.
        [169, 254, 169, 254] | [169, 254, 170, 2] | [100, 100, 100, 200] | [192, 0, 0, 192] => METADATA,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Kind::Private("an address of a private network"),
        [169, 254, ..] => Kind::Private("a link-local address"),
        [100, 64..=127, ..] => Kind::Private("an address of a provider's internal network"),
        [192, 0, 0, _] | [192, 0, 2, _] | [198, 18..=19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Kind::Private("an address reserved for tests and documentation")
        }
        [224..=239, ..] => Kind::Never("a multicast address"),
        [255, 255, 255, 255] => Kind::Never("the broadcast address"),
        [240..=255, ..] => Kind::Private("a reserved address"),
        _ => Kind::Public,
    }
}

fn kind_v6(address: Ipv6Addr) -> Kind {
    if address.is_loopback() {
        return Kind::Loopback;
    }
    if address.is_unspecified() {
        return Kind::Never("not the address of a machine");
    }
    if let Some(inside) = address.to_ipv4_mapped() {
        return kind_v4(inside);
    }
    let translated = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        match kind_v4(Ipv4Addr::new(a, b, c, d)) {
            Kind::Loopback | Kind::Private(_) => {
                Kind::Private("an address of a private network behind a gateway")
            }
            other => other,
        }
    };
    match address.segments() {
        [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254] => METADATA,
        // NAT64 and 6to4 lead to an IPv4 address.
        [0x0064, 0xff9b, 0, 0, 0, 0, high, low] => translated(high, low),
        [0x2002, high, low, ..] => translated(high, low),
        [0x0064, 0xff9b, 1, ..] => Kind::Private("an address of a private network behind a gateway"),
        [0xfc00..=0xfdff, ..] => Kind::Private("an address of a private network"),
        [0xfe80..=0xfebf, ..] => Kind::Private("a link-local address"),
        [0xfec0..=0xfeff, ..] => Kind::Private("an address of a private network"),
        [0xff00..=0xffff, ..] => Kind::Never("a multicast address"),
        // Only the allocated range is public: 2000::/3 without tunnels and documentation.
        [0x2001, 0..=0x01ff, ..] | [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => {
            Kind::Private("an address reserved for tunnels, tests and documentation")
        }
        [0x2000..=0x3fff, ..] => Kind::Public,
        _ => Kind::Private("a reserved address"),
    }
}

#[cfg(test)]
mod tests;
