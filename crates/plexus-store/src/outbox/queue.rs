//! The queue: rows are added, claimed in order, and settled, postponed or turned into dead letters.

use std::time::Duration;

use plexus_kit::clock::from_millis;
use plexus_proto::Timestamp;

use super::row::{Row, damaged};
use super::{Counts, LONGEST_LEASE, LONGEST_PAUSE, Outbox, OutboxError, Synced, millis};
use crate::conn::{Sql, Value};
use crate::{Conn, StoreError};

/// A write that the hub did not accept yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWrite {
    /// The idempotency key, created before the first attempt.
    pub key: String,
    /// The conversation; writes of one conversation are delivered in order.
    pub session: String,
    /// JSON: the `clientInfo` of the agent.
    pub client: String,
    pub tool: String,
    /// JSON: name and arguments of the call.
    pub params: String,
}

/// Result of [`Outbox::enqueue`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnqueuedWrite {
    pub id: i64,
    /// Set when the write was first accepted, and never changed.
    pub occurred_at: Timestamp,
    /// Whether it already existed.
    pub earlier: bool,
    /// Whether it already existed and is a dead letter.
    pub dead: bool,
}

/// A row to send, with the right to report its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedWrite {
    pub id: i64,
    pub key: String,
    pub session: String,
    pub client: String,
    pub tool: String,
    pub params: String,
    pub occurred_at: Timestamp,
    pub queued_at: Timestamp,
    /// Including this one.
    pub attempts: u32,
    epoch: i64,
}

/// `$1` is the current time, `$2` the longest lease; in [`DUE`], `$3` is the longest pause.
pub(super) const LEASED: &str = "(owner IS NOT NULL AND lease_until > $1 AND lease_until <= $1 + $2)";
const DUE: &str = "(not_before <= $1 OR not_before > $1 + $3)";
/// The oldest waiting row of each session, found with one index step per session.
const HEADS: &str = "WITH RECURSIVE heads (session, head) AS (\
    SELECT * FROM (SELECT session, id FROM writes WHERE died_at IS NULL ORDER BY session, id LIMIT 1) \
    UNION ALL \
    SELECT next.session, next.id FROM heads JOIN writes AS next ON next.id = (\
      SELECT behind.id FROM writes AS behind WHERE behind.died_at IS NULL AND behind.session > heads.session \
      ORDER BY behind.session, behind.id LIMIT 1))";

/// The values of [`LEASED`].
pub(super) fn lease_values(now: i64) -> Vec<Value> {
    vec![now.into(), millis(LONGEST_LEASE).into()]
}

/// The values of [`LEASED`] and [`DUE`].
fn times(now: i64) -> Vec<Value> {
    vec![now.into(), millis(LONGEST_LEASE).into(), millis(LONGEST_PAUSE).into()]
}

impl Outbox {
    /// Stores a write; it is on disk when this returns. Fails if the outbox is full.
    pub async fn enqueue(&self, write: NewWrite) -> Result<EnqueuedWrite, OutboxError> {
        let NewWrite { key, session, client, tool, params } = write;
        if key.is_empty() || session.is_empty() {
            return Err(OutboxError::Invalid("key and session must not be empty"));
        }
        if [&key, &session, &client, &tool, &params].iter().any(|text| text.contains('\0')) {
            return Err(OutboxError::Invalid("it contains the character U+0000"));
        }
        let now = self.now();
        let mut row = Row {
            id: 0,
            key,
            session,
            tool,
            client,
            bytes: 0,
            occurred_at: now,
            queued_at: now,
            not_before: 0,
            attempts: 0,
            owner: None,
            lease_until: 0,
            epoch: 0,
            note: None,
            died_at: None,
            notified: 0,
            params,
        };
        row.bytes = row.weight();
        let limits = self.limits();
        if row.bytes.unsigned_abs() > limits.bytes {
            return Err(OutboxError::TooLarge { bytes: row.bytes.unsigned_abs(), limit: limits.bytes });
        }
        let bounds = [limits.rows, limits.bytes].map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let age = millis(limits.age);
        let wanted = row.clone();
        let stored = self
            .run(move |conn| {
                let row = row.clone();
                Box::pin(async move {
                    let key = row.key.clone();
                    if let Some(id) = insert(conn, row, bounds).await? {
                        return Ok(Stored::New(id));
                    }
                    if let Some(earlier) = by_key(conn, key).await? {
                        return Ok(Stored::Earlier(Box::new(earlier)));
                    }
                    // Expired rows do not free space, but become dead letters.
                    expire(conn, now, age).await?;
                    counts(conn).await.map(Stored::Full)
                })
            })
            .await?;
        match stored {
            Stored::New(id) => {
                self.wake();
                Ok(EnqueuedWrite { id, occurred_at: from_millis(now), earlier: false, dead: false })
            }
            Stored::Earlier(row) if !row.is_same_write(&wanted) => {
                Err(OutboxError::KeyTaken { key: wanted.key })
            }
            Stored::Earlier(row) => Ok(EnqueuedWrite {
                id: row.id,
                occurred_at: from_millis(row.occurred_at),
                earlier: true,
                dead: row.died_at.is_some(),
            }),
            Stored::Full(counts) => Err(OutboxError::Full { counts, limits }),
        }
    }

