//! `Host` and `Origin`: a web page must not reach the hub through a user's browser.

use plexus_testkit::{RawConnection, TestHub};

/// A request as sent by a browser, with these `Host` and `Origin` headers.
struct Browser {
    label: &'static str,
    hosts: &'static [&'static str],
    origins: &'static [&'static str],
    /// 401 means that it passed these checks and lacks a token.
    status: u16,
}

#[rustfmt::skip]
const BROWSERS: &[Browser] = &[
    Browser { label: "no browser",                  hosts: &["127.0.0.1:PORT"],             origins: &[],                                  status: 401 },
    Browser { label: "by name",                     hosts: &["localhost:PORT"],             origins: &[],                                  status: 401 },
    Browser { label: "by name, no port",            hosts: &["LocalHost"],                  origins: &[],                                  status: 401 },
    Browser { label: "IPv6",                        hosts: &["[::1]:PORT"],                 origins: &[],                                  status: 401 },
    Browser { label: "an address of the network",   hosts: &["192.168.1.5:PORT"],           origins: &[],                                  status: 401 },
    Browser { label: "a configured host",           hosts: &["hub.example.net"],            origins: &[],                                  status: 401 },
    Browser { label: "a configured host, a port",   hosts: &["hub.example.net:8443"],       origins: &[],                                  status: 401 },
    Browser { label: "rebinding",                   hosts: &["evil.example.com"],           origins: &[],                                  status: 403 },
    Browser { label: "rebinding, same origin",      hosts: &["evil.example.com:PORT"],      origins: &["http://evil.example.com:PORT"],    status: 403 },
    Browser { label: "localhost as a part",         hosts: &["localhost.evil.example.com"], origins: &[],                                  status: 403 },
    Browser { label: "an address as a part",        hosts: &["127.0.0.1.evil.example.com"], origins: &[],                                  status: 403 },
    Browser { label: "no host",                     hosts: &[],                             origins: &[],                                  status: 403 },
    Browser { label: "an empty host",               hosts: &[""],                           origins: &[],                                  status: 403 },
    Browser { label: "an address as a part",        hosts: &["[::1].evil.example.com"],     origins: &[],                                  status: 403 },
    Browser { label: "localhost as user and word",  hosts: &["localhost:x@evil.example.com"], origins: &[],                                status: 403 },
    Browser { label: "two hosts",                   hosts: &["localhost", "localhost"],     origins: &[],                                  status: 403 },
    Browser { label: "a good and a bad host",       hosts: &["localhost", "evil.example.com"], origins: &[],                               status: 403 },
    Browser { label: "a page of this machine",      hosts: &["localhost:PORT"],             origins: &["http://localhost:3000"],           status: 401 },
    Browser { label: "the same by address",         hosts: &["localhost:PORT"],             origins: &["http://127.0.0.1:PORT"],           status: 401 },
    Browser { label: "the same by IPv6",            hosts: &["localhost:PORT"],             origins: &["https://[::1]:1"],                 status: 401 },
    Browser { label: "the hub's own page",          hosts: &["192.168.1.5:PORT"],           origins: &["http://192.168.1.5:PORT"],         status: 401 },
    Browser { label: "a configured origin",         hosts: &["localhost:PORT"],             origins: &["https://app.example.net"],         status: 401 },
    Browser { label: "a configured one, a port",    hosts: &["localhost:PORT"],             origins: &["https://app.example.net:444"],     status: 403 },
    Browser { label: "a configured one, no TLS",    hosts: &["localhost:PORT"],             origins: &["http://app.example.net"],          status: 403 },
    Browser { label: "any page",                    hosts: &["localhost:PORT"],             origins: &["https://evil.example.com"],        status: 403 },
    Browser { label: "another machine's page",      hosts: &["192.168.1.5:PORT"],           origins: &["http://192.168.1.6:PORT"],         status: 403 },
    Browser { label: "another port of that machine", hosts: &["192.168.1.5:PORT"],          origins: &["http://192.168.1.5:1"],            status: 403 },
    Browser { label: "localhost as a part",         hosts: &["localhost:PORT"],             origins: &["http://localhost.evil.example.com"], status: 403 },
    Browser { label: "localhost as a user",         hosts: &["localhost:PORT"],             origins: &["http://localhost@evil.example.com"], status: 403 },
    Browser { label: "localhost behind a user",     hosts: &["localhost:PORT"],             origins: &["http://evil.example.com@localhost"], status: 403 },
    Browser { label: "an address as a part",        hosts: &["localhost:PORT"],             origins: &["http://[::1].evil.example.com"],   status: 403 },
    Browser { label: "localhost, user and word",    hosts: &["localhost:PORT"],             origins: &["http://localhost:x@evil.example.com"], status: 403 },
    Browser { label: "a sandboxed page",            hosts: &["localhost:PORT"],             origins: &["null"],                            status: 403 },
    Browser { label: "a file",                      hosts: &["localhost:PORT"],             origins: &["file://"],                         status: 403 },
    Browser { label: "an extension",                hosts: &["localhost:PORT"],             origins: &["chrome-extension://localhost"],    status: 403 },
    Browser { label: "an empty origin",             hosts: &["localhost:PORT"],             origins: &[""],                                status: 403 },
    Browser { label: "two origins",                 hosts: &["localhost:PORT"],             origins: &["http://localhost", "http://localhost"], status: 403 },
    Browser { label: "a good and a bad origin",     hosts: &["localhost:PORT"],             origins: &["http://localhost", "https://evil.example.com"], status: 403 },
];

#[tokio::test]
async fn host_and_origin_are_checked_before_the_token_on_every_route() {
    let hub = TestHub::start_with(|config| {
        config.allowed_hosts = vec!["hub.example.net".to_owned()];
        config.allowed_origins = vec!["https://app.example.net".to_owned()];
    })
    .await;
    let port = hub.address().port().to_string();
    for browser in BROWSERS {
        let mut headers = String::new();
        for host in browser.hosts {
            headers.push_str(&format!("Host: {}\r\n", host.replace("PORT", &port)));
        }
        for origin in browser.origins {
            headers.push_str(&format!("Origin: {}\r\n", origin.replace("PORT", &port)));
        }
        for (method, path) in
            [("POST", "/mcp"), ("GET", "/mcp/v1"), ("DELETE", "/mcp"), ("GET", "/api/v1/status")]
        {
            let mut connection = RawConnection::open(hub.address()).await;
            connection.send(format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: 0\r\n\r\n")).await;
            let answer = connection.answer().await;
            assert_eq!(answer.status, browser.status, "{} at {method} {path}", browser.label);
            let code = if browser.status == 401 { "unauthenticated" } else { "forbidden" };
            assert_eq!(answer.json()["code"], code, "{} at {method} {path}", browser.label);
        }
    }
}

#[tokio::test]
async fn preflight_of_a_foreign_origin_is_refused() {
    let hub = TestHub::start().await;
    let mut connection = RawConnection::open(hub.address()).await;
    let head = "OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example.com\r\n\
                Access-Control-Request-Method: POST\r\n\r\n";
    connection.send(head).await;
    let answer = connection.answer().await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None));
}
