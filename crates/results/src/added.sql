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

-- What hosts did while a pass ran: one row for each host that was watched.
CREATE TABLE IF NOT EXISTS telemetry (
    id         INTEGER PRIMARY KEY,
    pass_id    INTEGER NOT NULL REFERENCES passes (id),
    host       TEXT NOT NULL,
    times_json TEXT NOT NULL                   -- nanoseconds since the first reading
) STRICT;

-- Its metrics; counters that did not move are left out.
CREATE TABLE IF NOT EXISTS metrics (
    id           INTEGER PRIMARY KEY,
    telemetry_id INTEGER NOT NULL REFERENCES telemetry (id),
    name         TEXT NOT NULL,                -- unit last: cpu.user_ns, disk.vda.read_bytes
    kind         TEXT NOT NULL,                -- counter, gauge
    risen        INTEGER,                      -- derived, for queries: last less first; counters
    values_json  TEXT NOT NULL                 -- one for each time
) STRICT;

CREATE INDEX IF NOT EXISTS telemetry_of_pass ON telemetry (pass_id);
CREATE INDEX IF NOT EXISTS metrics_of_telemetry ON metrics (telemetry_id);

-- What each host did of a pass, where several made it together.
CREATE TABLE IF NOT EXISTS hosts (
    id                  INTEGER PRIMARY KEY,
    pass_id             INTEGER NOT NULL REFERENCES passes (id),
    host                TEXT NOT NULL,
    workers             INTEGER NOT NULL,
    ops                 INTEGER NOT NULL,
    bytes               INTEGER NOT NULL,
    failed              INTEGER NOT NULL,
    common_ops          INTEGER NOT NULL,      -- while all workers of all hosts were busy
    common_bytes        INTEGER NOT NULL,
    start_ns            INTEGER NOT NULL,      -- from the instant at which all were to start
    end_ns              INTEGER NOT NULL,
    error_ns            INTEGER NOT NULL,      -- how wrong both may be
    cpu_ns              INTEGER NOT NULL,
    service_time_p50_ns INTEGER NOT NULL,      -- derived from service_time, for queries
    service_time_p99_ns INTEGER NOT NULL,
    service_time_max_ns INTEGER NOT NULL,
    service_time        BLOB NOT NULL          -- buckets, format version in its first byte
) STRICT;

CREATE INDEX IF NOT EXISTS hosts_of_pass ON hosts (pass_id);
