"""Results files: tables, campaigns, figures, histograms, and errors."""

import sqlite3

import pytest

import dfsbench
from dfsbench import Histogram, ResultsError

MIB = 1 << 20


def test_figures_have_rates_and_the_settings_that_vary(path):
    results = dfsbench.open(path)
    figures = results.figures(campaign="last")
    assert len(figures) == 4
    assert figures.column("rate_bytes_per_s") == [10 * MIB, 10 * MIB, 20 * MIB, 20 * MIB]
    assert figures.column("io_size") == ["64 KiB", "64 KiB", "1 MiB", "1 MiB"]
    assert figures.column("workers") == [1, 1, 2, 2]
    assert figures.column("caveats") == [None, "cached", None, "cached"]
    assert "nfsvers" not in figures.columns
    assert len(results.figures()) == 6 and len(results.figures(1)) == 2
    # A single run varies no setting.
    assert "workers" not in results.figures(1).columns


def test_rows_are_those_of_a_campaign(path):
    results = dfsbench.open(str(path))
    for table, rows in [
        ("campaigns", 1), ("runs", 2), ("trials", 4), ("passes", 4), ("kinds", 4), ("caveats", 2),
        ("settings", 6), ("samples", 8),
    ]:
        assert len(results.table(table, 2)) == rows, table
    assert results.campaigns().column("seed")[0] == "18446744073709551615"
    with pytest.raises(ResultsError, match="don't name their campaign"):
        results.table("evidence", 2)


def test_samples_have_the_rate_of_their_interval(path):
    samples = dfsbench.open(path).samples(2)
    first = samples.rows()[:2]
    assert [row["ops_per_s"] for row in first] == [8.0, 12.0]
    assert first[0]["bytes_per_s"] == 8.0 * MIB and first[0]["pass"] == "read"


def test_histograms_have_the_quantiles_of_the_program(path):
    times = dfsbench.open(path).histograms(campaign=2)
    merged = Histogram.merged(times.values())
    assert (merged.count, merged.min_ns, merged.max_ns, merged.mean_ns) == (40, 10, 300, 20.0)
    # Bucket 200 has the four values from 288 on and is represented by its middle.
    assert merged.buckets() == [(10, 36), (288, 4)]
    assert merged.quantile(0.5) == 10 and merged.quantile(0.99) == 290 and merged.quantile(0) == 10
    shares = merged.cumulative()
    assert shares == ([10, 290], [0.9, 1.0])
    empty = dfsbench.open(path).histograms(time="response")
    assert {it.count for it in empty.values()} == {0}
    assert Histogram.merged([]).quantile(0.5) == 0


def test_bytes_that_are_no_histogram_are_refused():
    for data in [b"", b"\x02", b"\x01", b"\x01\x80", b"\x01\x01\x01\x01\x01", b"\x01\x00\x00\x00\x01\x00",
                 b"\x01" + b"\xff" * 30, b"\x01\x00\x00\x00\x01\x01\x00\x01"]:
        with pytest.raises(ValueError):
            Histogram.from_bytes(data)


def test_what_is_no_result_is_one_clear_error(path, tmp_path):
    results = dfsbench.open(path)
    for call, words in [
        (lambda: dfsbench.open(tmp_path / "none.db"), "none.db: No such file"),
        (lambda: dfsbench.open(tmp_path), "not a directory of `dfsbench export`"),
        (lambda: dfsbench.open(__file__), "not a results file"),
        (lambda: results.table("figurs"), "there is no table 'figurs'; there are"),
        (lambda: results.figures(7), "there is no campaign 7; there are 1, 2, and 'last'"),
        (lambda: results.histograms(time="think"), "there is no 'think' time"),
    ]:
        with pytest.raises(ResultsError, match=words):
            call()
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE t (x)")
    with pytest.raises(ResultsError, match="not of dfsbench"):
        dfsbench.open(other)
    with pytest.raises(KeyError, match="has no column 'rate'"):
        results.figures().column("rate")


def test_a_file_is_never_written(path):
    before = path.read_bytes()
    results = dfsbench.open(path)
    results.figures()
    with pytest.raises(sqlite3.OperationalError):
        results._connection.execute("DELETE FROM runs")
    assert path.read_bytes() == before
