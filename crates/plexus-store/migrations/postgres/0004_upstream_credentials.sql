-- What the hub was given to use MCP servers with. Sealed with a key of the data folder: the database alone gives away
-- nothing but the names of servers.

CREATE TABLE upstream_credentials (
    server     TEXT COLLATE "C" NOT NULL,
    field      TEXT COLLATE "C" NOT NULL,
    sealed     TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (server, field)
);
