-- Results of dfsbench, schema version 1. Times are nanoseconds and sizes bytes unless the name says
-- otherwise. Every trial is stored completely; medians, intervals and verdicts are computed from
-- it.
CREATE TABLE campaigns (
    id                          INTEGER PRIMARY KEY,
    name                        TEXT NOT NULL,
    started_unix_ms             INTEGER NOT NULL,
    tool_version                TEXT NOT NULL,
    command                     TEXT NOT NULL,
    plan_toml                   TEXT NOT NULL,
    seed                        TEXT NOT NULL, -- decimal: it may exceed a signed 64-bit integer
    state                       TEXT NOT NULL
        CHECK (state IN ('running', 'complete', 'interrupted')),
    ceiling_ops_per_s           INTEGER,       -- null backend, one worker
    ceiling_service_time_p50_ns INTEGER
) STRICT;

CREATE TABLE runs (
    id          INTEGER PRIMARY KEY,
    campaign_id INTEGER NOT NULL REFERENCES campaigns (id),
    run_index   INTEGER NOT NULL,              -- position in the matrix, from 0
    target_name TEXT NOT NULL,
    target      TEXT NOT NULL,
    backend     TEXT NOT NULL,
    workload    TEXT NOT NULL,
    spec_json   TEXT NOT NULL,                 -- every setting, the source of truth
    UNIQUE (campaign_id, run_index)
) STRICT;

-- Settings of a run as printed in tables; derived from spec_json.
CREATE TABLE settings (
    run_id INTEGER NOT NULL REFERENCES runs (id),
    name   TEXT NOT NULL,
    value  TEXT NOT NULL,
    PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE trials (
    id              INTEGER PRIMARY KEY,
    run_id          INTEGER NOT NULL REFERENCES runs (id),
    trial_index     INTEGER NOT NULL,          -- number within the run, from 0
    position        INTEGER NOT NULL,          -- position in the campaign's order, from 0
    started_unix_ms INTEGER NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('done', 'failed', 'interrupted')),
    reason          TEXT,                      -- of a failure
    UNIQUE (run_id, trial_index)
) STRICT;

-- Facts about a host if trial_id is null, otherwise about the target in that trial.
CREATE TABLE facts (
    id          INTEGER PRIMARY KEY,
    campaign_id INTEGER NOT NULL REFERENCES campaigns (id),
    trial_id    INTEGER REFERENCES trials (id),
    scope       TEXT NOT NULL,
    name        TEXT NOT NULL,
    value       TEXT NOT NULL,
    source      TEXT NOT NULL
) STRICT;

CREATE TABLE passes (
    id                 INTEGER PRIMARY KEY,
    trial_id           INTEGER NOT NULL REFERENCES trials (id),
    pass               TEXT NOT NULL,
    window_ns          INTEGER NOT NULL,       -- first start to last end
    common_window_ns   INTEGER NOT NULL,       -- last start to first end
    first_done_ops     INTEGER NOT NULL,
    first_done_bytes   INTEGER NOT NULL,
    first_done_ns      INTEGER NOT NULL,
    start_skew_ns      INTEGER NOT NULL,
    client_cpu_ns      INTEGER NOT NULL,
    server_cpu_ns      INTEGER,
    storage_read_bytes INTEGER,
    ops                INTEGER NOT NULL,       -- derived from kinds: all but sync
    bytes              INTEGER NOT NULL        -- derived from kinds
) STRICT;

CREATE TABLE kinds (
    id                   INTEGER PRIMARY KEY,
    pass_id              INTEGER NOT NULL REFERENCES passes (id),
    kind                 TEXT NOT NULL,
    issued               INTEGER NOT NULL,
    done                 INTEGER NOT NULL,
    bytes                INTEGER NOT NULL,
    service_time_p50_ns  INTEGER NOT NULL,     -- derived from the histogram, for queries
    service_time_p99_ns  INTEGER NOT NULL,
    service_time_max_ns  INTEGER NOT NULL,
    response_time_p50_ns INTEGER NOT NULL,
    response_time_p99_ns INTEGER NOT NULL,
    response_time_max_ns INTEGER NOT NULL,
    service_time         BLOB NOT NULL,        -- histogram, format version in its first byte
    response_time        BLOB NOT NULL
) STRICT;

