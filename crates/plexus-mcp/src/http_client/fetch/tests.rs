use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const REMEDY: &str = "ask the owner";

/// Answers each connection with the next of these, and keeps what it was asked. What ends with `…` is never ended.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    _task: tokio::task::JoinSet<()>,
}

impl Server {
    async fn answering(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (noted, answers): (_, Vec<String>) =
            (asked.clone(), answers.iter().map(|&a| a.to_owned()).collect());
        let mut task = tokio::task::JoinSet::new();
        task.spawn(async move {
            let mut open = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                noted.lock().unwrap().push(String::from_utf8(head).unwrap());
                let answer = answer.replace("PORT", &port.to_string());
                let _ = stream.write_all(answer.trim_end_matches('…').as_bytes()).await;
                if answer.ends_with('…') {
                    open.push(stream);
                }
            }
            std::future::pending::<()>().await;
        });
        Self { port, asked, _task: task }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/secret-path?key=secret", self.port)
    }
}

fn fetcher(patience: Duration) -> Fetcher {
    Fetcher::new(patience, 1000, REMEDY)
}

async fn get(url: &str, inner: bool) -> Result<Bytes, FetchError> {
    fetcher(Duration::from_secs(20)).get(url, inner, "image/*").await
}

#[tokio::test]
async fn what_is_allowed_is_fetched_and_says_nothing_of_who_asks() {
    let server = Server::answering(&["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"]).await;
    assert_eq!(get(&server.url(), true).await.unwrap(), "hello");
    let asked = server.asked.lock().unwrap().join("").to_lowercase();
    for header in ["cookie", "authorization", "referer", "origin:"] {
        assert!(!asked.contains(header), "{asked}");
    }
}

#[tokio::test]
async fn this_machine_and_private_networks_are_not_asked_however_they_are_written() {
    let server = Server::answering(&[]).await;
    let port = server.port;
    for host in [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0x7f000001",
        "2130706433",
        "127.1",
        "0177.0.0.1",
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "[fd00::1]",
        "[fe80::1]",
        "100.64.0.1",
        "[64:ff9b::7f00:1]",
    ] {
        let refused = get(&format!("http://{host}:{port}/secret"), false).await.unwrap_err();
        assert!(matches!(&refused, FetchError::Refused(why) if why.contains(REMEDY)), "{host}: {refused}");
        assert!(!refused.to_string().contains("secret"));
    }
    assert!(server.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn some_places_are_not_asked_whatever_is_allowed() {
    for host in [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "0.0.0.0",
        "[::]",
    ] {
        let refused = get(&format!("http://{host}/latest/meta-data"), true).await.unwrap_err();
        assert!(matches!(&refused, FetchError::Refused(_)), "{host}: {refused}");
    }
}

#[tokio::test]
async fn a_redirect_leads_nowhere_that_could_not_be_named_and_not_on_for_ever() {
    let to =
        |location: &str| format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
    for location in [
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "http://user:word@127.0.0.1:PORT/",
        "ftp://127.0.0.1/",
    ] {
        let server = Server::answering(&[&to(location)]).await;
        let refused = get(&server.url(), true).await.unwrap_err();
        assert!(matches!(refused, FetchError::Refused(_)), "{location}: {refused}");
    }
    let again = to("http://127.0.0.1:PORT/again");
    let server = Server::answering(&[again.as_str(); 8]).await;
    let refused = get(&server.url(), true).await.unwrap_err();
    assert!(refused.to_string().contains("redirects"), "{refused}");
    assert_eq!(server.asked.lock().unwrap().len(), MAX_REDIRECTS + 1);
    let server = Server::answering(&[&again, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nthen"]).await;
    assert_eq!(get(&server.url(), true).await.unwrap(), "then");
}

/// One that may be asked sends on to one that may not, and would not be noticed if only the first were checked.
#[tokio::test]
async fn what_is_checked_is_checked_anew_after_a_redirect() {
    for inside in ["http://10.255.255.1/", "http://192.168.0.1/", "http://[fd00::1]/"] {
        let to = format!("HTTP/1.1 307 Moved\r\nLocation: {inside}\r\nContent-Length: 0\r\n\r\n");
        let server = Server::answering(&[&to]).await;
        let url = Url::parse(&server.url()).unwrap();
        // Of all that is not public it lets this machine be asked, and only because it is named.
        let network = Network::of(&url, None, false, "", Duration::from_secs(5));
        let fetcher = fetcher(Duration::from_secs(5));
        let refused = fetcher.follow(&network, url, "image/*").await.unwrap_err();
        assert!(
            matches!(&refused, FetchError::Refused(why) if why.contains("private")),
            "{inside}: {refused}"
        );
        assert_eq!(server.asked.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn what_is_no_address_of_a_web_server_is_said_to_be_none() {
    for url in [
        "file:///etc/passwd",
        "data:image/png;base64,AA",
        "ftp://example.net/a",
        "gopher://127.0.0.1/",
        "a.png",
        "",
    ] {
        assert!(matches!(get(url, true).await.unwrap_err(), FetchError::Url(_)), "{url}");
    }
    let refused = get("http://user:word@127.0.0.1:1/", true).await.unwrap_err();
    assert!(matches!(&refused, FetchError::Url(why) if !why.contains("word@")), "{refused}");
}

#[tokio::test]
async fn what_is_too_long_is_not_read_to_its_end() {
    let announced = "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n…".to_owned();
    let lying =
        format!("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}…", "x".repeat(5000));
    let endless = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}…", "x".repeat(5000));
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}…",
        "ff\r\n".to_owned() + &"x".repeat(255) + "\r\n"
    );
    let chunks =
        chunked.replace('…', "") + &("ff\r\n".to_owned() + &"x".repeat(255) + "\r\n").repeat(4) + "…";
    for answer in [announced, endless, chunks] {
        let server = Server::answering(&[&answer]).await;
        let refused = get(&server.url(), true).await.unwrap_err();
        assert!(matches!(refused, FetchError::TooLong { limit: 1000, .. }), "{refused}");
    }
    let server = Server::answering(&[&lying]).await;
    assert!(get(&server.url(), true).await.is_err());
}

#[tokio::test]
async fn one_that_takes_its_time_is_left() {
    for answer in ["…", "HTTP/1.1 200 OK\r\n…", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na bit…"]
    {
        let server = Server::answering(&[answer]).await;
        let fetched = fetcher(Duration::from_millis(300)).get(&server.url(), true, "image/*").await;
        assert!(matches!(fetched.unwrap_err(), FetchError::TooSlow { .. }), "{answer}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_told() {
    for (answer, says) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"),
        ("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "does not say where"),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "does not answer"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "broke off"),
        ("", "does not answer"),
    ] {
        let server = Server::answering(&[answer]).await;
        let why = get(&server.url(), true).await.unwrap_err().to_string();
        assert!(why.contains(says) && !why.contains("secret"), "{answer:?}: {why}");
    }
}
