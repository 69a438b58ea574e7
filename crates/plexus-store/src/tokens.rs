//! Issued tokens, their ancestry, and an epoch that changes with every revocation.
//!
//! A token is revoked from `revoked_at` on, which is in the future for a replaced token in its grace period.
//! Children of a token are revoked with it.

use plexus_kit::clock::from_millis;
use plexus_proto::api::{Token, TokenKind};
use plexus_proto::{Timestamp, TokenId};

use crate::conn::Row;
use crate::{Conn, StoreError};

/// Maximum number of expired generations skipped in one purge; the rest waits for the next.
const GENERATIONS: usize = 64;

fn damaged(error: impl std::fmt::Display) -> StoreError {
    StoreError::damaged("tokens", error)
}

fn token(row: &Row) -> Result<Token, StoreError> {
    Ok(Token {
        jti: row.text(0)?.parse().map_err(damaged)?,
        kind: row.text(1)?.parse().map_err(damaged)?,
        name: row.text(2)?,
        scopes: serde_json::from_str(&row.text(3)?).map_err(damaged)?,
        profile: row.opt_text(4)?,
        parent: row.opt_text(5)?.map(|id| id.parse()).transpose().map_err(damaged)?,
        created_at: from_millis(row.int(6)?),
        expires_at: from_millis(row.int(7)?),
        revoked_at: row.opt_int(8)?.map(from_millis),
        renew_until: row.opt_int(9)?.map(from_millis),
        last_used_at: row.opt_int(10)?.map(from_millis),
        node: row.opt_text(11)?,
    })
}

