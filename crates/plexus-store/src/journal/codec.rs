//! Binary encoding of journal records: little-endian numbers, length-prefixed text and lists.
//!
//! Not JSON, since most of a record is JSON text already and would be escaped again. A change of this
//! encoding requires a new [magic](super::segment::MAGIC): a journal may be read by the version after the one
//! that wrote it.

use plexus_kit::clock::from_millis;
use plexus_proto::api::AuditPhase;
use plexus_proto::{CallId, NewEvent, SessionId, TokenId};

use crate::audit::NewAudit;
use crate::writer::Records;

/// Appends the encoded records to `out`.
pub(super) fn encode(records: &Records, out: &mut Vec<u8>) {
    length(records.audit.len(), out);
    for entry in &records.audit {
        out.extend(entry.at.as_millisecond().to_le_bytes());
        out.push(match entry.phase {
            AuditPhase::Started => 0,
            AuditPhase::Finished => 1,
            AuditPhase::Notice => 2,
        });
        optional(entry.call_id, out, |id, out| out.extend(id.into_bytes()));
        optional(entry.token_id, out, |id, out| out.extend(id.into_bytes()));
        text(&entry.actor, out);
        optional(entry.session_id, out, |id, out| out.extend(id.into_bytes()));
        text(&entry.tool, out);
        text(&entry.via, out);
        text(&entry.outcome, out);
        text(&entry.detail, out);
    }
    length(records.events.len(), out);
    for (session, event) in &records.events {
        out.extend(session.into_bytes());
        out.extend(event.at.as_millisecond().to_le_bytes());
        text(event.kind.as_str(), out);
        text(&event.actor, out);
        text(&event.payload, out);
        optional(event.external_id.as_deref(), out, text);
    }
}

fn length(length: usize, out: &mut Vec<u8>) {
    // Longer values exceed the size of a frame and are rejected there.
    out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

fn text(text: &str, out: &mut Vec<u8>) {
    length(text.len(), out);
    out.extend(text.as_bytes());
}

fn optional<T>(value: Option<T>, out: &mut Vec<u8>, put: impl FnOnce(T, &mut Vec<u8>)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(value, out);
    }
}

/// Decodes records; `None` unless all bytes form valid records.
pub(super) fn decode(bytes: &[u8]) -> Option<Records> {
    let mut input = Input(bytes);
    let mut records = Records::default();
    for _ in 0..input.length()? {
        records.audit.push(NewAudit {
            at: from_millis(input.int()?),
            phase: match input.byte()? {
                0 => AuditPhase::Started,
                1 => AuditPhase::Finished,
                2 => AuditPhase::Notice,
                _ => return None,
            },
            call_id: input.optional(|input| input.array().map(CallId::from_bytes))?,
            token_id: input.optional(|input| input.array().map(TokenId::from_bytes))?,
            actor: input.text()?,
            session_id: input.optional(|input| input.array().map(SessionId::from_bytes))?,
            tool: input.text()?,
            via: input.text()?.into(),
            outcome: input.text()?.into(),
            detail: input.text()?,
        });
    }
    for _ in 0..input.length()? {
        let session = SessionId::from_bytes(input.array()?);
        let at = from_millis(input.int()?);
        let Ok(kind) = input.text()?.parse();
        let (actor, payload) = (input.text()?, input.text()?);
        let external_id = input.optional(Input::text)?;
        records.events.push((session, NewEvent { at, kind, actor, payload, external_id }));
    }
    input.0.is_empty().then_some(records)
}

/// The remaining input.
struct Input<'b>(&'b [u8]);

impl Input<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn int(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn length(&mut self) -> Option<usize> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    fn text(&mut self) -> Option<String> {
        let length = self.length()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        str::from_utf8(bytes).ok().map(str::to_owned)
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }
}
