//! Reading of intact, truncated and damaged segments.

use plexus_kit::Durability;
use plexus_kit::clock::from_millis;
use plexus_proto::api::AuditPhase;
use plexus_proto::{CallId, EventKind, NewEvent, SessionId, TokenId};

use super::{Journal, JournalLocation, codec, folder, segment};
use crate::audit::NewAudit;
use crate::writer::Records;

fn records(number: usize) -> Records {
    let entry = NewAudit {
        at: from_millis(1_700_000_000_000 + number as i64),
        phase: [AuditPhase::Started, AuditPhase::Finished, AuditPhase::Notice][number % 3],
        call_id: (!number.is_multiple_of(2)).then(CallId::new),
        token_id: number.is_multiple_of(2).then(TokenId::new),
        actor: "agent:ünï".to_owned(),
        session_id: number.is_multiple_of(3).then(SessionId::new),
        tool: String::new(),
        via: "mcp".into(),
        outcome: format!("outcome {number}").into(),
        detail: "x".repeat(number * 37),
    };
    let event = NewEvent {
        at: from_millis(-5),
        kind: EventKind::Other("from_the_future".to_owned()),
        actor: "a".to_owned(),
        payload: format!(r#"{{"number":{number}}}"#),
        external_id: number.is_multiple_of(2).then(String::new),
    };
    let events = (0..number % 4).map(|_| (SessionId::new(), event.clone())).collect();
    Records { audit: vec![entry; number % 3], events }
}

fn describe_records(records: &Records) -> String {
    format!("{records:?}")
}

/// A segment with this many frames, and the offset of each.
fn filled(frames: usize) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut frame, mut begins) = (segment::header(7, 1).to_vec(), Vec::new(), Vec::new());
    for number in 1..=frames {
        assert!(segment::frame(number as i64, &records(number), &mut frame));
        begins.push(bytes.len());
        bytes.extend(&frame);
    }
    begins.push(bytes.len());
    (bytes, begins)
}

fn numbers(scan: &segment::Scan) -> Vec<i64> {
    scan.frames.iter().map(|frame| frame.n).collect()
}

#[test]
fn records_round_trip() {
    for number in 0..40 {
        let (written, mut bytes) = (records(number), Vec::new());
        codec::encode(&written, &mut bytes);
        assert_eq!(describe_records(&codec::decode(&bytes).unwrap()), describe_records(&written));
        for cut in 0..bytes.len() {
            assert!(codec::decode(&bytes[..cut]).is_none(), "{number} cut at {cut}");
        }
        bytes.push(0);
        assert!(codec::decode(&bytes).is_none(), "{number} with more behind it");
    }
}

#[test]
fn truncated_segment_yields_all_complete_frames() {
    let (bytes, begins) = filled(8);
    for cut in segment::header(7, 1).len()..=bytes.len() {
        let scan = segment::scan(&bytes[..cut]).unwrap();
        let whole = begins[1..].iter().filter(|end| **end <= cut).count();
        assert_eq!(numbers(&scan), (1..=whole as i64).collect::<Vec<_>>(), "cut at {cut}");
        assert_eq!(scan.torn, cut - begins[whole], "cut at {cut}");
        assert!(scan.damaged.is_empty(), "cut at {cut}: {:?}", scan.damaged);
    }
}

#[test]
fn changed_byte_damages_only_its_frame() {
    let (bytes, begins) = filled(8);
    for place in begins[0]..begins[8] {
        let mut changed = bytes.clone();
        changed[place] ^= 0x40;
        let scan = segment::scan(&changed).unwrap();
        let hit = begins.iter().filter(|begin| **begin <= place).count();
        let expected: Vec<i64> = (1..=8).filter(|n| *n != hit as i64).collect();
        assert_eq!(numbers(&scan), expected, "byte {place}");
        assert_eq!(scan.damaged, vec![begins[hit - 1]..begins[hit]; 1], "byte {place}");
        assert_eq!(scan.torn, 0);
    }
}

#[test]
fn invalid_files_are_not_segments() {
    assert!(segment::scan(b"").is_none());
    assert!(segment::scan(&[0; 100]).is_none());
    assert!(segment::scan(&segment::header(7, 1)[..23]).is_none());
}

