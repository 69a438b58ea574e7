//! PostgreSQL: one database per test on the server started by `scripts/postgres run`, and server-specific
//! tests: broken connections.

use plexus_kit::{Durability, Secret, Supervisor};
use plexus_proto::CallId;
use plexus_proto::api::AuditPhase;
use plexus_store::{DatabaseNote, Records, Store, StoreError, StoreOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::backend::{Backend, Database, LIMIT, audit, bounded, event, events, session};

/// URL of a server on which databases can be created.
const SERVER: &str = "PLEXUS_TEST_POSTGRES";

pub(crate) struct Postgres {
    /// Folder of the hub's files; the database is elsewhere.
    dir: tempfile::TempDir,
    url: String,
}

impl Postgres {
    async fn raw(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    /// The tables, and the applied migrations if there are any.
    async fn schema(&self) -> (Vec<String>, Vec<i64>) {
        let mut raw = self.raw().await;
        let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename";
        let tables: Vec<String> =
            sqlx::query(tables).fetch_all(&mut raw).await.unwrap().iter().map(|row| row.get(0)).collect();
        if tables.is_empty() {
            return (tables, vec![]);
        }
        let versions = "SELECT version FROM _sqlx_migrations ORDER BY version";
        let versions = sqlx::query(versions).fetch_all(&mut raw).await.unwrap();
        (tables, versions.iter().map(|row| row.get(0)).collect())
    }

    /// Ends every connection of the hub, as a restart of the server does.
    async fn cut(&self) {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        sqlx::query(sql).execute(&mut self.raw().await).await.unwrap();
    }
}

impl Backend for Postgres {
    async fn create() -> Option<Self> {
        let Some(server) = std::env::var_os(SERVER) else {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{SERVER} is not set");
            eprintln!("left out: {SERVER} is not set; run the tests with `scripts/postgres run`");
            return None;
        };
        let server = server.into_string().unwrap();
        let name = format!("store_{}", CallId::new()).replace('-', "_");
        let mut connection = PgConnection::connect(&server).await.unwrap();
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await.unwrap();
        let (base, _) = server.rsplit_once('/').unwrap();
        Some(Self { dir: tempfile::tempdir().unwrap(), url: format!("{base}/{name}") })
    }

    fn options(&self, instance_id: &str) -> StoreOptions {
        StoreOptions {
            data_dir: self.dir.path().to_owned(),
            database_url: Some(Secret::from(self.url.clone())),
            durability: Durability::Process,
            instance_id: instance_id.to_owned(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connection_is_replaced_transparently() {
    bounded(async {
        let Some(database) = Database::<Postgres>::fresh().await else { return };
        assert_eq!(database.store.database(), "postgresql");
        let id = database.session("agent:a", "k").await;
        for number in 0..5 {
            let entry = audit(AuditPhase::Notice, CallId::new(), "agent:a", "x");
            let records = events(id, [event("agent:a", number)]);
            database.store.append(Records { audit: vec![entry], ..records }).await.unwrap();
            database.backend.cut().await;
        }
        assert_eq!(database.events(id).await.len(), 5);
        let head = database.head().await;
        let report = database.store.verify_audit(Ok(head), &plexus_store::NoWitness).await.unwrap();
        assert_eq!((report.ok, report.entries), (true, 5), "{report:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_loss_fails_only_the_current_transaction() {
    bounded(async {
        let Some(database) = Database::<Postgres>::fresh().await else { return };
        let id = database.session("agent:a", "k").await;
        let raw = database.backend.raw().await;
        let mut raw = Some(raw);
        let outcome = database
            .store
            .transact(
                move |conn| {
                    Box::pin(async move {
                        conn.add_todo(id, "lost", plexus_store::TodoStatus::Pending, crate::backend::at(0))
                            .await?;
                        let mut raw = raw.take().unwrap();
                        let sql = "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d \
                                   ON d.oid = l.database AND d.datname = current_database() \
                                   WHERE l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid()";
                        sqlx::query(sql).execute(&mut raw).await.unwrap();
                        Ok::<_, StoreError>(())
                    })
                },
                |_| Records::default(),
            )
            .await;
        assert!(outcome.as_ref().is_err_and(StoreError::is_retryable), "{outcome:?}");
        assert_eq!(database.store.read().await.unwrap().todo_count(id).await.unwrap(), 0);
        database.store.append(events(id, [event("agent:a", 1)])).await.unwrap();
        assert_eq!(database.events(id).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hidden_statement_failure_fails_only_its_unit() {
    bounded(async {
        let Some(database) = Database::<Postgres>::fresh().await else { return };
        let id = database.session("agent:a", "k").await;
        let hidden = database.store.write(move |conn| {
            Box::pin(async move {
                // Fails in the database, since the session does not exist; the unit reports success anyway.
                let nobody = plexus_proto::SessionId::new();
                let _ = conn.write_section(nobody, "notes", "text", crate::backend::at(0)).await;
                Ok(())
            })
        });
        assert!(hidden.await.is_err(), "rolled-back writes must not be acknowledged");
        database.store.append(events(id, [event("agent:a", 1)])).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hub_name_is_exclusive_per_database() {
    bounded(async {
        let Some(database) = Database::<Postgres>::fresh().await else { return };
        // From another machine, where the lock in the data folder has no effect.
        let other_folder = tempfile::tempdir().unwrap();
        let options =
            StoreOptions { data_dir: other_folder.path().to_owned(), ..database.backend.options("main") };
        let error = Store::open(&options, &Supervisor::new()).await.unwrap_err();
        let holder = std::process::id().to_string();
        assert!(matches!(&error, StoreError::InUse { holder: Some(pid), .. } if *pid == holder), "{error:?}");
        assert!(!error.to_string().contains("plexus@"), "{error}");
        session(&database.store, "agent:a", "k").await;
        database.supervisor.shutdown(LIMIT).await;
        Store::open(&options, &Supervisor::new()).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_of_another_folder_is_refused_unchanged() {
    bounded(async {
        let Some(own) = Database::<Postgres>::fresh().await else { return };
        let folder = own.backend.dir.path().to_owned();
        let note = DatabaseNote { location: own.store.location().clone(), store_id: own.store.id() };
        note.write_if_changed(&folder).unwrap();
        DatabaseNote::check(&own.backend.options("main")).await.unwrap();

        let empty = Postgres::create().await.unwrap();
        let older = Database::<Postgres>::fresh().await.unwrap();
        let forget =
            "DELETE FROM _sqlx_migrations WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)";
        sqlx::query(forget).execute(&mut older.backend.raw().await).await.unwrap();
        for other in [&empty, &older.backend] {
            let before = other.schema().await;
            let options = StoreOptions { data_dir: folder.clone(), ..other.options("main") };
            let refused = DatabaseNote::check(&options).await;
            assert!(matches!(refused, Err(StoreError::OtherDatabase { .. })), "{refused:?}");
            assert_eq!(other.schema().await, before);
        }
    })
    .await;
}

#[tokio::test]
async fn unreachable_server_error_omits_the_password() {
    bounded(async {
        let dir = tempfile::tempdir().unwrap();
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options = StoreOptions {
            data_dir: dir.path().to_owned(),
            database_url: Some(Secret::from(format!("postgres://annabel:hunter2@{nobody}/plexus"))),
            durability: Durability::Process,
            instance_id: "main".to_owned(),
        };
        let error = Store::open(&options, &Supervisor::new()).await.unwrap_err();
        let message = format!("{error} {error:?} {:?}", std::error::Error::source(&error));
        assert!(message.contains(&format!("postgres://{nobody}/plexus")), "{message}");
        assert!(message.contains("refused"), "{message}");
        assert!(!message.contains("hunter2") && !message.contains("annabel"), "{message}");
    })
    .await;
}

#[tokio::test]
async fn migrations_run_once() {
    bounded(async {
        let Some(database) = Database::<Postgres>::fresh().await else { return };
        let database = database.reopened().await;
        assert_eq!(database.backend.schema().await.1, [1, 2, 3, 4, 5, 6, 7]);
    })
    .await;
}

#[tokio::test]
async fn unknown_parameter_error_omits_its_value() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        data_dir: dir.path().to_owned(),
        database_url: Some(Secret::from("postgres://h/db?sslpassword=hunter2".to_owned())),
        durability: Durability::Process,
        instance_id: "main".to_owned(),
    };
    let error = Store::open(&options, &Supervisor::new()).await.unwrap_err();
    let message = format!("{error} {error:?}");
    assert!(
        message.contains("sslpassword") && message.contains("sslmode") && !message.contains("hunter2"),
        "{message}"
    );
}

/// A network that drops all packets: the server does not notice that the hub's connection is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_of_a_lost_connection_is_reclaimed() {
    bounded(async {
        let Some(database) = Database::<Postgres>::fresh().await else { return };
        let id = database.session("agent:a", "k").await;
        // Simulates the connection that the server still considers alive: same name, same lock.
        let mut raw = database.backend.raw().await;
        let sql = "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid \
                   JOIN pg_database d ON d.oid = l.database AND d.datname = current_database() \
                   WHERE l.locktype = 'advisory' AND l.granted";
        let name: String = sqlx::query(sql).fetch_one(&mut raw).await.unwrap().get(0);
        let sql = "SELECT classid::BIGINT << 32 | objid::BIGINT FROM pg_locks l \
                   JOIN pg_database d ON d.oid = l.database AND d.datname = current_database() \
                   WHERE l.locktype = 'advisory' AND l.granted";
        let key: i64 = sqlx::query(sql).fetch_one(&mut raw).await.unwrap().get(0);
        let mut ghost = database.backend.raw().await;
        let set = sqlx::query("SELECT set_config('application_name', $1, false)").bind(&name);
        set.execute(&mut ghost).await.unwrap();
        // Waits for the lock, and gets it when the hub's old connection is terminated.
        let mut haunting = tokio::task::JoinSet::new();
        haunting.spawn(async move {
            let _ = sqlx::query("SELECT pg_advisory_lock($1)").bind(key).execute(&mut ghost).await;
            std::future::pending::<()>().await;
            drop(ghost);
        });
        let waiting = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        while sqlx::query(waiting).fetch_one(&mut raw).await.unwrap().get::<i64, _>(0) == 0 {
            tokio::task::yield_now().await;
        }
        let cut = "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                   AND d.datname = current_database() WHERE l.locktype = 'advisory' AND l.granted";
        sqlx::query(cut).execute(&mut raw).await.unwrap();
        database.store.append(events(id, [event("agent:a", 1)])).await.unwrap();
    })
    .await;
}
