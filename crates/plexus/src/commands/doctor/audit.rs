//! Whether the recent end of the audit is intact, and when all of it was verified last.
//!
//! The hub that runs on the folder is asked; where none runs, the database is read. Only the newest entries are looked at,
//! so this does not take longer as the record grows.

use plexus_auth::{AuditAnchor, LastVerification};
use plexus_hub::INSTANCE;
use plexus_proto::api::AuditReport;
use plexus_store::{DatabaseNote, NoWitness, Snapshot, Witness};

use super::hub::Seen;
use super::{Finding, Subject, database};
use crate::commands::db::backup;
use crate::output::Output;

const CHECK: &str = "audit";
/// Entries that are looked at.
const NEWEST: i64 = 2_000;

pub(super) async fn check(
    subject: &Subject,
    has_database: bool,
    seen: Option<&Seen>,
    out: &Output,
) -> Vec<Finding> {
    if !has_database {
        return Vec::new();
    }
    let seen = seen.filter(|seen| seen.on_folder);
    let folder = &subject.config.data_dir;
    let head = folder.join("audit.head");
    if !head.exists() {
        let message = format!("{} is missing: entries may have been taken from the end", head.display());
        let fix =
            "put it back from where it was moved to; a hub that starts without it records that as a break";
        return vec![Finding::problem(CHECK, message, fix)];
    }
    let verify = format!("{} audit verify", subject.plexus);
    let (recent, by) = match seen {
        Some(seen) => (of_hub(seen).await, format!("by the hub at {}", seen.url())),
        None => (of_folder(subject).await, "from the database".to_owned()),
    };
    let mut found = Vec::new();
    match recent {
        Ok(report) if report.ok => {
            let message = format!("the newest {} entries are intact, as read {by}", report.entries);
            found.push(Finding::ok(CHECK, message));
        }
        Ok(report) => {
            let why = report.problems.first().map_or("", |problem| problem.message.as_str());
            let message = format!("the record of {} is not intact: {why}", folder.display());
            found.push(Finding::problem(CHECK, message, verify.clone()));
        }
        Err(why) => {
            let message = format!("its signed head is there; the entries were not looked at: {why:#}");
            found.push(Finding::ok(CHECK, message));
        }
    }
    let was_broken =
        seen.and_then(|seen| seen.status.as_ref()).is_some_and(|status| !status.audit.intact_at_start);
    if was_broken && found.iter().all(|finding| finding.fix.is_none()) {
        let message = "it did not match its signed head when the hub started, or at a start before";
        found.push(Finding::problem(CHECK, message, verify.clone()));
    }
    found.push(last(subject, &verify, out));
    found
}

async fn of_hub(seen: &Seen) -> anyhow::Result<AuditReport> {
    seen.hub.get(&["audit", "verify"], &[("newest", Some(NEWEST.to_string()))]).await?.decode()
}

async fn of_folder(subject: &Subject) -> anyhow::Result<AuditReport> {
    let options = database::store_options(&subject.config);
    if options.database_url.is_none()
        && let Some(note) = DatabaseNote::read(&options.data_dir)?
        && !note.place.is_sqlite()
    {
        anyhow::bail!("this command has no URL of {}", note.place);
    }
    let anchor = backup::anchor(&options)?;
    let witness: &dyn Witness = anchor.as_ref().map_or(&NoWitness, |anchor| anchor);
    let no_key = || format!("there is no signing key in {}", options.data_dir.display());
    let signed = anchor.as_ref().map_or_else(|| Err(no_key()), AuditAnchor::read);
    let Some(mut snapshot) = Snapshot::glance(&options).await? else {
        anyhow::bail!("this command cannot reach the database");
    };
    Ok(snapshot.verify_audit_end(INSTANCE, signed, witness, NEWEST).await?)
}

/// When all of it was verified.
fn last(subject: &Subject, verify: &str, out: &Output) -> Finding {
    match LastVerification::read(&subject.config.data_dir) {
        Ok(Some(last)) if last.ok => {
            let message =
                format!("all of it was verified last {}: {} entries", out.at(last.at), last.entries);
            Finding::ok(CHECK, message)
        }
        Ok(Some(last)) => {
            let message = format!(
                "the last verification of all of it, {}, found problems: {}",
                out.at(last.at),
                last.problem_count
            );
            Finding::problem(CHECK, message, verify)
        }
        Ok(None) => Finding::ok(CHECK, format!("all of it was never verified here; `{verify}` does that")),
        Err(error) => {
            let message = format!("it is not known when all of it was verified: {error}");
            Finding::warning(CHECK, message, verify)
        }
    }
}
