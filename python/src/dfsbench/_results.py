"""Results files (SQLite), and the directories that `dfsbench export` creates from them."""

from __future__ import annotations

import csv
import json
import sqlite3
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union
from urllib.parse import quote

from ._histogram import Histogram
from ._table import Table

#: A campaign: its number, "last", or `None` for all.
Campaign = Union[int, str, None]

_DATABASE = b"SQLite format 3\0"
_FORMATS = ("parquet", "csv", "json")
#: The path from each table to its campaign: the next table, and the column that refers to it.
_PARENTS = {
    "trials": ("runs", "run_id"),
    "settings": ("runs", "run_id"),
    "passes": ("trials", "trial_id"),
    "kinds": ("passes", "pass_id"),
    "samples": ("passes", "pass_id"),
    "caveats": ("passes", "pass_id"),
    "telemetry": ("passes", "pass_id"),
    "hosts": ("passes", "pass_id"),
    "clients": ("passes", "pass_id"),
    "intervals": ("passes", "pass_id"),
    "metrics": ("telemetry", "telemetry_id"),
    "buckets": ("kinds", "kind_id"),
}


class ResultsError(Exception):
    """Results can't be read; the message contains the path, the reason, and what to do."""


class Results(ABC):
    """Results of campaigns, opened by `dfsbench.open`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def tables(self) -> List[str]:
        """Returns the names of all tables that can be read; docs/results.md explains them."""

    @abstractmethod
    def _read(self, name: str) -> Table:
        """Reads a whole table that exists."""

    def table(self, name: str, campaign: Campaign = None) -> Table:
        """Reads a table, of one campaign or of all.

        Raises `ResultsError` if there is no such table or campaign, or if the rows of the table
        don't belong to campaigns.
        """
        if name not in self.tables():
            raise ResultsError(
                f"{self.path}: there is no table {name!r}; there are {', '.join(self.tables())}"
            )
        table = self._read(name)
        return table if campaign is None else self._of_campaign(table, self._number(campaign))

    def campaigns(self) -> Table:
        """Returns a row for each campaign."""
        return self.table("campaigns")

    def figures(self, campaign: Campaign = None) -> Table:
        """Returns a row for each trial and pass: rates, caveats, and the settings that vary.

        Settings with several values among these rows are columns, named by their keys in plans.
        Rows are sorted by campaign, run and trial. They include trials that a report leaves out,
        so check `caveats`.
        """
        figures = self.table("figures", campaign)
        settings = self._settings_of_runs()
        keys = list(zip(figures.column("campaign_id"), figures.column("run")))
        names = sorted({name for key in keys for name in settings.get(key, {})})
        varying = []
        for name in names:
            if len({settings.get(key, {}).get(name) for key in keys}) > 1:
                # A setting may have the name of a column, such as `target`.
                varying.append(name)
        columns = figures.columns + [
            f"set_{name}" if name in figures.columns else name for name in varying
        ]
        rows = []
        for key, row in zip(keys, figures):
            found = settings.get(key, {})
            rows.append(list(row.values()) + [_number_or_text(found.get(it)) for it in varying])
        # The view has no order of its own.
        place = [columns.index(name) for name in ("campaign_id", "run", "trial")]
        rows.sort(key=lambda row: [row[at] for at in place])
        return Table("figures", columns, rows)

    def caveats(self, campaign: Campaign = None) -> Table:
        """Returns a row for each caveat of a pass: its code, severity and evidence."""
        return self.table("caveats", campaign)

    def samples(self, campaign: Campaign = None) -> Table:
        """Returns ops and bytes of each interval of each pass, with the rate of the interval."""
        samples = self.table("samples", campaign)
        passes = {row["id"]: row for row in self.table("passes")}
        columns = ["pass_id", "trial_id", "pass", "at_ns", "ops", "bytes", "ops_per_s", "bytes_per_s"]
        rows: List[Sequence[Any]] = []
        last: Dict[int, int] = {}
        for row in samples:
            begun_ns = last.get(row["pass_id"], 0)
            last[row["pass_id"]] = row["at_ns"]
            seconds = (row["at_ns"] - begun_ns) / 1e9
            of = passes.get(row["pass_id"], {})
            rates = [row[it] / seconds if seconds > 0 else None for it in ("ops", "bytes")]
            rows.append(
                [row["pass_id"], of.get("trial_id"), of.get("pass"), row["at_ns"], row["ops"],
                 row["bytes"], *rates]
            )
        return Table("samples", columns, rows)

    @abstractmethod
    def histograms(self, campaign: Campaign = None, time: str = "service") -> Dict[int, Histogram]:
        """Returns the times of each row of the table `kinds`, by its `id`.

        `time` is "service" (sent to done) or "response" (scheduled to done).
        """

    def _number(self, campaign: Union[int, str]) -> int:
        known = self.campaigns().column("id")
        if not known:
            raise ResultsError(f"{self.path}: there is no campaign; `dfsbench run` makes one")
        number = max(known) if campaign == "last" else campaign
        if number not in known:
            raise ResultsError(
                f"{self.path}: there is no campaign {campaign!r}; there are "
                f"{', '.join(map(str, known))}, and 'last'"
            )
        return int(number)

    def _of_campaign(self, table: Table, number: int) -> Table:
        if table.name == "campaigns":
            column, wanted = "id", {number}
        elif "campaign_id" in table.columns:
            column, wanted = "campaign_id", {number}
        elif table.name in _PARENTS:
            parent, column = _PARENTS[table.name]
            wanted = set(self.table(parent, number).column("id"))
        else:
            raise ResultsError(
                f"{self.path}: rows of {table.name!r} don't name their campaign; read all of them"
            )
        at = table.columns.index(column)
        rows = [list(row.values()) for row in table]
        return Table(table.name, table.columns, [row for row in rows if row[at] in wanted])

    def _settings_of_runs(self) -> Dict[Tuple[int, int], Dict[str, str]]:
        runs = {row["id"]: (row["campaign_id"], row["run_index"]) for row in self.table("runs")}
        settings: Dict[Tuple[int, int], Dict[str, str]] = {}
        for row in self.table("settings"):
            settings.setdefault(runs[row["run_id"]], {})[row["name"]] = row["value"]
        return settings


class _Database(Results):
    """A results file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        # Read-only, so a campaign that writes to the file is not disturbed.
        uri = f"file:{quote(str(path.absolute()))}?mode=ro"
        try:
            self._connection = sqlite3.connect(uri, uri=True)
            self._names = [
                name
                for (name,) in self._connection.execute(
                    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                    "AND name NOT LIKE 'sqlite%' ORDER BY name"
                )
            ]
        except sqlite3.Error as error:
            raise ResultsError(f"{path}: {error}; is it a results file of dfsbench?") from error
        if "campaigns" not in self._names:
            raise ResultsError(f"{path}: a database, but not of dfsbench: it has no campaigns")

    def tables(self) -> List[str]:
        return list(self._names)

    def _read(self, name: str) -> Table:
        try:
            # The name is one of the file's own tables, see `table`.
            found = self._connection.execute(f'SELECT * FROM "{name}"')
            return Table(name, [column[0] for column in found.description], found.fetchall())
        except sqlite3.Error as error:
            raise ResultsError(f"{self.path}: can't read {name}: {error}") from error

    def histograms(self, campaign: Campaign = None, time: str = "service") -> Dict[int, Histogram]:
        column = _time_column(time)
        kinds = self.table("kinds", campaign)
        return {row["id"]: Histogram.from_bytes(row[column]) for row in kinds}


