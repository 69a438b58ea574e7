-- What models may read of the tools of MCP servers behind the hub: each definition as it was approved, with its hash.

CREATE TABLE upstream_pins (
    server      TEXT COLLATE "C" NOT NULL,
    -- The server's own name of the tool; what the server says of itself as a whole has a name of ours.
    tool        TEXT COLLATE "C" NOT NULL,
    hash        TEXT NOT NULL,
    definition  TEXT NOT NULL,
    -- approved, or held: it was there from the beginning and is not trusted.
    state       TEXT NOT NULL,
    decided_by  TEXT NOT NULL,
    decided_at  BIGINT NOT NULL,
    PRIMARY KEY (server, tool)
);
