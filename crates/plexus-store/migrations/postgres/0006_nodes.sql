-- Machines that dial in and run tools: which there are, who may become one, and the calls that were given to them.

CREATE TABLE nodes (
    id           TEXT COLLATE "C" PRIMARY KEY,
    name         TEXT COLLATE "C" NOT NULL UNIQUE,
    -- Those that were given to it here; JSON.
    labels       TEXT NOT NULL,
    -- How it came in: code, key, certificate, or local for the machine of the hub itself.
    enrolled_by  TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    -- 1: it is given no new calls.
    draining     BIGINT NOT NULL DEFAULT 0,
    -- Counts its links; an older one is cut off.
    epoch        BIGINT NOT NULL DEFAULT 0,
    -- What it said of itself last; JSON.
    about        TEXT,
    last_seen_at BIGINT
);

CREATE TABLE node_invites (
    -- Of the code, which is not kept.
    code_hash  TEXT COLLATE "C" PRIMARY KEY,
    -- What whoever comes with the code will be.
    node_id    TEXT NOT NULL,
    name       TEXT COLLATE "C" NOT NULL UNIQUE,
    labels     TEXT NOT NULL,
    -- 1: for a node that is there already.
    rejoin     BIGINT NOT NULL DEFAULT 0,
    token_id   TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- Names and ids for which a certificate alone lets nobody in: those of nodes that came with one and were removed, renamed,
-- or joined again with a code.
CREATE TABLE node_certificate_bars (
    name      TEXT COLLATE "C" PRIMARY KEY,
    node_id   TEXT NOT NULL,
    barred_at BIGINT NOT NULL
);

-- On the hub: calls of which a node may have done something, and those that wait for it to come.
CREATE TABLE node_calls (
    call_id         TEXT COLLATE "C" PRIMARY KEY,
    node_id         TEXT NOT NULL,
    -- The store of the node that it was sent to; none while it waits.
    store_id        TEXT,
    -- queued or sent.
    state           TEXT NOT NULL,
    subject         TEXT NOT NULL,
    profile         TEXT,
    token_id        TEXT NOT NULL,
    session_id      TEXT NOT NULL,
    tool            TEXT NOT NULL,
    arguments       TEXT NOT NULL,
    idempotency_key TEXT,
    request_hash    TEXT,
    via             TEXT NOT NULL,
    deadline_at     BIGINT NOT NULL,
    queued_until    BIGINT,
    created_at      BIGINT NOT NULL
);
CREATE INDEX node_calls_node ON node_calls (node_id);

-- On a node: calls that it has accepted and whose end the hub has not confirmed.
CREATE TABLE held_calls (
    call_id     TEXT COLLATE "C" PRIMARY KEY,
    tool        TEXT NOT NULL,
    subject     TEXT NOT NULL,
    -- running, finished or interrupted.
    state       TEXT NOT NULL,
    -- None while it runs.
    result      TEXT,
    accepted_at BIGINT NOT NULL
);

-- Where the calls of a token go that name no machine.
ALTER TABLE tokens ADD COLUMN node TEXT;
