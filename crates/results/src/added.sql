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

-- The number behind a caveat of a pass, and the limit that it passed.
CREATE TABLE IF NOT EXISTS evidence (
    caveat_id INTEGER PRIMARY KEY REFERENCES caveats (id),
    found     REAL NOT NULL,
    bound     REAL NOT NULL,                   -- the limit, which is a word of SQL
    unit      TEXT NOT NULL,                   -- of both: %, ns, B, or what is counted
    source    TEXT NOT NULL
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

-- Response times of a host in hosts, by its name.
CREATE TABLE IF NOT EXISTS host_response_times (
    id                   INTEGER PRIMARY KEY,
    pass_id              INTEGER NOT NULL REFERENCES passes (id),
    host                 TEXT NOT NULL,
    response_time_p50_ns INTEGER NOT NULL,     -- derived from response_time, for queries
    response_time_p99_ns INTEGER NOT NULL,
    response_time_max_ns INTEGER NOT NULL,
    response_time        BLOB NOT NULL         -- buckets, format version in its first byte
) STRICT;

CREATE INDEX IF NOT EXISTS host_response_times_of_pass ON host_response_times (pass_id);

-- How each interval of a soak looked; its ops and bytes stand in samples, too.
CREATE TABLE IF NOT EXISTS pulses (
    id          INTEGER PRIMARY KEY,
    pass_id     INTEGER NOT NULL REFERENCES passes (id),
    at_ns       INTEGER NOT NULL,              -- end of the interval
    ops         INTEGER NOT NULL,
    errors      INTEGER NOT NULL,
    p50_ns      INTEGER NOT NULL,              -- due to done
    p99_ns      INTEGER NOT NULL,
    max_ns      INTEGER NOT NULL,
    uncommitted INTEGER NOT NULL,              -- blocks that were acknowledged and not safe yet
    rss_bytes   INTEGER NOT NULL               -- resident memory of this program
) STRICT;

CREATE INDEX IF NOT EXISTS pulses_of_pass ON pulses (pass_id);

-- A further quantile of the intervals in pulses, each by its end.
CREATE TABLE IF NOT EXISTS interval_p95s (
    id      INTEGER PRIMARY KEY,
    pass_id INTEGER NOT NULL REFERENCES passes (id),
    at_ns   INTEGER NOT NULL,                  -- end of the interval
    p95_ns  INTEGER NOT NULL                   -- scheduled to done
) STRICT;

CREATE INDEX IF NOT EXISTS interval_p95s_of_pass ON interval_p95s (pass_id);

-- What was done to the hosts of a soak while a pass ran; instants from the start of the pass.
CREATE TABLE IF NOT EXISTS upsets (
    id         INTEGER PRIMARY KEY,
    pass_id    INTEGER NOT NULL REFERENCES passes (id),
    blow       TEXT NOT NULL,                  -- server-restart, server-stall, network-cut ...
    host       TEXT NOT NULL,                  -- empty for the server in this program
    planned_ns INTEGER NOT NULL,
    begun_ns   INTEGER NOT NULL,
    ended_ns   INTEGER,
    failed     TEXT                            -- why it could not be done, or undone
) STRICT;

CREATE INDEX IF NOT EXISTS upsets_of_pass ON upsets (pass_id);

-- Which campaign it is in whatever file it lies.
CREATE TABLE IF NOT EXISTS identities (
    campaign_id INTEGER PRIMARY KEY REFERENCES campaigns (id),
    uuid        TEXT NOT NULL UNIQUE
) STRICT;

-- What a campaign was made to find out, where that is more than its figures.
CREATE TABLE IF NOT EXISTS questions (
    campaign_id   INTEGER PRIMARY KEY REFERENCES campaigns (id),
    question      TEXT NOT NULL,               -- ladder, curve, ramp, soak
    question_json TEXT NOT NULL                -- what was asked, with its bounds
) STRICT;

-- What the contenders of a campaign were found to keep of what they had acknowledged.
CREATE TABLE IF NOT EXISTS durability (
    id               INTEGER PRIMARY KEY,
    campaign_id      INTEGER NOT NULL REFERENCES campaigns (id),
    contender        TEXT NOT NULL,            -- target, and what the plan sets of its system
    measured_unix_ms INTEGER NOT NULL,
    report_json      TEXT NOT NULL             -- events, tiers and what was lost
) STRICT;

CREATE INDEX IF NOT EXISTS durability_of_campaign ON durability (campaign_id);

-- What people wrote beside a campaign.
CREATE TABLE IF NOT EXISTS notes (
    id              INTEGER PRIMARY KEY,
    campaign_id     INTEGER NOT NULL REFERENCES campaigns (id),
    written_unix_ms INTEGER NOT NULL,
    text            TEXT NOT NULL
) STRICT;

-- Words by which people find campaigns again.
CREATE TABLE IF NOT EXISTS tags (
    campaign_id INTEGER NOT NULL REFERENCES campaigns (id),
    tag         TEXT NOT NULL,
    PRIMARY KEY (campaign_id, tag)
) STRICT, WITHOUT ROWID;

-- Campaigns that were removed: their numbers are not given again.
CREATE TABLE IF NOT EXISTS removed (
    id   INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL,
    name TEXT NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS notes_of_campaign ON notes (campaign_id);

-- For people: one line per campaign.
CREATE VIEW IF NOT EXISTS catalog AS
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

-- For people: one line per trial, pass and kind of op, with its service and response times.
CREATE VIEW IF NOT EXISTS times AS
SELECT c.id AS campaign_id, c.name AS campaign, r.run_index AS run, r.target_name AS target,
       r.workload, p.pass, t.trial_index AS trial, k.kind, k.issued, k.done, k.bytes,
       k.service_time_p50_ns, k.service_time_p99_ns, k.service_time_max_ns,
       k.response_time_p50_ns, k.response_time_p99_ns, k.response_time_max_ns
FROM campaigns c
JOIN runs r ON r.campaign_id = c.id
JOIN trials t ON t.run_id = r.id
JOIN passes p ON p.trial_id = t.id
JOIN kinds k ON k.pass_id = p.id;

-- For people: one line per caveat of a trial, with its evidence.
CREATE VIEW IF NOT EXISTS doubts AS
SELECT c.id AS campaign_id, c.name AS campaign, r.run_index AS run, r.target_name AS target,
       r.workload, p.pass, t.trial_index AS trial, v.code, v.severity, v.evidence
FROM campaigns c
JOIN runs r ON r.campaign_id = c.id
JOIN trials t ON t.run_id = r.id
JOIN passes p ON p.trial_id = t.id
JOIN caveats v ON v.pass_id = p.id;

-- For people: the settings that have several values within a campaign, run by run.
CREATE VIEW IF NOT EXISTS factors AS
SELECT r.campaign_id, r.run_index AS run, s.name, s.value
FROM runs r
JOIN settings s ON s.run_id = r.id
WHERE EXISTS (SELECT 1 FROM runs o JOIN settings x ON x.run_id = o.id AND x.name = s.name
              WHERE o.campaign_id = r.campaign_id AND x.value <> s.value);

-- For people: how far each counter of each watched host rose while a pass ran.
CREATE VIEW IF NOT EXISTS watched AS
SELECT c.id AS campaign_id, c.name AS campaign, r.run_index AS run, r.target_name AS target,
       p.pass, t.trial_index AS trial, h.host, m.name AS metric, m.risen, p.window_ns
FROM campaigns c
JOIN runs r ON r.campaign_id = c.id
JOIN trials t ON t.run_id = r.id
JOIN passes p ON p.trial_id = t.id
JOIN telemetry h ON h.pass_id = p.id
JOIN metrics m ON m.telemetry_id = h.id
WHERE m.kind = 'counter';
