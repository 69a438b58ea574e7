//! A session's scratchpad: named sections of text.

use plexus_kit::clock::from_millis;
use plexus_proto::{SessionId, Timestamp};

use crate::{Conn, StoreError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionInfo {
    pub section: String,
    pub bytes: i64,
    pub updated_at: Timestamp,
}

impl Conn {
    pub async fn sections(&mut self, session: SessionId) -> Result<Vec<SectionInfo>, StoreError> {
        let rows = self
            .rows(
                "listing scratchpad sections",
                "SELECT section, bytes, updated_at FROM scratchpad WHERE session_id = $1 ORDER BY section",
                vec![session.to_string().into()],
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(SectionInfo {
                    section: row.text(0)?,
                    bytes: row.int(1)?,
                    updated_at: from_millis(row.int(2)?),
                })
            })
            .collect()
    }

    pub async fn section(&mut self, session: SessionId, section: &str) -> Result<Option<String>, StoreError> {
        let row = self
            .row(
                "reading a scratchpad section",
                "SELECT content FROM scratchpad WHERE session_id = $1 AND section = $2",
                vec![session.to_string().into(), section.into()],
            )
            .await?;
        row.map(|row| row.text(0)).transpose()
    }

    /// Creates or replaces a section.
    pub async fn write_section(
        &mut self,
        session: SessionId,
        section: &str,
        content: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.execute(
            "writing a scratchpad section",
            "INSERT INTO scratchpad (session_id, section, content, bytes, updated_at) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (session_id, section) DO UPDATE SET content = excluded.content, \
             bytes = excluded.bytes, updated_at = excluded.updated_at",
            vec![
                session.to_string().into(),
                section.into(),
                content.into(),
                i64::try_from(content.len()).unwrap_or(i64::MAX).into(),
                now.as_millisecond().into(),
            ],
        )
        .await?;
        Ok(())
    }

    pub async fn delete_section(&mut self, session: SessionId, section: &str) -> Result<bool, StoreError> {
        let changed = self
            .execute(
                "deleting a scratchpad section",
                "DELETE FROM scratchpad WHERE session_id = $1 AND section = $2",
                vec![session.to_string().into(), section.into()],
            )
            .await?;
        Ok(changed > 0)
    }
}
