//! Checks that the address to listen on is free or used by the hub.

use std::io::ErrorKind;
use std::net::TcpListener;

use super::{CheckContext, Finding};
use crate::hub_file::Occupant;

const CHECK: &str = "port";

pub(super) fn check(context: &CheckContext) -> Finding {
    let address = context.config.listen;
    if let Ok(Occupant::Hub(hub)) = Occupant::of(&context.config.data_dir) {
        return Finding::ok(CHECK, format!("the hub listens at {}", hub.address()));
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
