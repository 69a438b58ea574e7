//! Whether the address to listen on is free, or held by our own hub.

use std::io::ErrorKind;
use std::net::TcpListener;

use super::hub::Seen;
use super::{Finding, Subject};

const CHECK: &str = "port";

pub(super) fn check(subject: &Subject, hub: Option<&Seen>) -> Finding {
    let address = subject.config.listen;
    if let Some(hub) = hub {
        return Finding::ok(CHECK, format!("the hub listens at {}", hub.url()));
    }
    // Given back at once; nobody can have connected to it.
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok(CHECK, format!("{address} is free")),
        Err(error) => {
            let message = match error.kind() {
                ErrorKind::AddrInUse => format!("{address} is held by another program"),
                ErrorKind::PermissionDenied => format!("{address} is for root only"),
                _ => format!("{address} cannot be listened on: {error}"),
            };
            Finding::problem(CHECK, message, format!("{} up --listen 127.0.0.1:0", subject.plexus))
        }
    }
}
