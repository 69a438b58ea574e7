//! Network access, with and without a network.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use plexus_machine::launch::Held;

use super::{Scene, at};
use crate::sandbox::{LEVELS, is_here};

/// A server that listens on every kind of socket.
struct Ears {
    tcp: TcpListener,
    tcp6: Option<TcpListener>,
    udp: UdpSocket,
    unnamed: UnixListener,
    name: String,
    file: UnixListener,
}

impl Ears {
    fn new(scene: &Scene) -> Self {
        let name = format!("plexus-hostile-{}", uuid::Uuid::now_v7());
        let unnamed = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let ears = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            tcp6: TcpListener::bind("[::1]:0").ok(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            unnamed,
            name,
            file: UnixListener::bind(scene.home("work/socket")).unwrap(),
        };
        ears.tcp.set_nonblocking(true).unwrap();
        ears.unnamed.set_nonblocking(true).unwrap();
        ears.file.set_nonblocking(true).unwrap();
        ears.udp.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        if let Some(tcp6) = &ears.tcp6 {
            tcp6.set_nonblocking(true).unwrap();
        }
        ears
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
    fn heard(&self) -> Vec<&'static str> {
        let heard = [
            ("tcp", self.tcp.accept().is_ok()),
            ("tcp6", self.tcp6.as_ref().is_some_and(|tcp6| tcp6.accept().is_ok())),
            ("udp", self.udp.recv(&mut [0; 8]).is_ok()),
            ("unnamed", self.unnamed.accept().is_ok()),
            ("file", self.file.accept().is_ok()),
        ];
        heard
            .into_iter()
            .filter_map(|(name, was)| was.then_some(name))
            .filter(|name| *name != "tcp6")
            .collect()
    }
}

async fn heard(level: Held, network: bool) -> (Vec<&'static str>, serde_json::Value) {
    let scene = Scene::new(&format!("{}network = {network}\n", at(level, ""))).await;
    let ears = Ears::new(&scene);
    let ran = scene.run(&ears.command()).await;
    (ears.heard(), ran)
}

#[tokio::test]
async fn commands_without_network_reach_nothing() {
    let (free, ran) = heard(Held::None, true).await;
    assert_eq!(free, ["tcp", "udp", "unnamed", "file"], "{ran}");
    for (level, reached) in [(Held::Landlock, &[][..]), (Held::Bubblewrap, &["file"][..])] {
        if is_here(level) {
            let (heard, ran) = heard(level, false).await;
            assert_eq!(heard, reached, "{level}: {ran}");
        }
    }
}

/// Abstract sockets belong to login services, which run commands for their clients.
#[tokio::test]
async fn commands_with_network_cannot_reach_local_services() {
    for (level, reached) in
        [(Held::Landlock, &["tcp", "udp"][..]), (Held::Bubblewrap, &["tcp", "udp", "file"][..])]
    {
        if is_here(level) {
            let (heard, ran) = heard(level, true).await;
            assert_eq!(heard, reached, "{level}: {ran}");
        }
    }
    assert_eq!(LEVELS.len(), 2);
}
