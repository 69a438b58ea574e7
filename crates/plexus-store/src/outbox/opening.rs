//! Opens, creates and checks the file; moves a damaged one aside and recovers its readable rows.
//!
//! A mark file exists from the first to the last step of a recovery, and names the new location of the
//! damaged file. A process that finds the mark continues where another stopped: move the file, move its log,
//! fill a new file under a temporary name, and rename it to the original name. Therefore a file with the
//! original name beside one that was moved is complete.

use std::path::Path;

use plexus_kit::Clock;
use plexus_kit::private_file;

use super::error::{FailureKind, failure_kind, outbox_error};
use super::location::OutboxLocation;
use super::pages::{Found, Pages};
use super::row::Row;
use super::schema::{self, Version};
use super::{OutboxError, Recovery};
use crate::conn::Sql;
use crate::dialect::sqlite::{self, log_of};
use crate::{Conn, StoreError};

/// Suffix of the mark file during a recovery.
const MARK: &str = ".recovering";
const NEW: &str = ".new";
/// Rows stored per transaction in a new file.
const AT_ONCE: usize = 64;
/// Ids and counters of undamaged rows stay below this.
const LARGEST: i64 = 1 << 52;

/// State of the file.
enum State {
    Ready(Conn),
    /// Does not exist yet.
    Empty,
    Damaged,
}

/// Opens the file, and repairs or creates it if necessary.
pub(super) async fn open(
    place: &OutboxLocation,
    clock: &Clock,
) -> Result<(Conn, Option<Recovery>), OutboxError> {
    {
        let _shared = place.shared().await?;
        if let State::Ready(conn) = look(place).await? {
            return Ok((conn, None));
        }
    }
    let _alone = place.alone().await?;
    // Another process may have done it in the meantime.
    match look(place).await? {
        State::Ready(conn) => Ok((conn, None)),
        State::Empty => Ok((create(place).await?, None)),
        State::Damaged => {
            let recovery = recover(place, clock).await?;
            match look(place).await? {
                State::Ready(conn) => Ok((conn, Some(recovery))),
                _ => Err(OutboxError::Damaged { path: place.path.clone() }),
            }
        }
    }
}

async fn look(place: &OutboxLocation) -> Result<State, OutboxError> {
    let size = std::fs::metadata(&place.path).map_or(0, |file| file.len());
    let log = std::fs::metadata(log_of(&place.path)).map_or(0, |file| file.len());
    match (place.beside(MARK).exists(), size, log) {
        (true, ..) => return Ok(State::Damaged),
        (_, 0, 0) => return Ok(State::Empty),
        // A header exists from the creation of the file on.
        (_, 0, _) => return Ok(State::Damaged),
        _ => {}
    }
    // Enforces the mode, even if another program created the file.
    drop(place.files.open(&place.path).map_err(OutboxError::file("open the file"))?);
    let mut conn = match sqlite::small(&place.path).await {
        Ok(conn) => conn,
        Err(error) if failure_kind(&error) == FailureKind::Damaged => return Ok(State::Damaged),
        Err(error) => return Err(outbox_error(&place.path, error)),
    };
    let looked = async {
        let version = schema::version(&mut conn).await?;
        if version == Version::Ours {
            schema::check(&mut conn).await?;
        }
        Ok(version)
    };
    let found = looked.await;
    if let Ok(Version::Ours) = found {
        return Ok(State::Ready(conn));
    }
    let _ = conn.close().await;
    match found {
        Ok(Version::Newer(version)) => Err(OutboxError::Newer { path: place.path.clone(), version }),
        Ok(_) => Ok(State::Empty),
        Err(error) if failure_kind(&error) == FailureKind::Damaged => Ok(State::Damaged),
        Err(error) => Err(outbox_error(&place.path, error)),
    }
}

async fn create(place: &OutboxLocation) -> Result<Conn, OutboxError> {
    drop(place.files.open(&place.path).map_err(OutboxError::file("make the file"))?);
    let failed = |error| outbox_error(&place.path, error);
    let mut conn = sqlite::small(&place.path).await.map_err(failed)?;
    let made = schema::create(&mut conn).await.map_err(failed).and_then(|()| place.sync());
    if let Err(error) = made {
        let _ = conn.close().await;
        return Err(error);
    }
    Ok(conn)
}

