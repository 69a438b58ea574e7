-- What a client of a session can be asked and wants to be told, so that both outlive a restart of the hub; and calls that
-- go on after their caller was given a handle to them.

ALTER TABLE mcp_sessions ADD COLUMN capabilities TEXT NOT NULL DEFAULT '{}';
ALTER TABLE mcp_sessions ADD COLUMN log_level TEXT;

CREATE TABLE mcp_tasks (
    id             TEXT PRIMARY KEY,
    owner          TEXT NOT NULL,
    -- The hub that runs it.
    hub            TEXT NOT NULL,
    call_id        TEXT NOT NULL,
    tool           TEXT NOT NULL,
    -- working, or how it ended: completed, failed, cancelled.
    status         TEXT NOT NULL,
    status_message TEXT,
    -- The members of the result, or the error.
    payload        TEXT,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    expires_at     BIGINT NOT NULL
);
CREATE INDEX mcp_tasks_owner ON mcp_tasks (owner, updated_at);
CREATE INDEX mcp_tasks_expires_at ON mcp_tasks (expires_at);
