-- Sessions, their events, the audit chain, tokens, and the first tools' state.
-- Ids are UUID text, times are milliseconds since 1970 (UTC), JSON is text. What is listed in the order of its text is
-- compared byte by byte, as SQLite does, whatever the collation of the database.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO meta (key, value) VALUES ('revocation_epoch', 0);

CREATE TABLE tokens (
    jti        TEXT COLLATE "C" PRIMARY KEY,
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    profile    TEXT,
    parent     TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX tokens_revoked ON tokens (revoked_at) WHERE revoked_at IS NOT NULL;

CREATE TABLE sessions (
    id         TEXT COLLATE "C" PRIMARY KEY,
    owner      TEXT NOT NULL,
    key        TEXT NOT NULL,
    client     TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    last_seq   BIGINT NOT NULL,
    last_todo  BIGINT NOT NULL DEFAULT 0,
    UNIQUE (owner, key)
);

CREATE TABLE session_events (
    session_id  TEXT COLLATE "C" NOT NULL,
    seq         BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    kind        TEXT NOT NULL,
    actor       TEXT NOT NULL,
    payload     TEXT NOT NULL,
    external_id TEXT,
    PRIMARY KEY (session_id, seq)
);
CREATE UNIQUE INDEX session_events_external ON session_events (session_id, external_id)
    WHERE external_id IS NOT NULL;

CREATE TABLE audit (
    hub        TEXT NOT NULL,
    n          BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    phase      TEXT NOT NULL,
    call_id    TEXT,
    token_id   TEXT,
    actor      TEXT NOT NULL,
    session_id TEXT,
    tool       TEXT NOT NULL,
    via        TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    detail     TEXT NOT NULL,
    prev_hash  TEXT NOT NULL,
    hash       TEXT NOT NULL,
    PRIMARY KEY (hub, n)
);
CREATE INDEX audit_call ON audit (call_id, phase);

CREATE TABLE idempotency (
    subject      TEXT NOT NULL,
    key          TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    call_id      TEXT NOT NULL,
    session_id   TEXT NOT NULL,
    result       TEXT NOT NULL,
    at           BIGINT NOT NULL,
    PRIMARY KEY (subject, key)
);
CREATE INDEX idempotency_at ON idempotency (at);

CREATE TABLE mcp_sessions (
    id          TEXT COLLATE "C" PRIMARY KEY,
    owner       TEXT NOT NULL,
    version     TEXT NOT NULL,
    client      TEXT NOT NULL,
    created_at  BIGINT NOT NULL
);
CREATE INDEX mcp_sessions_owner ON mcp_sessions (owner, created_at);

CREATE TABLE todos (
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    id         BIGINT NOT NULL,
    text       TEXT NOT NULL,
    status     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, id)
);

CREATE TABLE scratchpad (
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    section    TEXT COLLATE "C" NOT NULL,
    content    TEXT NOT NULL,
    bytes      BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, section)
);
