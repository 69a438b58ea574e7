//! Rotation of the signing key.

use std::time::Duration;

use plexus_proto::CallId;
use plexus_proto::api::{AuditPhase, Key, RotatedKey};
use plexus_store::Records;
use serde_json::{Value, json};

use super::Authenticator;
use crate::policy::check_seconds;
use crate::{AuthError, Principal};

/// Names of these operations in the audit log.
const ROTATE: &str = "key_rotate";
const RETIRE: &str = "key_retire";

impl Authenticator {
    /// Starts signing with a new key; tokens signed by the old one are accepted during the overlap. Also
    /// replaces the admin token of this machine, so that commands here keep working. The caller must not
    /// cancel this: a partial rotation leaves that token to expire with its key.
    pub async fn rotate_keys(&self, by: &Principal, overlap: Duration) -> Result<RotatedKey, AuthError> {
        let _one = self.changing.acquire().await;
        let requested = json!({ "overlap_seconds": overlap.as_secs() });
        let allowed = check_admin(by).and(check_seconds("overlap", overlap.as_secs(), 0));
        if let Err(error) = allowed {
            return self.refused(by, ROTATE, error, &requested).await;
        }
        self.recorded(by, ROTATE, requested, async {
            let local = self.local_admin();
            let rotated = self.keys.rotate(self.after(overlap))?;
            self.notify_streams();
            self.renew_admin_token(local.as_deref()).await?;
            Ok((json!({ "kid": rotated.key.kid, "replaces": rotated.replaces.kid }), rotated))
        })
        .await
    }

    /// Ends the overlap of a former key now: its tokens are no longer accepted. `None` if there is no such
    /// key.
    pub async fn retire_key(&self, by: &Principal, kid: &str) -> Result<Option<Key>, AuthError> {
        let _one = self.changing.acquire().await;
        if self.keys.find(kid).is_none() {
            return Ok(None);
        }
        let requested = json!({ "kid": kid });
        if let Err(error) = check_admin(by) {
            return self.refused(by, RETIRE, error, &requested).await;
        }
        self.recorded(by, RETIRE, requested, async {
            let key = self.keys.retire(kid)?;
            self.notify_streams();
            Ok((json!({ "kid": kid }), key))
        })
        .await
    }

    /// Makes streams check the time they have left, after a key was given an end.
    fn notify_streams(&self) {
        self.epoch.send_modify(|_| ());
    }

    /// File changes cannot share a transaction with their audit record: one half of the record is committed
    /// before the change and the other after it, and a crash in between shows up as an unfinished call.
    async fn recorded<T>(
        &self,
        by: &Principal,
        what: &'static str,
        requested: Value,
        change: impl Future<Output = Result<(Value, T), AuthError>>,
    ) -> Result<T, AuthError> {
        let call_id = CallId::new();
        let append = |phase, outcome, detail: &Value| {
            let entry = self.entry(by, what, call_id, phase, outcome, detail);
            self.store.append(Records { audit: vec![entry], events: vec![] })
        };
        append(AuditPhase::Started, "", &requested).await?;
        match change.await {
            Ok((detail, value)) => {
                tracing::info!(by = by.subject(), %detail, "{what}");
                append(AuditPhase::Finished, "ok", &detail).await?;
                Ok(value)
            }
            Err(error) => {
                append(AuditPhase::Finished, error.outcome(), &requested).await?;
                Err(error)
            }
        }
    }
}

fn check_admin(by: &Principal) -> Result<(), AuthError> {
    if by.is_admin() {
        return Ok(());
    }
    Err(AuthError::Forbidden(format!(
        "{} may not change keys: its token lacks the scope admin",
        by.subject()
    )))
}
