//! The journal in an archive: acknowledged records that are not in the archived rows.
//!
//! The segments are copied before the snapshot begins. Thus each record acknowledged before the copy is in
//! the copy, or was already stored and is in the snapshot; the position in the snapshot tells which records
//! are in both.

use std::io;

use super::{folder, segment};
use crate::dialect::Location;
use crate::{Snapshot, StoreError, StoreOptions};

/// A copy of the segments of a journal.
#[derive(Debug)]
pub struct JournalCopy {
    segments: Vec<Vec<u8>>,
}

impl JournalCopy {
    /// Copies the journal of a possibly running hub. Must be called before the snapshot is taken.
    pub fn take(options: &StoreOptions) -> Result<Self, StoreError> {
        let location = Location::new(&options.data_dir, options.database_url.as_ref())?;
        let location = location.journal(&options.data_dir);
        let failed = |source| StoreError::File {
            path: location.display().to_string(),
            source: std::sync::Arc::new(source),
        };
        let mut segments = Vec::new();
        for path in folder::segments(&location).map_err(failed)? {
            match fs_err::read(path) {
                Ok(bytes) => segments.push(bytes),
                // All its records were stored in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(Self { segments })
    }

    /// The records missing from the snapshot, as a segment with its name in the archive.
    pub async fn rest(
        &self,
        snapshot: &mut Snapshot,
        hub: &str,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        if self.segments.is_empty() || snapshot.schema_version().await? == 0 {
            return Ok(None);
        }
        let Some(id) = snapshot.conn().journal_id(hub).await? else { return Ok(None) };
        let position = snapshot.conn().journal_position(hub).await?;
        let mut last = position;
        let mut content = segment::header(id, position + 1).to_vec();
        for bytes in &self.segments {
            let Some(scan) = segment::scan(bytes).filter(|scan| scan.journal == id) else { continue };
            for frame in scan.frames.into_iter().filter(|frame| frame.n > position) {
                content.extend(&bytes[frame.range]);
                last = frame.n;
            }
        }
        let name = format!("{}/{}", crate::archive::JOURNAL, segment::name(position + 1));
        Ok((last > position).then_some((name, content)))
    }
}
