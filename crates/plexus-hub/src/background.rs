//! Background work of the hub. Each job is a reconciler: it takes no input, compares the current state with the
//! desired one, and can be run again at any time.

use std::sync::Arc;
use std::time::Duration;

use plexus_kit::clock::from_millis;
use plexus_kit::{Stage, Supervisor};
use plexus_proto::Timestamp;
use plexus_store::IdempotencyRecord;

use crate::services::Services;

/// Maximum delay until revocations made by other hubs are noticed.
const REVOCATIONS: Duration = Duration::from_millis(500);
const SWEEP: Duration = Duration::from_secs(3600);
/// MCP sessions are retained for 30 days.
const KEEP_MCP_SESSIONS: Duration = Duration::from_secs(30 * 24 * 3600);
/// Tokens stay listed for 30 days after they expire.
const KEEP_TOKENS: Duration = Duration::from_secs(30 * 24 * 3600);
/// Maximum time that commands on this machine lack a valid admin token, once the database answers.
const ADMIN_TOKEN: Duration = Duration::from_secs(1);
/// How often token usage times are written; the last time at shutdown.
const USAGE: Duration = Duration::from_secs(10);
/// Maximum delay until a changed profile is noticed.
const PROFILES: Duration = Duration::from_secs(1);
/// Interval between two checks of the manifests of user-defined tools; a change takes effect at the second check.
const TOOLS: Duration = Duration::from_secs(1);
/// Maximum delay until a call ends that waited for its node in vain and whose caller is gone.
const NODE_CALLS: Duration = Duration::from_secs(5);

pub(crate) fn start(services: &Arc<Services>, supervisor: &Supervisor) {
    let (anchor, store) = (services.anchor.clone(), services.store.clone());
    // This task runs in the stage of the writer and ends after it, so that the last head is signed too.
    let heads = store.audit_heads();
    supervisor.spawn(Stage::Storage, "audit anchor", async move { anchor.follow(heads).await });

    let revocations = services.clone();
    supervisor.spawn_restarting(Stage::Work, "revocations", move || {
        let services = revocations.clone();
        async move {
            loop {
                tokio::time::sleep(REVOCATIONS).await;
                if let Err(error) = services.authenticator.refresh_revocations().await {
                    tracing::warn!(%error, "cannot read revocations");
                    return;
                }
            }
        }
    });

    let admin_token = services.clone();
    supervisor.spawn_restarting(Stage::Work, "admin token", move || {
        let services = admin_token.clone();
        async move {
            loop {
                tokio::time::sleep(ADMIN_TOKEN).await;
                if let Err(error) = services.authenticator.ensure_admin_token().await {
                    tracing::warn!(%error, "cannot renew the admin token for commands on this machine");
                    return;
                }
            }
        }
    });

    let usage = services.clone();
    supervisor.spawn_restarting(Stage::Work, "token usage", move || {
        let services = usage.clone();
        async move {
            loop {
                tokio::time::sleep(USAGE).await;
                if let Err(error) = services.authenticator.flush_usage().await {
                    tracing::warn!(%error, "cannot store when tokens were used");
                    return;
                }
            }
        }
    });
    let (authenticator, stop) = (services.authenticator.clone(), supervisor.stopping(Stage::Work));
    supervisor.spawn(Stage::Work, "last token usage", async move {
        stop.cancelled().await;
        if let Err(error) = authenticator.flush_usage().await {
            tracing::warn!(%error, "cannot store when tokens were used");
        }
    });

    let profiles = services.clone();
    supervisor.spawn_restarting(Stage::Work, "profiles", move || {
        let services = profiles.clone();
        async move {
            loop {
                tokio::time::sleep(PROFILES).await;
                services.reload_profiles();
            }
        }
    });

    let dispatcher = services.dispatcher.clone();
    supervisor.spawn_restarting(Stage::Work, "calls that wait for nodes", move || {
        let dispatcher = dispatcher.clone();
        async move {
            loop {
                // Run immediately: calls whose waiting time passed while no hub ran must not be sent now.
                if let Err(error) = dispatcher.expire_node_calls().await {
                    tracing::warn!(%error, "cannot expire calls that are queued for a node");
                    return;
                }
                tokio::time::sleep(NODE_CALLS).await;
            }
        }
    });

    let connected = services.clone();
    supervisor.spawn_restarting(Stage::Work, "external agents", move || {
        let services = connected.clone();
        async move { services.connected.keep_current().await }
    });

    let custom = services.custom.clone();
    supervisor.spawn_restarting(Stage::Work, "user-defined tools", move || {
        let custom = custom.clone();
        async move {
            loop {
                tokio::time::sleep(TOOLS).await;
                let looking = custom.clone();
                // An error means that the task panicked or that the runtime is shutting down.
                if tokio::task::spawn_blocking(move || looking.check_for_changes()).await.is_err() {
                    return;
                }
            }
        }
    });

    let sweep = services.clone();
    supervisor.spawn_restarting(Stage::Work, "sweep", move || {
        let services = sweep.clone();
        async move {
            loop {
                let swept = async {
                    sweep_once(&services).await?;
                    retain(&services).await
                };
                if let Err(error) = swept.await {
                    tracing::warn!(%error, "cannot delete old rows");
                    return;
                }
                tokio::time::sleep(SWEEP).await;
            }
        }
    });
}

async fn sweep_once(services: &Services) -> Result<(), plexus_store::StoreError> {
    let now = services.clock.now();
    let (keys, sessions) = (before(now, IdempotencyRecord::RETENTION), before(now, KEEP_MCP_SESSIONS));
    let tokens = before(now, KEEP_TOKENS);
    services
        .store
        .write(move |conn| {
            Box::pin(async move {
                conn.purge_idempotency_keys(keys).await?;
                conn.purge_mcp_sessions(sessions).await?;
                conn.purge_mcp_tasks(now).await?;
                conn.purge_node_invites(now).await?;
                conn.purge_tokens(tokens).await
            })
        })
        .await?;
    Ok(())
}

/// Deletes everything older than the configured retention.
async fn retain(services: &Services) -> Result<(), plexus_store::StoreError> {
    let retention = services.config.load().retention;
    let now = services.clock.now();
    let days = |count: u32| before(now, Duration::from_secs(u64::from(count) * 24 * 3600));
    let (mut events, mut entries) = (0, 0);
    if let Some(keep) = retention.events_days {
        while let removed @ 1.. = services.store.prune_events(days(keep)).await? {
            events += removed;
        }
    }
    if let Some(keep) = retention.audit_days {
        // Without a signed head, deleted entries could not be told apart from entries that were tampered with.
        if let Ok(Some(signed)) = services.anchor.read() {
            let (store, anchor) = (&services.store, &services.anchor);
            while let removed @ 1.. = store.prune_audit(days(keep), signed.n, now, anchor.clone()).await? {
                entries += removed;
            }
        }
    }
    if events > 0 || entries > 0 {
        tracing::info!(
            events,
            audit_entries = entries,
            "deleted events and audit entries beyond their retention"
        );
    }
    Ok(())
}

fn before(now: Timestamp, by: Duration) -> Timestamp {
    from_millis(now.as_millisecond() - i64::try_from(by.as_millis()).unwrap_or(i64::MAX))
}
