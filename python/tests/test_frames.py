"""Frames of pandas and polars, exports, and reports."""

import csv
import json
import os
import subprocess

import pytest

import dfsbench
from dfsbench import ResultsError


@pytest.fixture
def program():
    """The program, if the caller names one, as `cargo xtask python` does."""
    path = os.environ.get("DFSBENCH_PROGRAM")
    if not path:
        pytest.skip("DFSBENCH_PROGRAM does not name the program")
    return path


def run(program, folder, *args):
    """Runs the program in a folder, without the user's defaults."""
    env = {**os.environ, "XDG_CONFIG_HOME": str(folder / "none")}
    env.pop("DFSBENCH_RESULTS", None)
    done = subprocess.run([program, *args], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_frames_have_the_columns_and_types_of_the_table(path):
    pandas = pytest.importorskip("pandas")
    figures = dfsbench.open(path).figures("last")
    frame = figures.pandas()
    assert list(frame.columns) == figures.columns and len(frame) == 4
    assert frame["rate_ops_per_s"].dtype.kind == "f"
    assert frame.groupby("io_size")["rate_bytes_per_s"].median()["1 MiB"] == 20 << 20
    assert pandas.isna(frame["caveats"][0])


def test_frames_of_polars_have_nulls(path):
    polars = pytest.importorskip("polars")
    frame = dfsbench.open(path).figures("last").polars()
    assert frame.shape[0] == 4 and frame["caveats"].null_count() == 2
    assert frame.filter(polars.col("io_size") == "1 MiB")["workers"].to_list() == [2, 2]


def test_an_export_of_csv_or_json_reads_like_the_file(path, tmp_path):
    results = dfsbench.open(path)
    for form in ("csv", "json"):
        folder = tmp_path / form
        folder.mkdir()
        for name in ("campaigns", "runs", "settings", "figures", "passes", "trials"):
            table = results.table(name)
            with (folder / f"{name}.{form}").open("w", newline="") as file:
                if form == "json":
                    json.dump(table.rows(), file)
                else:
                    lines = csv.writer(file)
                    lines.writerow(table.columns)
                    lines.writerows(["" if it is None else it for it in row.values()] for row in table)
        exported = dfsbench.open(folder)
        figures = exported.figures("last")
        for column in ("rate_bytes_per_s", "io_size", "workers", "caveats"):
            assert figures.column(column) == results.figures("last").column(column), (form, column)
        with pytest.raises(ResultsError, match="has no histograms"):
            exported.histograms()


def test_results_of_the_program_read_alike_from_all_its_files(program, tmp_path):
    run(program, tmp_path, "run", "null", "--workload", "mixed", "--duration", "50ms", "--trials", "2",
        "--io-size", "4KiB,64KiB", "--quiet")
    results = dfsbench.open(tmp_path / "dfsbench.db")
    figures = results.figures("last")
    assert len(figures) == 4 and sorted(set(figures.column("io_size"))) == ["4 KiB", "64 KiB"]
    assert all(it.count > 0 for it in results.histograms("last").values())
    for form in ("csv", "json", "parquet"):
        if form == "parquet":
            pytest.importorskip("pyarrow")
        run(program, tmp_path, "export", form, "--format", form)
        exported = dfsbench.open(tmp_path / form).figures("last")
        assert exported.column("ops") == figures.column("ops"), form
        assert exported.column("io_size") == figures.column("io_size"), form
    run(program, tmp_path, "report", "--format", "json", "--output", "report.json")
    report = dfsbench.read_report(tmp_path / "report.json")
    table = report.figures()
    assert report.campaign["name"] == "run" and len(table) == 2
    assert all(rate > 0 for rate in table.column("rate_ops_per_s.median"))
    assert any(name.startswith("set.io_size") for name in table.columns)


def test_a_report_that_is_none_is_one_clear_error(tmp_path):
    file = tmp_path / "report.json"
    for text, words in [
        ("{", "not JSON"), ("[]", "not a report"), ('{"figures": [], "schema": 2}', "schema 2"),
    ]:
        file.write_text(text)
        with pytest.raises(ResultsError, match=words):
            dfsbench.read_report(file)
    with pytest.raises(ResultsError, match="No such file"):
        dfsbench.read_report(tmp_path / "none.json")
