-- The folder in which the client of a session was started, where it is known.

ALTER TABLE sessions ADD COLUMN folder TEXT;
