use super::super::client::tests::scripted;
use super::*;

struct Stage {
    folder: tempfile::TempDir,
    supervisor: Supervisor,
    pool: Pool,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environment = scripted(folder.path(), Path::new("/"));
        let supervisor = Supervisor::new();
        let pool = Pool::open(&folder.path().join("ssh"), &environment, &supervisor).unwrap();
        Self { folder, supervisor, pool }
    }

    /// The open connections, as seen in the file system.
    fn sockets(&self) -> usize {
        let entries = std::fs::read_dir(self.folder.path().join("ssh")).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().file_name() != "config").count()
    }

    async fn until_there_are(&self, sockets: usize) {
        let reached = async {
            while self.sockets() != sockets {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), reached)
            .await
            .expect("the connections should be closed");
    }
}

fn host(name: impl ToString) -> Target {
    Target { host: name.to_string(), user: None, port: None }
}

fn session() -> SessionId {
    SessionId::new()
}

#[tokio::test]
async fn idle_connections_are_closed_and_used_ones_are_not() {
    let stage = Stage::new();
    let session = session();
    let used = stage.pool.lease(session, &host("used")).await.unwrap();
    drop(stage.pool.lease(session, &host("idle")).await.unwrap());
    assert_eq!(stage.sockets(), 2);
    stage.pool.sweep(IDLE_TIMEOUT);
    assert_eq!(stage.pool.list(session).len(), 2, "not idle long enough yet");
    stage.pool.sweep(Duration::ZERO);
    stage.until_there_are(1).await;
    let left = stage.pool.list(session);
    assert_eq!((left.len(), left[0].host.as_str(), left[0].in_use), (1, "used", 1));
    drop(used);
    assert!(stage.supervisor.shutdown(Duration::from_secs(30)).await.aborted.is_empty());
    assert_eq!(stage.sockets(), 0, "no connection outlives the node");
}

#[tokio::test]
async fn number_of_connections_is_limited() {
    let stage = Stage::new();
    let session = session();
    let mut leases = Vec::new();
    for number in 0..MAX_CONNECTIONS {
        leases.push(stage.pool.lease(session, &host(number)).await.unwrap());
    }
    let refused = stage.pool.lease(session, &host("another")).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Overloaded);
    // An existing connection can still be used, and an idle one makes room.
    drop(stage.pool.lease(session, &host(3)).await.unwrap());
    drop(leases.remove(7));
    drop(stage.pool.lease(session, &host("another")).await.unwrap());
    assert_eq!(stage.pool.list(session).len(), MAX_CONNECTIONS);
    assert!(stage.pool.list(session).iter().all(|connection| connection.host != "7"));
    stage.until_there_are(MAX_CONNECTIONS).await;
    drop(leases);
    assert!(stage.supervisor.shutdown(Duration::from_secs(30)).await.aborted.is_empty());
}

#[tokio::test]
async fn abandoned_connection_frees_its_slot() {
    let stage = Stage::new();
    let session = session();
    {
        // Abandoned at once, before the connection is open.
        let target = host("slow");
        let lease = stage.pool.lease(session, &target);
        assert!(tokio::time::timeout(Duration::ZERO, lease).await.is_err());
    }
    assert_eq!(stage.pool.slots().len(), 1);
    stage.pool.sweep(Duration::ZERO);
    assert_eq!(stage.pool.slots().len(), 0);
    assert!(stage.supervisor.shutdown(Duration::from_secs(30)).await.aborted.is_empty());
}
