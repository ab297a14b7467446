"""A results file with known values, created from the schema of the program itself."""

import sqlite3
from pathlib import Path

import pytest

SCHEMA = Path(__file__).parents[2] / "crates" / "results" / "src"
MIB = 1 << 20


def varint(value):
    """Encodes a number as in histograms: 7 bits per byte, lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def histogram(counts, low, high, total):
    """Writes a histogram of some buckets."""
    out, last = b"\x01" + varint(low) + varint(high) + varint(total), 0
    for bucket, count in counts:
        out += varint(bucket - last) + varint(count)
        last = bucket
    return out


def add(db, table, **values):
    """Adds a row; required columns without a value are 0 or empty."""
    for _, name, kind, needed, default, key in db.execute(f"PRAGMA table_info({table})"):
        if needed and not key and default is None and name not in values:
            values[name] = {"TEXT": "", "BLOB": b""}.get(kind, 0)
    names = ", ".join(values)
    marks = ", ".join("?" * len(values))
    return db.execute(
        f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values())
    ).lastrowid


@pytest.fixture
def path(tmp_path):
    """A file with two campaigns: one with one run, and one with two runs of two trials each."""
    file = tmp_path / "dfs bench?.db"
    db = sqlite3.connect(file)
    for name in ("schema.sql", "added.sql"):
        db.executescript((SCHEMA / name).read_text())
    for name, sizes in (("first", ["64 KiB"]), ("second", ["64 KiB", "1 MiB"])):
        campaign = add(
            db, "campaigns", name=name, state="complete", seed="18446744073709551615",
            started_unix_ms=1_700_000_000_000,
        )
        for index, size in enumerate(sizes):
            run = add(
                db, "runs", campaign_id=campaign, run_index=index, target_name="nfs",
                backend="nfs", workload="stream", spec_json="{}",
            )
            add(db, "settings", run_id=run, name="io_size", value=size)
            add(db, "settings", run_id=run, name="workers", value=str(1 + index))
            add(db, "settings", run_id=run, name="nfsvers", value="4.1")
            for trial_index in range(2):
                trial = add(
                    db, "trials", run_id=run, trial_index=trial_index, state="done",
                    position=2 * index + trial_index,
                )
                done = add(
                    db, "passes", trial_id=trial, window_ns=1_000_000_000, ops=10,
                    bytes=10 * MIB * (1 + index), **{"pass": "read"},
                )
                times = histogram([(10, 9), (200, 1)], 10, 300, 200)
                add(
                    db, "kinds", pass_id=done, kind="read", issued=10, done=10,
                    service_time=times, response_time=histogram([], 0, 0, 0),
                )
                for at_ns, ops in ((500_000_000, 4), (1_000_000_000, 6)):
                    add(db, "samples", pass_id=done, at_ns=at_ns, ops=ops, bytes=ops * MIB)
                if trial_index == 1:
                    add(db, "caveats", pass_id=done, code="cached", severity="degraded")
    db.commit()
    db.close()
    return file
