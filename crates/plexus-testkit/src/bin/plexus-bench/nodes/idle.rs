//! Many linked but idle nodes.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::{SinkExt as _, StreamExt as _};
use plexus_proto::api::{Node, NodeCredential, NodeState, Page};
use plexus_proto::node::{Frame, Hello, NodeTool, Received, VERSIONS};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;

use super::site::Site;

/// Time for the memory to settle.
const REST: Duration = Duration::from_secs(2);
/// Several heartbeats.
const WATCHED: Duration = Duration::from_secs(30);

#[derive(Debug, Serialize)]
pub(super) struct Idle {
    pub(super) nodes: usize,
    pub(super) rss_before_mb: f64,
    pub(super) rss_after_mb: f64,
    pub(super) kb_per_node: f64,
    /// CPU of the hub per node, in microseconds per second.
    pub(super) cpu_us_per_node: f64,
}

pub(super) async fn measure(site: &Site, nodes: usize) -> Result<Idle> {
    // One node to warm up one-time allocations.
    let mut links = JoinSet::new();
    link(site, "first", &mut links).await?;
    tokio::time::sleep(REST).await;
    let before = site.hub.usage()?.rss as f64;
    for number in 0..nodes {
        link(site, &format!("n{number}"), &mut links).await?;
    }
    tokio::time::sleep(REST).await;
    let (after, began) = (site.hub.usage()?.rss as f64, site.hub.usage()?.cpu);
    tokio::select! {
        () = tokio::time::sleep(WATCHED) => {}
        ended = links.join_next() => anyhow::bail!("a link ended: {ended:?}"),
    }
    let cpu = site.hub.usage()?.cpu.saturating_sub(began);
    let online = online(site).await?;
    ensure!(online > nodes, "only {online} of {nodes} nodes are online");
    Ok(Idle {
        nodes,
        rss_before_mb: before / 1e6,
        rss_after_mb: after / 1e6,
        kb_per_node: (after - before) / 1e3 / nodes as f64,
        cpu_us_per_node: cpu.as_secs_f64() * 1e6 / WATCHED.as_secs_f64() / nodes as f64,
    })
}

/// Number of nodes that the hub reports as online, on all pages of its list.
async fn online(site: &Site) -> Result<usize> {
    let (mut online, mut cursor) = (0, String::new());
    loop {
        let page: Page<Node> =
            serde_json::from_value(site.get(&format!("/api/v1/nodes?limit=200{cursor}")).await?)?;
        online += page.items.iter().filter(|node| node.state == NodeState::Online).count();
        let Some(next) = page.next else { return Ok(online) };
        cursor = format!("&cursor={next}");
    }
}

/// Links a node that only answers heartbeats and test calls.
async fn link(site: &Site, name: &str, links: &mut JoinSet<Result<()>>) -> Result<()> {
    let NodeCredential { node_id, token, .. } = site.enrol(name).await?;
    let token = token.context("a credential with a token")?;
    let address = site.endpoint.address;
    let mut request = format!("ws://{address}/ws/nodes/{node_id}").into_client_request()?;
    request.headers_mut().insert(AUTHORIZATION, format!("Bearer {token}").parse()?);
    let stream = tokio::net::TcpStream::connect(address).await.context("the hub")?;
    stream.set_nodelay(true)?;
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.context("the link")?;
    let hello = Hello {
        versions: VERSIONS.to_vec(),
        node_id,
        store_id: uuid::Uuid::now_v7(),
        dial: None,
        version: "bench".to_owned(),
        os: "linux".to_owned(),
        arch: "x86_64".to_owned(),
        hostname: None,
        sandbox: None,
        tools: vec![NodeTool { name: "terminal".to_owned() }],
        mcp_servers: vec![],
        profiles: vec![],
        labels: [].into(),
        calls: vec![],
        draining: false,
    };
    socket.send(Message::text(Frame::Hello(hello).text())).await?;
    let first = socket.next().await.context("the hub closes the link of a node")??;
    let welcome = matches!(Frame::parse(first.to_text()?)?, Received::Frame(Frame::Welcome(_)));
    ensure!(welcome, "the hub does not welcome a node: {first}");
    links.spawn(async move {
        while let Some(message) = socket.next().await {
            let Message::Text(text) = message? else { continue };
            let Received::Frame(frame) = Frame::parse(&text)? else { continue };
            if let Some(answer) = super::site::answer(&frame) {
                socket.send(Message::text(answer.text())).await?;
            }
        }
        Ok(())
    });
    Ok(())
}