class _Export(Results):
    """A directory of `dfsbench export`."""

    def __init__(self, path: Path, format: str) -> None:
        super().__init__(path)
        self._format = format

    def tables(self) -> List[str]:
        return sorted(file.stem for file in self.path.glob(f"*.{self._format}"))

    def _read(self, name: str) -> Table:
        file = self.path / f"{name}.{self._format}"
        if self._format == "parquet":
            try:
                import pyarrow.parquet
            except ImportError as error:
                raise ResultsError(f"{file}: Parquet needs pyarrow (pip install pyarrow)") from error
            read = pyarrow.parquet.read_table(file)
            columns = [column.to_pylist() for column in read.columns]
            return Table(name, read.column_names, list(zip(*columns)))
        if self._format == "json":
            rows = json.loads(file.read_text(encoding="utf-8"))
            names = list(rows[0]) if rows else []
            return Table(name, names, [list(row.values()) for row in rows])
        with file.open(encoding="utf-8", newline="") as lines:
            reader = csv.reader(lines)
            head = next(reader, [])
            return Table(name, head, [[_number_or_text(cell) for cell in row] for row in reader])

    def histograms(self, campaign: Campaign = None, time: str = "service") -> Dict[int, Histogram]:
        raise ResultsError(
            f"{self.path}: an export has no histograms; read the table 'buckets', or the results file"
        )


def open(path: Union[str, Path]) -> Results:
    """Opens a results file, or a directory of `dfsbench export`.

    Raises `ResultsError` if it is neither.
    """
    place = Path(path)
    if place.is_dir():
        for format in _FORMATS:
            if (place / f"campaigns.{format}").exists():
                return _Export(place, format)
        raise ResultsError(f"{place}: not a directory of `dfsbench export`: it has no campaigns")
    try:
        with place.open("rb") as file:
            begin = file.read(len(_DATABASE))
    except OSError as error:
        raise ResultsError(f"{place}: {error.strerror}; `dfsbench run` makes dfsbench.db") from error
    if begin != _DATABASE:
        raise ResultsError(
            f"{place}: not a results file; `read_report` reads the output of `--format json`"
        )
    return _Database(place)


def _time_column(time: str) -> str:
    if time not in ("service", "response"):
        raise ResultsError(f"there is no {time!r} time; there are 'service' and 'response'")
    return f"{time}_time"


def _number_or_text(value: Optional[str]) -> Any:
    """Parses a text as a number if it is one; an empty text is a missing value."""
    if value is None or value == "":
        return None
    for read in (int, float):
        try:
            return read(value)
        except ValueError:
            pass
    return value
