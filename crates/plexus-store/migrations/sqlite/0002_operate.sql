-- One order for the events of all sessions, how far a session's log was pruned, and when a token was used last and
-- until when it renews itself.

ALTER TABLE session_events ADD COLUMN pos BIGINT NOT NULL DEFAULT 0;
-- Rows were only ever appended, so their order in the table is the order in which they came.
UPDATE session_events SET pos = rowid;
CREATE UNIQUE INDEX session_events_pos ON session_events (pos);
INSERT INTO meta (key, value) SELECT 'event_pos', COALESCE(MAX(pos), 0) FROM session_events;

-- Events up to this number were removed by a retention policy.
ALTER TABLE sessions ADD COLUMN pruned_seq BIGINT NOT NULL DEFAULT 0;

ALTER TABLE tokens ADD COLUMN last_used_at BIGINT;
ALTER TABLE tokens ADD COLUMN renew_until BIGINT;

-- The hub's remarks about its own chain are looked for at every start.
CREATE INDEX audit_notices ON audit (hub, n) WHERE phase = 'notice';