/// The records read from a folder whose last segment is as given.
fn read_leftover(dir: &tempfile::TempDir, bytes: &[u8], position: i64) -> folder::Leftover {
    let place = JournalLocation { folder: dir.path().to_owned(), id: 7 };
    std::fs::write(dir.path().join(segment::name(1)), bytes).unwrap();
    folder::read(&place, position).unwrap()
}

#[test]
fn stored_records_are_not_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, _) = filled(8);
    for position in 0..=8 {
        let leftover = read_leftover(&dir, &bytes, position);
        let expected: Vec<_> = bytes_of(position + 1..=8, &bytes);
        assert_eq!(leftover.records.iter().map(describe_records).collect::<Vec<_>>(), expected);
        assert_eq!(leftover.last(position), 8);
    }
    // A database that is ahead of its journal continues from its own position.
    assert_eq!(read_leftover(&dir, &bytes, 20).last(20), 20);
}

/// The records with these numbers, as text.
fn bytes_of(numbers: std::ops::RangeInclusive<i64>, bytes: &[u8]) -> Vec<String> {
    let scan = segment::scan(bytes).unwrap();
    scan.frames
        .iter()
        .filter(|frame| numbers.contains(&frame.n))
        .map(|frame| describe_records(&frame.records))
        .collect()
}

#[test]
fn journal_of_another_database_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, _) = filled(2);
    std::fs::write(dir.path().join(segment::name(1)), &bytes).unwrap();
    let other = JournalLocation { folder: dir.path().to_owned(), id: 8 };
    let leftover = folder::read(&other, 0).unwrap();
    assert!(leftover.records.is_empty() && leftover.segments.is_empty());
    let damaged_file = dir.path().join(segment::name(1)).with_extension("foreign");
    assert_eq!(std::fs::read(damaged_file).unwrap(), bytes);
}

#[test]
fn damaged_segment_is_renamed_after_replay() {
    let dir = tempfile::tempdir().unwrap();
    let (mut bytes, begins) = filled(5);
    bytes[begins[2] + 20] ^= 1;
    assert_eq!(read_leftover(&dir, &bytes, 0).records.len(), 4);
    let place = JournalLocation { folder: dir.path().to_owned(), id: 7 };
    let journal = Journal::open(place, 0, Durability::Process).unwrap();
    assert_eq!((journal.take().records.len(), journal.waiting()), (4, 5));
    journal.stored(5);
    journal.begin().unwrap();
    let name = |first: i64, extension: &str| dir.path().join(segment::name(first)).with_extension(extension);
    assert_eq!(std::fs::read(name(1, "damaged")).unwrap(), bytes);
    assert!(!name(1, "log").exists() && name(6, "log").exists());
}

/// A journal that accepts records, and the file of its first segment.
fn begun(dir: &tempfile::TempDir) -> (Journal, std::path::PathBuf) {
    let place = JournalLocation { folder: dir.path().to_owned(), id: 7 };
    let journal = Journal::open(place, 0, Durability::Process).unwrap();
    journal.begin().unwrap();
    (journal, dir.path().join(segment::name(1)))
}

/// An entry of about this many bytes.
fn record(bytes: usize) -> Records {
    let entry = NewAudit { detail: "x".repeat(bytes), ..records(1).audit.remove(0) };
    Records { audit: vec![entry], events: vec![] }
}

#[test]
fn segment_damaged_at_runtime_is_kept() {
    for close_first in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (journal, path) = begun(&dir);
        for _ in 0..3 {
            journal.append(record(100)).unwrap();
        }
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        journal.take();
        journal.failed();
        let again = journal.read_again(0).unwrap();
        assert_eq!((again.records.len(), again.through), (2, 3));
        if close_first {
            journal.close();
            journal.stored(3);
        } else {
            journal.stored(3);
            journal.close();
        }
        journal.tidy();
        assert_eq!(std::fs::read(path.with_extension("damaged")).unwrap(), bytes);
        assert!(!path.exists());
    }
}

