//! Issued tokens and the epoch that says when a revocation happened anywhere.

use plexus_kit::clock::from_millis;
use plexus_proto::api::Token;
use plexus_proto::{Timestamp, TokenId};

use crate::conn::Row;
use crate::{Conn, StoreError};

fn token(row: &Row) -> Result<Token, StoreError> {
    let damaged = |e: String| StoreError::damaged("tokens", e);
    Ok(Token {
        jti: row.text(0)?.parse().map_err(|e| StoreError::damaged("tokens", e))?,
        kind: row.text(1)?.parse().map_err(damaged)?,
        name: row.text(2)?,
        scopes: serde_json::from_str(&row.text(3)?).map_err(|e| StoreError::damaged("tokens", e))?,
        profile: row.opt_text(4)?,
        parent: row
            .opt_text(5)?
            .map(|id| id.parse())
            .transpose()
            .map_err(|e| StoreError::damaged("tokens", e))?,
        created_at: from_millis(row.int(6)?),
        expires_at: from_millis(row.int(7)?),
        revoked_at: row.opt_int(8)?.map(from_millis),
    })
}

impl Conn {
    /// False when the token that mints it has been revoked, and so nothing was stored.
    pub async fn insert_token(&mut self, token: &Token) -> Result<bool, StoreError> {
        let scopes = serde_json::to_string(&token.scopes).map_err(|e| StoreError::damaged("tokens", e))?;
        let stored = self.execute(
            "storing a token",
            "INSERT INTO tokens (jti, kind, name, scopes, profile, parent, created_at, expires_at, revoked_at) \
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, NULL \
             WHERE NOT EXISTS (SELECT 1 FROM tokens WHERE jti = $6 AND revoked_at IS NOT NULL)",
            vec![
                token.jti.to_string().into(),
                token.kind.as_str().into(),
                token.name.as_str().into(),
                scopes.into(),
                token.profile.as_deref().into(),
                token.parent.map(|id| id.to_string()).into(),
                token.created_at.as_millisecond().into(),
                token.expires_at.as_millisecond().into(),
            ],
        )
        .await?;
        Ok(stored > 0)
    }

    pub async fn token(&mut self, jti: TokenId) -> Result<Option<Token>, StoreError> {
        let row = self
            .row(
                "reading a token",
                "SELECT jti, kind, name, scopes, profile, parent, created_at, expires_at, revoked_at \
                 FROM tokens WHERE jti = $1",
                vec![jti.to_string().into()],
            )
            .await?;
        row.as_ref().map(token).transpose()
    }

    /// Newest first. `before` is the last id of the page before.
    pub async fn tokens(&mut self, before: Option<TokenId>, limit: i64) -> Result<Vec<Token>, StoreError> {
        let before = before.map(|id| id.to_string());
        let rows = self
            .rows(
                "listing tokens",
                "SELECT jti, kind, name, scopes, profile, parent, created_at, expires_at, revoked_at \
                 FROM tokens WHERE ($1 IS NULL OR jti < $1) ORDER BY jti DESC LIMIT $2",
                vec![before.into(), limit.into()],
            )
            .await?;
        rows.iter().map(token).collect()
    }

    /// Revokes the token and every token minted from it, and moves the epoch on.
    /// None: there is no such token. Revoking twice keeps the first time.
    pub async fn revoke_token(&mut self, jti: TokenId, now: Timestamp) -> Result<Option<Token>, StoreError> {
        let changed = self
            .execute(
                "revoking a token",
                "WITH RECURSIVE family (jti) AS ( \
                     SELECT jti FROM tokens WHERE jti = $1 \
                     UNION SELECT tokens.jti FROM tokens JOIN family ON tokens.parent = family.jti) \
                 UPDATE tokens SET revoked_at = $2 WHERE revoked_at IS NULL AND jti IN (SELECT jti FROM family)",
                vec![jti.to_string().into(), now.as_millisecond().into()],
            )
            .await?;
        if changed > 0 {
            self.execute(
                "moving the revocation epoch",
                "UPDATE meta SET value = value + 1 WHERE key = 'revocation_epoch'",
                vec![],
            )
            .await?;
        }
        self.token(jti).await
    }

    /// Writes without changing anything.
    pub(crate) async fn touch(&mut self) -> Result<(), StoreError> {
        let sql = "UPDATE meta SET value = value WHERE key = 'revocation_epoch'";
        self.execute("testing whether the database can be written", sql, vec![]).await?;
        Ok(())
    }

    pub async fn revocation_epoch(&mut self) -> Result<i64, StoreError> {
        let row = self
            .row(
                "reading the revocation epoch",
                "SELECT value FROM meta WHERE key = 'revocation_epoch'",
                vec![],
            )
            .await?;
        row.map_or(Ok(0), |row| row.int(0))
    }

    /// Revoked tokens that would still be valid by their expiry.
    pub async fn revoked_tokens(&mut self, now: Timestamp) -> Result<Vec<TokenId>, StoreError> {
        let rows = self
            .rows(
                "reading revoked tokens",
                "SELECT jti FROM tokens WHERE revoked_at IS NOT NULL AND expires_at > $1",
                vec![now.as_millisecond().into()],
            )
            .await?;
        rows.iter().map(|row| row.text(0)?.parse().map_err(|e| StoreError::damaged("tokens", e))).collect()
    }
}