    /// Claims the oldest due row of a session without another row in flight, for the duration of `lease`.
    /// `owner` identifies the process, for display. First turns expired rows into dead letters.
    pub async fn claim(&self, owner: &str, lease: Duration) -> Result<Option<ClaimedWrite>, OutboxError> {
        let (now, age) = (self.now(), millis(self.limits().age));
        let owner = owner.replace('\0', "");
        let until = now.saturating_add(millis(lease.min(LONGEST_LEASE)));
        self.run_synced(Synced::Later, move |conn| {
            let owner = owner.clone();
            Box::pin(async move {
                expire(conn, now, age).await?;
                let sql = format!(
                    "{HEADS} UPDATE writes SET owner = $4, lease_until = $5, epoch = epoch + 1, attempts = attempts + 1 \
                     WHERE id = (SELECT id FROM heads JOIN writes ON id = head WHERE {DUE} AND NOT {LEASED} \
                     ORDER BY id LIMIT 1) RETURNING {}",
                    Row::COLUMNS
                );
                let mut values = times(now);
                values.extend([owner.into(), until.into()]);
                let row = conn.row("claiming a write", Sql::Built(sql), values).await?;
                Ok(row.map(|row| Row::checked(&row)).transpose()?.map(ClaimedWrite::of))
            })
        })
        .await
    }

    /// Extends a claim to `lease` from now. Returns false if another process has taken over, or the row does
    /// not exist.
    pub async fn renew_lease(&self, claimed: &ClaimedWrite, lease: Duration) -> Result<bool, OutboxError> {
        let until = self.now().saturating_add(millis(lease.min(LONGEST_LEASE)));
        self.change(claimed, Synced::Later, "UPDATE writes SET lease_until = $4", vec![until.into()]).await
    }

    /// Deletes a row that the hub has accepted. Returns false if another process has taken over and decides
    /// about it.
    pub async fn settle(&self, claimed: &ClaimedWrite) -> Result<bool, OutboxError> {
        self.change(claimed, Synced::Later, "DELETE FROM writes", vec![]).await
    }

    /// Releases a claim until `not_before`, which is limited to [`LONGEST_PAUSE`] from now. Returns false if
    /// another process has taken over.
    pub async fn postpone(
        &self,
        claimed: &ClaimedWrite,
        not_before: Timestamp,
        why: &str,
    ) -> Result<bool, OutboxError> {
        let latest = self.now().saturating_add(millis(LONGEST_PAUSE));
        let not_before = not_before.as_millisecond().min(latest);
        let sql = "UPDATE writes SET owner = NULL, lease_until = 0, not_before = $4, note = $5";
        self.change(claimed, Synced::Later, sql, vec![not_before.into(), why.into()]).await
    }

    /// Turns the row into a dead letter with this reason. Returns false if another process has taken over.
    pub async fn dead_letter(&self, claimed: &ClaimedWrite, reason: &str) -> Result<bool, OutboxError> {
        let now = self.now();
        let sql = "UPDATE writes SET owner = NULL, lease_until = 0, not_before = 0, died_at = $4, note = $5, told = 0";
        self.change(claimed, Synced::AtOnce, sql, vec![now.into(), reason.into()]).await
    }

    /// Runs a statement on a row if the claim is still the newest; `$1` to `$3` identify it.
    async fn change(
        &self,
        claimed: &ClaimedWrite,
        synced: Synced,
        sql: &'static str,
        more: Vec<Value>,
    ) -> Result<bool, OutboxError> {
        let mut values: Vec<Value> =
            vec![claimed.id.into(), claimed.epoch.into(), claimed.key.as_str().into()];
        values.extend(more);
        let sql = format!(
            "{sql} WHERE id = $1 AND epoch = $2 AND key = $3 AND owner IS NOT NULL AND died_at IS NULL"
        );
        let changed = self
            .run_synced(synced, move |conn| {
                let (sql, values) = (Sql::Built(sql.clone()), values.clone());
                Box::pin(async move { conn.execute("changing a claimed write", sql, values).await })
            })
            .await?;
        Ok(changed == 1)
    }

