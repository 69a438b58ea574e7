//! Checks that the address to listen on is free or used by the hub.

use std::io::ErrorKind;
use std::net::TcpListener;

use super::hub::RunningHub;
use super::{CheckContext, Finding};

const CHECK: &str = "port";

pub(super) fn check(context: &CheckContext, hub: Option<&RunningHub>) -> Finding {
    let address = context.config.listen;
    if let Some(hub) = hub {
        return Finding::ok(CHECK, format!("the hub listens at {}", hub.url()));
    }
    // The listener is closed at once, before a client could connect.
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok(CHECK, format!("{address} is free")),
        Err(error) => {
            let message = match error.kind() {
                ErrorKind::AddrInUse => format!("{address} is in use by another program"),
                ErrorKind::PermissionDenied => format!("only root may listen on {address}"),
                _ => format!("cannot listen on {address}: {error}"),
            };
            Finding::problem(CHECK, message, format!("{} up --listen 127.0.0.1:0", context.plexus))
        }
    }
}