impl Conn {
    /// Stores a token. Returns false, without storing it, if its parent has been revoked or replaced. This
    /// includes a parent in its grace period: its children were moved to its replacement, and nothing would
    /// revoke later ones.
    pub async fn insert_token(&mut self, token: &Token) -> Result<bool, StoreError> {
        let scopes = serde_json::to_string(&token.scopes).map_err(damaged)?;
        let stored = self
            .execute(
                "storing a token",
                "INSERT INTO tokens (jti, kind, name, scopes, profile, parent, created_at, expires_at, \
                     renew_until, node) \
                 SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10 \
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
                    token.renew_until.map(|at| at.as_millisecond()).into(),
                    token.node.as_deref().into(),
                ],
            )
            .await?;
        Ok(stored > 0)
    }

    pub async fn token(&mut self, jti: TokenId) -> Result<Option<Token>, StoreError> {
        let row = self
            .row(
                "reading a token",
                "SELECT jti, kind, name, scopes, profile, parent, created_at, expires_at, revoked_at, \
                     renew_until, last_used_at, node \
                 FROM tokens WHERE jti = $1",
                vec![jti.to_string().into()],
            )
            .await?;
        row.as_ref().map(token).transpose()
    }

    /// Newest first. `before` is the last id of the previous page.
    pub async fn tokens(&mut self, before: Option<TokenId>, limit: i64) -> Result<Vec<Token>, StoreError> {
        let before = before.map(|id| id.to_string());
        let rows = self
            .rows(
                "listing tokens",
                "SELECT jti, kind, name, scopes, profile, parent, created_at, expires_at, revoked_at, \
                     renew_until, last_used_at, node \
                 FROM tokens WHERE ($1 IS NULL OR jti < $1) ORDER BY jti DESC LIMIT $2",
                vec![before.into(), limit.into()],
            )
            .await?;
        rows.iter().map(token).collect()
    }

    /// Number of tokens with this parent.
    pub async fn token_children(&mut self, jti: TokenId) -> Result<i64, StoreError> {
        let row = self
            .row(
                "counting a token's children",
                "SELECT COUNT(*) FROM tokens WHERE parent = $1",
                vec![jti.to_string().into()],
            )
            .await?;
        row.map_or(Ok(0), |row| row.int(0))
    }

    /// Whether `ancestor` is an ancestor of the token at any level; a token is not its own ancestor.
    pub async fn token_descends_from(&mut self, jti: TokenId, ancestor: TokenId) -> Result<bool, StoreError> {
        let row = self
            .row(
                "reading a token's ancestry",
                "WITH RECURSIVE line (jti) AS ( \
                     SELECT parent FROM tokens WHERE jti = $1 AND parent IS NOT NULL \
                     UNION SELECT tokens.parent FROM tokens JOIN line ON tokens.jti = line.jti \
                         WHERE tokens.parent IS NOT NULL) \
                 SELECT jti FROM line WHERE jti = $2",
                vec![jti.to_string().into(), ancestor.to_string().into()],
            )
            .await?;
        Ok(row.is_some())
    }

    /// Revokes the token and all its descendants, and advances the epoch. `None` if there is no such token.
    /// Revoking again keeps the first time.
    pub async fn revoke_token(&mut self, jti: TokenId, now: Timestamp) -> Result<Option<Token>, StoreError> {
        let changed = self
            .execute(
                "revoking a token",
                "WITH RECURSIVE family (jti) AS ( \
                     SELECT jti FROM tokens WHERE jti = $1 \
                     UNION SELECT tokens.jti FROM tokens JOIN family ON tokens.parent = family.jti) \
                 UPDATE tokens SET revoked_at = $2 \
                 WHERE (revoked_at IS NULL OR revoked_at > $2) AND jti IN (SELECT jti FROM family)",
                vec![jti.to_string().into(), now.as_millisecond().into()],
            )
            .await?;
        if changed > 0 {
            self.move_revocation_epoch().await?;
        }
        self.token(jti).await
    }

    /// Revokes every token of this kind and name with all descendants, and advances the epoch.
    pub async fn revoke_tokens_of(
        &mut self,
        kind: TokenKind,
        name: &str,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let changed = self
            .execute(
                "revoking the tokens of a holder",
                "WITH RECURSIVE family (jti) AS ( \
                     SELECT jti FROM tokens WHERE kind = $1 AND name = $2 \
                     UNION SELECT tokens.jti FROM tokens JOIN family ON tokens.parent = family.jti) \
                 UPDATE tokens SET revoked_at = $3 \
                 WHERE (revoked_at IS NULL OR revoked_at > $3) AND jti IN (SELECT jti FROM family)",
                vec![kind.as_str().into(), name.into(), now.as_millisecond().into()],
            )
            .await?;
        if changed > 0 {
            self.move_revocation_epoch().await?;
        }
        Ok(changed)
    }

    /// Sets a future end for every token of this kind and name that has none but its expiry, and advances the
    /// epoch.
    pub async fn end_tokens_of(
        &mut self,
        kind: TokenKind,
        name: &str,
        at: Timestamp,
    ) -> Result<u64, StoreError> {
        let ended = self
            .execute(
                "ending the tokens of a holder",
                "UPDATE tokens SET revoked_at = $3 WHERE kind = $1 AND name = $2 AND revoked_at IS NULL",
                vec![kind.as_str().into(), name.into(), at.as_millisecond().into()],
            )
            .await?;
        if ended > 0 {
            self.move_revocation_epoch().await?;
        }
        Ok(ended)
    }

    /// Number of valid tokens of this kind and name.
    pub async fn live_tokens_of(
        &mut self,
        kind: TokenKind,
        name: &str,
        now: Timestamp,
    ) -> Result<i64, StoreError> {
        let row = self
            .row(
                "counting the tokens of a holder",
                "SELECT COUNT(*) FROM tokens WHERE kind = $1 AND name = $2 AND expires_at > $3 \
                 AND (revoked_at IS NULL OR revoked_at > $3)",
                vec![kind.as_str().into(), name.into(), now.as_millisecond().into()],
            )
            .await?;
        row.map_or(Ok(0), |row| row.int(0))
    }

    /// Sets a future end for a token and its renewals, and advances the epoch; other children are not
    /// affected. Returns false if the token has ended or already has an end.
    pub async fn end_token(
        &mut self,
        token: &Token,
        at: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let ended = self
            .execute(
                "ending a token",
                "UPDATE tokens SET revoked_at = $2 WHERE jti = $1 AND revoked_at IS NULL AND expires_at > $3",
                vec![token.jti.to_string().into(), at.as_millisecond().into(), now.as_millisecond().into()],
            )
            .await?;
        if ended == 0 {
            return Ok(false);
        }
        self.execute(
            "ending a token's renewals",
            "WITH RECURSIVE line (jti) AS ( \
                 SELECT jti FROM tokens WHERE jti = $1 \
                 UNION SELECT tokens.jti FROM tokens JOIN line ON tokens.parent = line.jti \
                     WHERE tokens.kind = $2 AND tokens.name = $3) \
             UPDATE tokens SET revoked_at = $4 \
             WHERE (revoked_at IS NULL OR revoked_at > $4) AND jti IN (SELECT jti FROM line)",
            vec![
                token.jti.to_string().into(),
                token.kind.as_str().into(),
                token.name.as_str().into(),
                at.as_millisecond().into(),
            ],
        )
        .await?;
        self.move_revocation_epoch().await?;
        Ok(true)
    }

    /// Moves the children of a token and its renewals to another token.
    pub async fn adopt_tokens(&mut self, from: &Token, to: TokenId) -> Result<u64, StoreError> {
        self.execute(
            "reparenting tokens",
            "WITH RECURSIVE line (jti) AS ( \
                 SELECT jti FROM tokens WHERE jti = $1 \
                 UNION SELECT tokens.jti FROM tokens JOIN line ON tokens.parent = line.jti \
                     WHERE tokens.kind = $2 AND tokens.name = $3) \
             UPDATE tokens SET parent = $4 \
             WHERE parent IN (SELECT jti FROM line) AND jti NOT IN (SELECT jti FROM line)",
            vec![
                from.jti.to_string().into(),
                from.kind.as_str().into(),
                from.name.as_str().into(),
                to.to_string().into(),
            ],
        )
        .await
    }

    /// Deletes tokens that expired before `before`; returns their number. Remaining tokens become children of
    /// their nearest remaining ancestor, so that revoking it still includes them.
    pub async fn purge_tokens(&mut self, before: Timestamp) -> Result<u64, StoreError> {
        let before = before.as_millisecond();
        for _ in 0..GENERATIONS {
            let moved = self
                .execute(
                    "reparenting tokens",
                    "UPDATE tokens SET parent = (SELECT up.parent FROM tokens up WHERE up.jti = tokens.parent) \
                     WHERE expires_at >= $1 AND parent IN (SELECT jti FROM tokens WHERE expires_at < $1)",
                    vec![before.into()],
                )
                .await?;
            if moved == 0 {
                break;
            }
        }
        self.execute(
            "purging tokens",
            "DELETE FROM tokens WHERE expires_at < $1 AND NOT EXISTS \
                 (SELECT 1 FROM tokens child WHERE child.parent = tokens.jti AND child.expires_at >= $1)",
            vec![before.into()],
        )
        .await
    }

    /// Records when tokens were used; ignores times before the stored one.
    pub async fn touch_tokens(&mut self, used: &[(TokenId, Timestamp)]) -> Result<(), StoreError> {
        for (jti, at) in used {
            self.execute(
                "recording when a token was used",
                "UPDATE tokens SET last_used_at = $2 WHERE jti = $1 AND (last_used_at IS NULL OR last_used_at < $2)",
                vec![jti.to_string().into(), at.as_millisecond().into()],
            )
            .await?;
        }
        Ok(())
    }

    /// Performs a write without any change.
    pub(crate) async fn touch(&mut self) -> Result<(), StoreError> {
        let sql = "UPDATE meta SET value = value WHERE key = 'revocation_epoch'";
        self.execute("testing whether the database is writable", sql, vec![]).await?;
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

    async fn move_revocation_epoch(&mut self) -> Result<(), StoreError> {
        self.execute(
            "advancing the revocation epoch",
            "UPDATE meta SET value = value + 1 WHERE key = 'revocation_epoch'",
            vec![],
        )
        .await?;
        Ok(())
    }

    /// Revoked tokens that have not expired, and when their revocation takes effect.
    pub async fn revoked_tokens(&mut self, now: Timestamp) -> Result<Vec<(TokenId, Timestamp)>, StoreError> {
        let rows = self
            .rows(
                "reading revoked tokens",
                "SELECT jti, revoked_at FROM tokens WHERE revoked_at IS NOT NULL AND expires_at > $1",
                vec![now.as_millisecond().into()],
            )
            .await?;
        rows.iter()
            .map(|row| Ok((row.text(0)?.parse().map_err(damaged)?, from_millis(row.int(1)?))))
            .collect()
    }
}