    /// Makes all postponed rows due now; called when the hub is reachable again.
    pub async fn make_all_due(&self) -> Result<(), OutboxError> {
        self.run(|conn| {
            let sql = "UPDATE writes SET not_before = 0 WHERE died_at IS NULL AND not_before > 0";
            Box::pin(async move { conn.execute("making postponed writes due", sql, vec![]).await })
        })
        .await?;
        self.wake();
        Ok(())
    }

    /// Whether writes of this session are waiting, in which case later ones must wait too.
    pub async fn has_pending(&self, session: &str) -> Result<bool, OutboxError> {
        let session = session.to_owned();
        self.run(move |conn| {
            let session = session.clone();
            Box::pin(async move {
                let sql = "SELECT 1 FROM writes WHERE died_at IS NULL AND session = $1 LIMIT 1";
                Ok(conn.row("looking for waiting writes", sql, vec![session.into()]).await?.is_some())
            })
        })
        .await
    }

    pub async fn counts(&self) -> Result<Counts, OutboxError> {
        self.run(|conn| Box::pin(counts(conn))).await
    }

    /// When the next row can be claimed; a time in the past means now, and `None` that nothing waits.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, OutboxError> {
        let now = self.now();
        self.run(move |conn| {
            Box::pin(async move {
                let sql = format!(
                    "{HEADS} SELECT min(CASE WHEN {LEASED} THEN lease_until WHEN {DUE} THEN $1 ELSE not_before END) \
                     FROM heads JOIN writes ON id = head"
                );
                let row = conn.row("looking up the next due write", Sql::Built(sql), times(now)).await?;
                let due = row.map(|row| row.opt_int(0)).transpose()?.flatten();
                Ok(due.map(from_millis))
            })
        })
        .await
    }
}

/// Result of storing a write.
enum Stored {
    New(i64),
    Earlier(Box<Row>),
    Full(Counts),
}

impl ClaimedWrite {
    fn of(row: Row) -> Self {
        Self {
            id: row.id,
            key: row.key,
            session: row.session,
            client: row.client,
            tool: row.tool,
            params: row.params,
            occurred_at: from_millis(row.occurred_at),
            queued_at: from_millis(row.queued_at),
            attempts: u32::try_from(row.attempts).unwrap_or(u32::MAX),
            epoch: row.epoch,
        }
    }
}

/// The id of the new row; `None` if the key exists already or there is no space.
async fn insert(conn: &mut Conn, row: Row, [rows, bytes]: [i64; 2]) -> Result<Option<i64>, StoreError> {
    let sum = row.sum();
    let values = vec![
        row.key.into(),
        row.session.into(),
        row.tool.into(),
        row.client.into(),
        row.bytes.into(),
        sum.into(),
        row.occurred_at.into(),
        row.params.into(),
        rows.into(),
        bytes.into(),
    ];
    let sql = "INSERT INTO writes (id, key, session, tool, client, bytes, sum, occurred_at, queued_at, params) \
               SELECT last_id + 1, $1, $2, $3, $4, $5, $6, $7, $7, $8 FROM tally \
               WHERE pending + dead < $9 AND bytes + $5 <= $10 \
               ON CONFLICT (key) DO NOTHING RETURNING id";
    conn.row("queueing a write", sql, values).await?.map(|row| row.int(0)).transpose()
}

async fn by_key(conn: &mut Conn, key: String) -> Result<Option<Row>, StoreError> {
    let row = conn.row("looking up a key", Row::select("WHERE key = $1"), vec![key.into()]).await?;
    row.map(|row| Row::checked(&row)).transpose()
}

/// Turns unclaimed rows that waited too long into dead letters.
async fn expire(conn: &mut Conn, now: i64, age: i64) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE writes SET owner = NULL, lease_until = 0, not_before = 0, died_at = $1, told = 0, note = $4 \
         WHERE died_at IS NULL AND queued_at < $3 AND NOT {LEASED}"
    );
    let mut values = lease_values(now);
    values.extend([now.saturating_sub(age).into(), EXPIRED.into()]);
    conn.execute("turning expired writes into dead letters", Sql::Built(sql), values).await?;
    Ok(())
}

/// Reason of a dead letter that waited too long.
const EXPIRED: &str = "expired: it waited for so long that the hub may have forgotten its key and could execute it twice if it \
                       was already executed; retry it only if it was not";

async fn counts(conn: &mut Conn) -> Result<Counts, StoreError> {
    let sql =
        "SELECT pending, dead, bytes, (SELECT min(queued_at) FROM writes WHERE died_at IS NULL) FROM tally";
    let row = conn.row("counting an outbox", sql, vec![]).await?.ok_or_else(|| damaged("no tally"))?;
    Ok(Counts {
        pending: row.int(0)?.unsigned_abs(),
        dead: row.int(1)?.unsigned_abs(),
        bytes: row.int(2)?.unsigned_abs(),
        oldest: row.opt_int(3)?.map(from_millis),
    })
}
