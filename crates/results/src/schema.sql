-- Results of dfsbench, schema version 1. Times are nanoseconds and sizes bytes unless the name
-- says otherwise. Every trial is kept whole; medians, intervals and verdicts are computed from it.
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

-- The settings of a run as people tell runs apart by them; derived from spec_json.
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

-- Of the host where trial_id is null, else of the target in that trial.
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
    evidence TEXT NOT NULL
) STRICT;

CREATE TABLE truths (
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
CREATE INDEX truths_of_pass ON truths (pass_id);

-- For people: one line per trial and pass, with the rate and the doubts beside it.
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

-- For people: trials that gave no result, with their reason.
CREATE VIEW failures AS
SELECT c.id AS campaign_id, c.name AS campaign, r.run_index AS run, r.target_name AS target,
       r.backend, r.workload, t.trial_index AS trial, t.state, t.reason
FROM campaigns c
JOIN runs r ON r.campaign_id = c.id
JOIN trials t ON t.run_id = r.id
WHERE t.state <> 'done';
