//! Opens, creates and checks the file; renames a damaged one and recovers its readable rows.
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
use super::pages::{FoundRow, Pages};
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
const BATCH: usize = 64;
/// Ids and counters of undamaged rows stay below this.
const LARGEST_ID: i64 = 1 << 52;

/// State of the file.
enum FileState {
    Ready(Conn),
    /// Does not exist yet.
    Empty,
    Damaged,
}

/// Opens the file, and repairs or creates it if necessary.
pub(super) async fn open(
    location: &OutboxLocation,
    clock: &Clock,
) -> Result<(Conn, Option<Recovery>), OutboxError> {
    {
        let _shared = location.shared().await?;
        if let FileState::Ready(conn) = inspect(location).await? {
            return Ok((conn, None));
        }
    }
    let _exclusive = location.exclusive().await?;
    // Another process may have done it in the meantime.
    match inspect(location).await? {
        FileState::Ready(conn) => Ok((conn, None)),
        FileState::Empty => Ok((create(location).await?, None)),
        FileState::Damaged => {
            let recovery = recover(location, clock).await?;
            match inspect(location).await? {
                FileState::Ready(conn) => Ok((conn, Some(recovery))),
                _ => Err(OutboxError::Damaged { path: location.path.clone() }),
            }
        }
    }
}

async fn inspect(location: &OutboxLocation) -> Result<FileState, OutboxError> {
    let size = std::fs::metadata(&location.path).map_or(0, |file| file.len());
    let log = std::fs::metadata(log_of(&location.path)).map_or(0, |file| file.len());
    match (location.beside(MARK).exists(), size, log) {
        (true, ..) => return Ok(FileState::Damaged),
        (_, 0, 0) => return Ok(FileState::Empty),
        // A header exists from the creation of the file on.
        (_, 0, _) => return Ok(FileState::Damaged),
        _ => {}
    }
    // Enforces the mode, even if another program created the file.
    drop(location.files.open(&location.path).map_err(OutboxError::file("open the file"))?);
    let mut conn = match sqlite::small(&location.path).await {
        Ok(conn) => conn,
        Err(error) if failure_kind(&error) == FailureKind::Damaged => return Ok(FileState::Damaged),
        Err(error) => return Err(outbox_error(&location.path, error)),
    };
    let inspected = async {
        let version = schema::version(&mut conn).await?;
        if version == Version::Ours {
            schema::check(&mut conn).await?;
        }
        Ok(version)
    };
    let found = inspected.await;
    if let Ok(Version::Ours) = found {
        return Ok(FileState::Ready(conn));
    }
    let _ = conn.close().await;
    match found {
        Ok(Version::Newer(version)) => Err(OutboxError::Newer { path: location.path.clone(), version }),
        Ok(_) => Ok(FileState::Empty),
        Err(error) if failure_kind(&error) == FailureKind::Damaged => Ok(FileState::Damaged),
        Err(error) => Err(outbox_error(&location.path, error)),
    }
}

async fn create(location: &OutboxLocation) -> Result<Conn, OutboxError> {
    drop(location.files.open(&location.path).map_err(OutboxError::file("make the file"))?);
    let failed = |error| outbox_error(&location.path, error);
    let mut conn = sqlite::small(&location.path).await.map_err(failed)?;
    let made = schema::create(&mut conn).await.map_err(failed).and_then(|()| location.sync());
    if let Err(error) = made {
        let _ = conn.close().await;
        return Err(error);
    }
    Ok(conn)
}

