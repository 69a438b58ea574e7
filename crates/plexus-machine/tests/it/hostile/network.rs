//! Network access, with and without a network.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use plexus_machine::launch::SandboxLevel;

use super::{Scene, policy_with_level};
use crate::sandbox::{LEVELS, is_available};

/// A server that listens on every kind of socket.
struct Listeners {
    tcp: TcpListener,
    tcp6: Option<TcpListener>,
    udp: UdpSocket,
    unnamed: UnixListener,
    name: String,
    file: UnixListener,
}

impl Listeners {
    fn new(scene: &Scene) -> Self {
        let name = format!("plexus-hostile-{}", uuid::Uuid::now_v7());
        let unnamed = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let listeners = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            tcp6: TcpListener::bind("[::1]:0").ok(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            unnamed,
            name,
            file: UnixListener::bind(scene.home("work/socket")).unwrap(),
        };
        listeners.tcp.set_nonblocking(true).unwrap();
        listeners.unnamed.set_nonblocking(true).unwrap();
        listeners.file.set_nonblocking(true).unwrap();
        listeners.udp.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        if let Some(tcp6) = &listeners.tcp6 {
            tcp6.set_nonblocking(true).unwrap();
        }
        listeners
    }

    fn command(&self) -> String {
        let tcp = self.tcp.local_addr().unwrap().port();
        let tcp6 = self.tcp6.as_ref().map_or(tcp, |tcp6| tcp6.local_addr().unwrap().port());
        let udp = self.udp.local_addr().unwrap().port();
        let perl = |family: &str, kind: &str, address: &str| {
            format!(
                "perl -MSocket=:all -e 'socket(S,{family},{kind},0) or die $!; connect(S,{address}) or die $!; send(S,\"x\",0)'; "
            )
        };
        [
            perl("AF_INET", "SOCK_STREAM", &format!("pack_sockaddr_in({tcp},inet_aton(\"127.0.0.1\"))")),
            perl(
                "AF_INET6",
                "SOCK_STREAM",
                &format!("pack_sockaddr_in6({tcp6},inet_pton(AF_INET6,\"::1\"))"),
            ),
            perl("AF_INET", "SOCK_DGRAM", &format!("pack_sockaddr_in({udp},inet_aton(\"127.0.0.1\"))")),
            perl("AF_UNIX", "SOCK_STREAM", &format!("pack_sockaddr_un(\"\\0{}\")", self.name)),
            perl("AF_UNIX", "SOCK_STREAM", "pack_sockaddr_un(\"socket\")"),
        ]
        .concat()
    }

    /// The connections that arrived.
    fn reached_listeners(&self) -> Vec<&'static str> {
        let reached_listeners = [
            ("tcp", self.tcp.accept().is_ok()),
            ("tcp6", self.tcp6.as_ref().is_some_and(|tcp6| tcp6.accept().is_ok())),
            ("udp", self.udp.recv(&mut [0; 8]).is_ok()),
            ("unnamed", self.unnamed.accept().is_ok()),
            ("file", self.file.accept().is_ok()),
        ];
        reached_listeners
            .into_iter()
            .filter_map(|(name, was)| was.then_some(name))
            .filter(|name| *name != "tcp6")
            .collect()
    }
}

async fn reached_listeners(level: SandboxLevel, network: bool) -> (Vec<&'static str>, serde_json::Value) {
    let scene = Scene::new(&format!("{}network = {network}\n", policy_with_level(level, ""))).await;
    let listeners = Listeners::new(&scene);
    let ran = scene.run(&listeners.command()).await;
    (listeners.reached_listeners(), ran)
}

#[tokio::test]
async fn commands_without_network_reach_nothing() {
    let (free, ran) = reached_listeners(SandboxLevel::None, true).await;
    assert_eq!(free, ["tcp", "udp", "unnamed", "file"], "{ran}");
    for (level, reached) in [(SandboxLevel::Landlock, &[][..]), (SandboxLevel::Bubblewrap, &["file"][..])] {
        if is_available(level) {
            let (reached_listeners, ran) = reached_listeners(level, false).await;
            assert_eq!(reached_listeners, reached, "{level}: {ran}");
        }
    }
}

/// Abstract sockets belong to login services, which run commands for their clients.
#[tokio::test]
async fn commands_with_network_cannot_reach_local_services() {
    for (level, reached) in [
        (SandboxLevel::Landlock, &["tcp", "udp"][..]),
        (SandboxLevel::Bubblewrap, &["tcp", "udp", "file"][..]),
    ] {
        if is_available(level) {
            let (reached_listeners, ran) = reached_listeners(level, true).await;
            assert_eq!(reached_listeners, reached, "{level}: {ran}");
        }
    }
    assert_eq!(LEVELS.len(), 2);
}
