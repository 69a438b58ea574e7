//! `plexus node invites` and `uninvite`: lists and revokes pending invitations.

use plexus_proto::api::PendingInvite;

use super::show;
use crate::client::Hub;
use crate::listing;
use crate::output::{Output, one_line};

pub(super) async fn list(out: &Output, hub: &Hub) -> anyhow::Result<()> {
    let page = hub.get(&["nodes", "invites"], &[]).await?.decode()?;
    let row = |invite: &PendingInvite| {
        vec![
            invite.name.clone(),
            out.when(invite.expires_at),
            if invite.rejoin { "yes" } else { "-" }.to_owned(),
            show::labels(&invite.labels),
            invite.created_by.clone(),
        ]
    };
    let empty = "No pending invitations. `plexus node invite NAME` prints the command that joins a machine.";
    listing::show(out, &page, &["NAME", "EXPIRES", "REJOIN", "LABELS", "INVITED BY"], row, empty)
}

pub(super) async fn revoke(out: &Output, hub: &Hub, name: &str) -> anyhow::Result<()> {
    let answer = hub.delete(&["nodes", "invites", name]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let PendingInvite { name, .. } = answer.decode()?;
    out.line(&format!("Revoked the invitation of {}.", one_line(&name)))
}