/// Performs the remaining steps of a recovery. Requires the exclusive lock.
async fn recover(location: &OutboxLocation, clock: &Clock) -> Result<Recovery, OutboxError> {
    let (files, mark) = (&location.files, location.beside(MARK));
    let moving = || OutboxError::file("move a damaged file");
    let started = private_file::read(&mark).map_err(OutboxError::file("read the mark"))?;
    let started = started.and_then(|name| String::from_utf8(name).ok()).filter(|name| is_suffix(name));
    let suffix = match started {
        Some(suffix) => suffix,
        None => {
            let suffix = free_suffix(location, clock);
            files.write(&mark, suffix.as_bytes()).map_err(OutboxError::file("write the mark"))?;
            suffix
        }
    };
    let damaged_path = location.beside(&suffix);
    if !damaged_path.exists() {
        // Replaces a missing file by an empty one, so that the next step can be identified.
        drop(files.open(&location.path).map_err(OutboxError::file("open the file"))?);
        files.rename(&location.path, &damaged_path).map_err(moving())?;
    }
    let found = if location.path.exists() {
        None
    } else {
        if log_of(&location.path).exists() {
            files.rename(&log_of(&location.path), &log_of(&damaged_path)).map_err(moving())?;
        }
        files.remove(&location.beside("-shm")).map_err(moving())?;
        location.sync()?;
        let new = location.beside(NEW);
        for leftover in [new.clone(), log_of(&new), location.beside(".new-shm")] {
            files.remove(&leftover).map_err(moving())?;
        }
        drop(files.open(&new).map_err(OutboxError::file("make the file"))?);
        let found = fill(location, &damaged_path, &new).await?;
        files.rename(&new, &location.path).map_err(moving())?;
        location.sync()?;
        Some(found)
    };
    files.remove(&mark).map_err(OutboxError::file("remove the mark"))?;
    location.sync()?;
    let recovery = Recovery { moved_to: damaged_path, rows: found };
    tracing::error!(
        file = %location.path.display(),
        moved_to = %recovery.moved_to.display(),
        rows = recovery.rows,
        "the outbox was damaged: it was renamed, and its readable rows were recovered"
    );
    Ok(recovery)
}

/// Ensures that a name read from a file cannot leave the folder.
fn is_suffix(name: &str) -> bool {
    let rest = name.strip_prefix(".corrupt-");
    rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
}

fn free_suffix(location: &OutboxLocation, clock: &Clock) -> String {
    let time: String = clock
        .now()
        .to_string()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take("20260101T000000".len())
        .collect();
    let names =
        std::iter::once(format!(".corrupt-{time}")).chain((2..).map(|n| format!(".corrupt-{time}-{n}")));
    let mut free = names.filter(|name| !location.beside(name).exists());
    free.next().unwrap_or_default()
}

/// Stores the readable rows of the damaged file in a new one, and closes it.
async fn fill(location: &OutboxLocation, damaged_path: &Path, new: &Path) -> Result<u64, OutboxError> {
    let reading = || OutboxError::file("read the damaged file");
    let pages = Pages::open(damaged_path).map_err(reading())?;
    let found = pages.rows().map_err(reading())?;
    let failed = |error| outbox_error(&location.path, error);
    let mut conn = sqlite::small(new).await.map_err(failed)?;
    let filled = async {
        schema::create(&mut conn).await.map_err(failed)?;
        let (mut stored, mut last) = (0, 0);
        for chunk in found.chunks(BATCH) {
            stored += store(&mut conn, &pages, chunk, &mut last).await.map_err(failed)?;
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

async fn store(
    conn: &mut Conn,
    pages: &Pages,
    found: &[FoundRow],
    last: &mut i64,
) -> Result<u64, StoreError> {
    conn.execute("recovering an outbox", "BEGIN IMMEDIATE", vec![]).await?;
    let mut stored = 0;
    for found in found {
        let Ok(Some(mut row)) = pages.row(found) else { continue };
        // Ids are not covered by the checksum. SQLite never creates duplicate ids; both rows were accepted.
        row.id = if (1..=LARGEST_ID).contains(&row.id) { row.id.max(*last + 1) } else { *last + 1 };
        row.epoch = row.epoch.clamp(0, LARGEST_ID);
        row.attempts = row.attempts.clamp(0, LARGEST_ID);
        *last = row.id;
        let values = (1..=schema::COLUMNS).map(|n| format!("${n}")).collect::<Vec<_>>().join(",");
        let sql = Sql::Built(format!("INSERT INTO writes ({}) VALUES ({values})", Row::COLUMNS));
        stored += conn.execute("recovering an outbox", sql, row.values()).await?;
    }
    conn.execute("recovering an outbox", "COMMIT", vec![]).await?;
    Ok(stored)
}