/// Performs the remaining steps of a recovery. Requires the exclusive lock.
async fn recover(place: &OutboxLocation, clock: &Clock) -> Result<Recovery, OutboxError> {
    let (files, mark) = (&place.files, place.beside(MARK));
    let moving = || OutboxError::file("move a damaged file");
    let begun = private_file::read(&mark).map_err(OutboxError::file("read the mark"))?;
    let begun = begun.and_then(|name| String::from_utf8(name).ok()).filter(|name| is_suffix(name));
    let suffix = match begun {
        Some(suffix) => suffix,
        None => {
            let suffix = free_suffix(place, clock);
            files.write(&mark, suffix.as_bytes()).map_err(OutboxError::file("write the mark"))?;
            suffix
        }
    };
    let aside = place.beside(&suffix);
    if !aside.exists() {
        // Replaces a missing file by an empty one, so that the next step can be identified.
        drop(files.open(&place.path).map_err(OutboxError::file("open the file"))?);
        files.rename(&place.path, &aside).map_err(moving())?;
    }
    let found = if place.path.exists() {
        None
    } else {
        if log_of(&place.path).exists() {
            files.rename(&log_of(&place.path), &log_of(&aside)).map_err(moving())?;
        }
        files.remove(&place.beside("-shm")).map_err(moving())?;
        place.sync()?;
        let new = place.beside(NEW);
        for leftover in [new.clone(), log_of(&new), place.beside(".new-shm")] {
            files.remove(&leftover).map_err(moving())?;
        }
        drop(files.open(&new).map_err(OutboxError::file("make the file"))?);
        let found = fill(place, &aside, &new).await?;
        files.rename(&new, &place.path).map_err(moving())?;
        place.sync()?;
        Some(found)
    };
    files.remove(&mark).map_err(OutboxError::file("remove the mark"))?;
    place.sync()?;
    let recovery = Recovery { moved_to: aside, rows: found };
    tracing::error!(
        file = %place.path.display(),
        aside = %recovery.moved_to.display(),
        rows = recovery.rows,
        "the outbox was damaged: it was moved aside, and its readable rows were recovered"
    );
    Ok(recovery)
}

/// Ensures that a name read from a file cannot point elsewhere.
fn is_suffix(name: &str) -> bool {
    let rest = name.strip_prefix(".corrupt-");
    rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
}

fn free_suffix(place: &OutboxLocation, clock: &Clock) -> String {
    let time: String = clock
        .now()
        .to_string()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take("20260101T000000".len())
        .collect();
    let names =
        std::iter::once(format!(".corrupt-{time}")).chain((2..).map(|n| format!(".corrupt-{time}-{n}")));
    let mut free = names.filter(|name| !place.beside(name).exists());
    free.next().unwrap_or_default()
}

/// Stores the readable rows of the damaged file in a new one, and closes it.
async fn fill(place: &OutboxLocation, aside: &Path, new: &Path) -> Result<u64, OutboxError> {
    let reading = || OutboxError::file("read the damaged file");
    let pages = Pages::open(aside).map_err(reading())?;
    let found = pages.rows().map_err(reading())?;
    let failed = |error| outbox_error(&place.path, error);
    let mut conn = sqlite::small(new).await.map_err(failed)?;
    let filled = async {
        schema::create(&mut conn).await.map_err(failed)?;
        let (mut stored, mut last) = (0, 0);
        for some in found.chunks(AT_ONCE) {
            stored += store(&mut conn, &pages, some, &mut last).await.map_err(failed)?;
        }
        schema::fold(&mut conn).await.map_err(failed)?;
        Ok(stored)
    };
    let filled = filled.await;
    let closed = conn.close().await.map_err(failed);
    let filled = filled?;
    closed?;
    Ok(filled)
}

async fn store(conn: &mut Conn, pages: &Pages, found: &[Found], last: &mut i64) -> Result<u64, StoreError> {
    conn.execute("recovering an outbox", "BEGIN IMMEDIATE", vec![]).await?;
    let mut stored = 0;
    for found in found {
        let Ok(Some(mut row)) = pages.row(found) else { continue };
        // Ids are not covered by the checksum. SQLite never creates duplicate ids; both rows were accepted.
        row.id = if (1..=LARGEST).contains(&row.id) { row.id.max(*last + 1) } else { *last + 1 };
        row.epoch = row.epoch.clamp(0, LARGEST);
        row.attempts = row.attempts.clamp(0, LARGEST);
        *last = row.id;
        let values = (1..=schema::COLUMNS).map(|n| format!("${n}")).collect::<Vec<_>>().join(",");
        let sql = Sql::Built(format!("INSERT INTO writes ({}) VALUES ({values})", Row::COLUMNS));
        stored += conn.execute("recovering an outbox", sql, row.values()).await?;
    }
    conn.execute("recovering an outbox", "COMMIT", vec![]).await?;
    Ok(stored)
}