#[test]
fn unusable_segment_is_replaced_by_the_next_commit() {
    for written in [0, 3] {
        let dir = tempfile::tempdir().unwrap();
        let (journal, path) = begun(&dir);
        for _ in 0..written {
            journal.append(record(100)).unwrap();
        }
        journal.state().active = Some(segment::Segment::refusing(&path));
        journal.append(record(100)).unwrap_err();
        // Its earlier records remain in the file until they are stored.
        journal.append(record(100)).unwrap_err();
        assert_eq!(segment::scan(&std::fs::read(&path).unwrap()).unwrap().frames.len(), written);
        journal.stored(journal.take().through);
        journal.append(record(100)).unwrap();
        let next = dir.path().join(segment::name(written as i64 + 1));
        assert_eq!(folder::segments(dir.path()).unwrap(), std::slice::from_ref(&next));
        assert_eq!(numbers(&segment::scan(&std::fs::read(next).unwrap()).unwrap()), [written as i64 + 1]);
        journal.close();
        journal.stored(journal.take().through);
        journal.tidy();
        assert!(folder::segments(dir.path()).unwrap().is_empty(), "a closed journal creates no segment");
    }
}

#[test]
fn records_are_returned_while_no_segment_can_be_created() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, path) = begun(&dir);
    // The file can be opened but rejects writes: the new segment must be removed.
    let next = dir.path().join(segment::name(9));
    std::os::unix::fs::symlink("/dev/full", &next).unwrap();
    for _ in 0..8 {
        journal.append(record(1 << 20)).unwrap();
    }
    assert!(next.symlink_metadata().is_err(), "the incomplete file is removed");
    journal.append(record(100)).unwrap_err();
    assert!(journal.state().refused && path.exists());
    // The same when the next commit tries again.
    std::fs::create_dir(&next).unwrap();
    journal.stored(journal.take().through);
    journal.append(record(100)).unwrap_err();
    assert!(!path.exists(), "all its records are stored");
    std::fs::remove_dir(&next).unwrap();
    // A commit without journaled records is sufficient.
    journal.stored(journal.take().through);
    journal.append(record(100)).unwrap();
    assert!(!journal.state().refused);
    assert_eq!(numbers(&segment::scan(&std::fs::read(next).unwrap()).unwrap()), [9]);
}

#[test]
fn segments_rotate_and_are_removed_once_stored() {
    let dir = tempfile::tempdir().unwrap();
    let place = JournalLocation { folder: dir.path().to_owned(), id: 7 };
    let journal = Journal::open(place.clone(), 0, Durability::Process).unwrap();
    journal.begin().unwrap();
    let mut record_count = 0;
    while journal.append(record(1 << 20)).is_ok() {
        record_count += 1;
    }
    assert!((15..=16).contains(&record_count), "bounded by the backlog: {record_count}");
    assert!(folder::segments(dir.path()).unwrap().len() >= 2);
    let batch = journal.take();
    assert_eq!((batch.records.len(), batch.through), (record_count, record_count as i64));
    // Memory is free again; the files keep the batch until it is stored.
    journal.append(record(1 << 20)).unwrap();
    journal.failed();
    journal.append(record(1 << 20)).unwrap_err();
    let again = journal.read_again(3).unwrap();
    assert_eq!((again.records.len(), again.through), (record_count - 2, record_count as i64 + 1));
    journal.stored(again.through);
    assert_eq!(folder::segments(dir.path()).unwrap().len(), 1);
    journal.append(record(1 << 20)).unwrap();
    assert!(!journal.is_settled());
    journal.close();
    journal.append(record(1 << 20)).unwrap_err();
    // The next hub finds the record that was not stored.
    let leftover = folder::read(&place, again.through).unwrap();
    assert_eq!(leftover.records.len(), 1);
}

#[test]
fn unknown_sessions_and_empty_records_are_returned() {
    let dir = tempfile::tempdir().unwrap();
    let place = JournalLocation { folder: dir.path().to_owned(), id: 7 };
    let journal = Journal::open(place, 0, Durability::Process).unwrap();
    journal.begin().unwrap();
    let unknown = records(1);
    let session = unknown.events[0].0;
    let unknown = journal.append(unknown).unwrap_err();
    assert!(journal.append(Records::default()).is_err() && journal.is_settled());
    assert_eq!(journal.unknown([session, session].into_iter()), [session]);
    journal.learn(vec![session]);
    journal.append(unknown).unwrap();
    assert_eq!(journal.waiting(), 1);
}

#[test]
fn power_durability_bypasses_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let place = JournalLocation { folder: dir.path().to_owned(), id: 7 };
    let journal = Journal::open(place, 0, Durability::Power).unwrap();
    journal.begin().unwrap();
    let record = Records { events: vec![], ..records(1) };
    assert!(journal.append(record).is_err() && folder::segments(dir.path()).unwrap().is_empty());
}