CREATE TABLE op_errors (
    id      INTEGER PRIMARY KEY,
    kind_id INTEGER NOT NULL REFERENCES kinds (id),
    code    INTEGER NOT NULL,
    name    TEXT NOT NULL,
    count   INTEGER NOT NULL
) STRICT;

CREATE TABLE samples (
    id      INTEGER PRIMARY KEY,
    pass_id INTEGER NOT NULL REFERENCES passes (id),
    at_ns   INTEGER NOT NULL,                  -- end of the interval, from the start of the pass
    ops     INTEGER NOT NULL,
    bytes   INTEGER NOT NULL
) STRICT;

CREATE TABLE caveats (
    id       INTEGER PRIMARY KEY,
    pass_id  INTEGER NOT NULL REFERENCES passes (id),
    code     TEXT NOT NULL,
    severity TEXT NOT NULL,                    -- derived from code
    evidence TEXT NOT NULL,
    found    REAL,                             -- the number behind it; null if there is none
    bound    REAL,                             -- the limit that it passed
    unit     TEXT,                             -- of both: %, ns, B, or what is counted
    source   TEXT
) STRICT;

CREATE TABLE cross_checks (
    id       INTEGER PRIMARY KEY,
    pass_id  INTEGER NOT NULL REFERENCES passes (id),
    expected INTEGER NOT NULL,
    found    INTEGER NOT NULL,
    source   TEXT NOT NULL
) STRICT;

CREATE INDEX facts_of_campaign ON facts (campaign_id, trial_id);
CREATE INDEX passes_of_trial ON passes (trial_id);
CREATE INDEX kinds_of_pass ON kinds (pass_id);
CREATE INDEX op_errors_of_kind ON op_errors (kind_id);
CREATE INDEX samples_of_pass ON samples (pass_id);
CREATE INDEX caveats_of_pass ON caveats (pass_id);
CREATE INDEX cross_checks_of_pass ON cross_checks (pass_id);

