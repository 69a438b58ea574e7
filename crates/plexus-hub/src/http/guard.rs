//! Keeps web pages out: a browser that was tricked into calling the hub says so in `Host` or
//! `Origin`, and those are checked on every route before anything else.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN};
use http::{StatusCode, Uri};
use plexus_proto::ErrorCode;

use super::ApiError;
use crate::App;

pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    match check(&app, &request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn check(app: &App, request: &Request) -> Result<(), ApiError> {
    let refused = |what: &str, fix: &str| {
        ApiError::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, format!("this {what} may not use the hub"))
            .hint(format!("If it should, add it to `{fix}` in the hub's configuration."))
    };
    let config = app.config.load();
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    // A name that resolves here only by DNS is what rebinding looks like; an address cannot be rebound.
    let host_ok = host.is_some_and(|host| {
        let name = host_name(host);
        is_address(name)
            || is_localhost(name)
            || listed(&config.allowed_hosts, &[host, name])
            || config.public_url.as_deref().is_some_and(|url| authority(url).eq_ignore_ascii_case(host))
    });
    // A target that names a host itself, as to a proxy, wins over the header; it may say nothing else.
    let target_ok = request.uri().authority().is_none_or(|target| Some(target.as_str()) == host);
    if !host_ok || !target_ok || hosts.next().is_some() {
        return Err(refused("Host", "allowed_hosts"));
    }
    let mut origins = request.headers().get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let origin_ok = listed(&config.allowed_origins, &[origin])
        || origin.parse::<Uri>().ok().is_some_and(|uri| {
            let authority = uri.authority().map_or("", http::uri::Authority::as_str);
            let name = host_name(authority);
            let web = matches!(uri.scheme_str(), Some("http" | "https"));
            web && (is_loopback(name) || is_localhost(name) || Some(authority) == host)
        });
    if origin_ok && origins.next().is_none() { Ok(()) } else { Err(refused("Origin", "allowed_origins")) }
}

/// `host:port` without the port, `[::1]:port` without brackets; nothing for what is neither.
fn host_name(host: &str) -> &str {
    let is_port = |rest: &str| {
        rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
    };
    let (name, rest) = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').unwrap_or_default(),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    if is_port(rest) && !name.contains('@') { name } else { "" }
}

/// `https://host:port/path` without what is around the host.
fn authority(url: &str) -> &str {
    let rest = url.split_once("//").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}

fn is_loopback(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_localhost(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
}

fn listed(list: &[String], candidates: &[&str]) -> bool {
    list.iter().any(|entry| candidates.iter().any(|candidate| entry.eq_ignore_ascii_case(candidate)))
}
