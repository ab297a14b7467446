-- Only where runs ask for it (per_client); files of earlier releases get this table when they are
-- added to.
CREATE TABLE IF NOT EXISTS clients (
    id                  INTEGER PRIMARY KEY,
    pass_id             INTEGER NOT NULL REFERENCES passes (id),
    client              INTEGER NOT NULL,      -- number within the run, from 0
    ops                 INTEGER NOT NULL,
    bytes               INTEGER NOT NULL,
    failed              INTEGER NOT NULL,
    service_time_p50_ns INTEGER NOT NULL,      -- derived from service_time, for queries
    service_time_p99_ns INTEGER NOT NULL,
    service_time_max_ns INTEGER NOT NULL,
    service_time        BLOB NOT NULL          -- buckets, format version in its first byte
) STRICT;

-- What a pass was offered and what of the file set it touched, where there is something to say.
CREATE TABLE IF NOT EXISTS scopes (
    pass_id    INTEGER PRIMARY KEY REFERENCES passes (id),
    scope_json TEXT NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS clients_of_pass ON clients (pass_id);