-- Results of each emulated client, if the run has per_client.
CREATE TABLE clients (
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

-- Load offered to a pass, and the part of the file set that it touched, if there is any.
CREATE TABLE scopes (
    pass_id    INTEGER PRIMARY KEY REFERENCES passes (id),
    scope_json TEXT NOT NULL
) STRICT;

CREATE INDEX clients_of_pass ON clients (pass_id);

-- Host activity during a pass: one row for each watched host.
CREATE TABLE telemetry (
    id         INTEGER PRIMARY KEY,
    pass_id    INTEGER NOT NULL REFERENCES passes (id),
    host       TEXT NOT NULL,
    times_json TEXT NOT NULL                   -- nanoseconds since the first reading
) STRICT;

-- Metrics of a watched host; counters that did not change are omitted.
CREATE TABLE metrics (
    id           INTEGER PRIMARY KEY,
    telemetry_id INTEGER NOT NULL REFERENCES telemetry (id),
    name         TEXT NOT NULL,                -- unit last: cpu.user_ns, disk.vda.read_bytes
    kind         TEXT NOT NULL,                -- counter, gauge
    risen        INTEGER,                      -- derived, for queries: last less first; counters
    values_json  TEXT NOT NULL                 -- one for each time
) STRICT;

CREATE INDEX telemetry_of_pass ON telemetry (pass_id);
CREATE INDEX metrics_of_telemetry ON metrics (telemetry_id);

-- Each host's share of a pass that several hosts executed together.
CREATE TABLE hosts (
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
    response_time_p50_ns INTEGER NOT NULL,
    response_time_p99_ns INTEGER NOT NULL,
    response_time_max_ns INTEGER NOT NULL,
    service_time        BLOB NOT NULL,         -- buckets, format version in its first byte
    response_time       BLOB NOT NULL
) STRICT;

CREATE INDEX hosts_of_pass ON hosts (pass_id);

-- One interval of a soak; its ops and bytes are also in samples.
CREATE TABLE intervals (
    id          INTEGER PRIMARY KEY,
    pass_id     INTEGER NOT NULL REFERENCES passes (id),
    at_ns       INTEGER NOT NULL,              -- end of the interval
    ops         INTEGER NOT NULL,
    errors      INTEGER NOT NULL,
    p50_ns      INTEGER NOT NULL,              -- scheduled to done
    p95_ns      INTEGER NOT NULL,
    p99_ns      INTEGER NOT NULL,
    max_ns      INTEGER NOT NULL,
    uncommitted INTEGER NOT NULL,              -- blocks acknowledged but not yet committed
    rss_bytes   INTEGER NOT NULL               -- resident memory of this program
) STRICT;

CREATE INDEX intervals_of_pass ON intervals (pass_id);

-- Times of the ops that completed in an interval of a pass, from scheduled to done. In a long pass,
-- intervals are longer than those of samples.
CREATE TABLE interval_times (
    id      INTEGER PRIMARY KEY,
    pass_id INTEGER NOT NULL REFERENCES passes (id),
    at_ns   INTEGER NOT NULL,                  -- end of the interval, from the start of the pass
    ops     INTEGER NOT NULL,                  -- derived from times, for queries; all but sync
    p50_ns  INTEGER NOT NULL,
    p99_ns  INTEGER NOT NULL,
    max_ns  INTEGER NOT NULL,
    times   BLOB NOT NULL                      -- coarse histogram, format version in its first byte
) STRICT;

CREATE INDEX interval_times_of_pass ON interval_times (pass_id);

-- Disturbances of hosts during a pass of a soak; times are relative to the start of the pass.
CREATE TABLE fault_events (
    id         INTEGER PRIMARY KEY,
    pass_id    INTEGER NOT NULL REFERENCES passes (id),
    fault      TEXT NOT NULL,                  -- server-restart, server-stall, network-cut ...
    host       TEXT NOT NULL,                  -- empty for the server in this program
    planned_ns INTEGER NOT NULL,
    begun_ns   INTEGER NOT NULL,
    ended_ns   INTEGER,
    failed     TEXT                            -- why it could not be done, or undone
) STRICT;

CREATE INDEX fault_events_of_pass ON fault_events (pass_id);

-- Identifies a campaign, no matter which file it is in.
CREATE TABLE identities (
    campaign_id INTEGER PRIMARY KEY REFERENCES campaigns (id),
    uuid        TEXT NOT NULL UNIQUE
) STRICT;

-- The question that a campaign answers, if it is more than its results.
CREATE TABLE questions (
    campaign_id   INTEGER PRIMARY KEY REFERENCES campaigns (id),
    question      TEXT NOT NULL,               -- ladder, curve, ramp, soak
    question_json TEXT NOT NULL                -- what was asked, with its bounds
) STRICT;

-- Acknowledged data that the contenders of a campaign were found to keep.
CREATE TABLE durability (
    id               INTEGER PRIMARY KEY,
    campaign_id      INTEGER NOT NULL REFERENCES campaigns (id),
    contender        TEXT NOT NULL,            -- target, and what the plan sets of its system
    measured_unix_ms INTEGER NOT NULL,
    report_json      TEXT NOT NULL             -- events, tiers and what was lost
) STRICT;

CREATE INDEX durability_of_campaign ON durability (campaign_id);

-- Notes that people wrote about a campaign.
CREATE TABLE notes (
    id              INTEGER PRIMARY KEY,
    campaign_id     INTEGER NOT NULL REFERENCES campaigns (id),
    written_unix_ms INTEGER NOT NULL,
    text            TEXT NOT NULL
) STRICT;

-- Words by which people find campaigns.
CREATE TABLE tags (
    campaign_id INTEGER NOT NULL REFERENCES campaigns (id),
    tag         TEXT NOT NULL,
    PRIMARY KEY (campaign_id, tag)
) STRICT, WITHOUT ROWID;

-- Removed campaigns, so that their numbers are not reused.
CREATE TABLE removed (
    id   INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL,
    name TEXT NOT NULL
) STRICT;

CREATE INDEX notes_of_campaign ON notes (campaign_id);

-- For people: one row per trial and pass, with its rate and caveats.
CREATE VIEW figures AS
SELECT c.id AS campaign_id, c.name AS campaign, r.run_index AS run, r.target_name AS target,
       r.backend, r.workload, p.pass, t.trial_index AS trial, t.state,
       CASE WHEN p.window_ns > 0 THEN p.bytes * 1e9 / p.window_ns END AS rate_bytes_per_s,
       CASE WHEN p.window_ns > 0 THEN p.ops * 1e9 / p.window_ns END AS rate_ops_per_s,
       p.window_ns, p.ops, p.bytes,
       (SELECT group_concat(DISTINCT v.code) FROM caveats v WHERE v.pass_id = p.id) AS caveats
FROM campaigns c
JOIN runs r ON r.campaign_id = c.id
JOIN trials t ON t.run_id = r.id
JOIN passes p ON p.trial_id = t.id;

-- For people: trials without a result, with the reason.
CREATE VIEW failures AS
SELECT c.id AS campaign_id, c.name AS campaign, r.run_index AS run, r.target_name AS target,
       r.backend, r.workload, t.trial_index AS trial, t.state, t.reason
FROM campaigns c
JOIN runs r ON r.campaign_id = c.id
JOIN trials t ON t.run_id = r.id
WHERE t.state <> 'done';

-- For people: one row per campaign.
CREATE VIEW catalog AS
SELECT c.id AS campaign_id, c.name AS campaign, i.uuid, c.state, c.tool_version,
       datetime(c.started_unix_ms / 1000, 'unixepoch') AS started_utc,
       (SELECT count(*) FROM runs r WHERE r.campaign_id = c.id) AS runs,
       (SELECT count(*) FROM runs r JOIN trials t ON t.run_id = r.id
        WHERE r.campaign_id = c.id) AS trials,
       (SELECT count(*) FROM runs r JOIN trials t ON t.run_id = r.id
        WHERE r.campaign_id = c.id AND t.state = 'failed') AS trials_failed,
       (SELECT group_concat(tag, ' ') FROM tags g WHERE g.campaign_id = c.id) AS tags
FROM campaigns c
LEFT JOIN identities i ON i.campaign_id = c.id;

-- For people: one row per trial, pass and kind of op, with its service and response times.
CREATE VIEW times AS
SELECT c.id AS campaign_id, c.name AS campaign, r.run_index AS run, r.target_name AS target,
       r.workload, p.pass, t.trial_index AS trial, k.kind, k.issued, k.done, k.bytes,
       k.service_time_p50_ns, k.service_time_p99_ns, k.service_time_max_ns,
       k.response_time_p50_ns, k.response_time_p99_ns, k.response_time_max_ns
FROM campaigns c
JOIN runs r ON r.campaign_id = c.id
JOIN trials t ON t.run_id = r.id
JOIN passes p ON p.trial_id = t.id
JOIN kinds k ON k.pass_id = p.id;

-- For people: one row per caveat of a trial, with its evidence.
CREATE VIEW trial_caveats AS
SELECT c.id AS campaign_id, c.name AS campaign, r.run_index AS run, r.target_name AS target,
       r.workload, p.pass, t.trial_index AS trial, v.code, v.severity, v.evidence
FROM campaigns c
JOIN runs r ON r.campaign_id = c.id
JOIN trials t ON t.run_id = r.id
JOIN passes p ON p.trial_id = t.id
JOIN caveats v ON v.pass_id = p.id;

-- For people: settings with several values within a campaign, by run.
CREATE VIEW factors AS
SELECT r.campaign_id, r.run_index AS run, s.name, s.value
FROM runs r
JOIN settings s ON s.run_id = r.id
WHERE EXISTS (SELECT 1 FROM runs o JOIN settings x ON x.run_id = o.id AND x.name = s.name
              WHERE o.campaign_id = r.campaign_id AND x.value <> s.value);

-- For people: the increase of each counter of each watched host during a pass.
CREATE VIEW watched AS
SELECT c.id AS campaign_id, c.name AS campaign, r.run_index AS run, r.target_name AS target,
       p.pass, t.trial_index AS trial, h.host, m.name AS metric, m.risen, p.window_ns
FROM campaigns c
JOIN runs r ON r.campaign_id = c.id
JOIN trials t ON t.run_id = r.id
JOIN passes p ON p.trial_id = t.id
JOIN telemetry h ON h.pass_id = p.id
JOIN metrics m ON m.telemetry_id = h.id
WHERE m.kind = 'counter';
