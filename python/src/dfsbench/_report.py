"""The output of `dfsbench report --format json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Union

from ._results import ResultsError
from ._table import Table


class Report:
    """A judged campaign: medians, intervals, verdicts. docs/results.schema.json describes it."""

    def __init__(self, document: Dict[str, Any]) -> None:
        self.document = document

    @property
    def campaign(self) -> Dict[str, Any]:
        """The campaign: name, seed, state and more."""
        campaign: Dict[str, Any] = self.document["campaign"]
        return campaign

    def figures(self) -> Table:
        """Returns a row for each run and pass. Members of objects become columns such as
        `rate.median` or `service_time.p99_ns`, and settings that vary become `set.NAME`.
        """
        runs = {run["index"]: run for run in self.document["runs"]}
        flat = []
        for figure in self.document["figures"]:
            row = _flatten(figure)
            settings = runs.get(figure["run"], {}).get("settings", {})
            for name, value in _pairs(settings):
                row[f"set.{name}"] = value
            flat.append(row)
        columns: List[str] = []
        for row in flat:
            columns.extend(name for name in row if name not in columns)
        varying = [
            name
            for name in columns
            if not name.startswith("set.") or len({str(row.get(name)) for row in flat}) > 1
        ]
        return Table("figures", varying, [[row.get(name) for name in varying] for row in flat])


def read_report(path: Union[str, Path]) -> Report:
    """Reads a file written by `dfsbench report --format json`.

    Raises `ResultsError` if it is not such a file.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ResultsError(f"{path}: not JSON: {error}") from error
    if not isinstance(document, dict) or "figures" not in document:
        raise ResultsError(f"{path}: not a report of `dfsbench report --format json`")
    if document.get("schema") != 1:
        raise ResultsError(f"{path}: schema {document.get('schema')}; this package reads schema 1")
    return Report(document)


def _flatten(value: Dict[str, Any], prefix: str = "") -> Dict[str, Any]:
    flat: Dict[str, Any] = {}
    for name, member in value.items():
        if isinstance(member, dict):
            flat.update(_flatten(member, f"{prefix}{name}."))
        elif isinstance(member, list):
            flat[prefix + name] = " ".join(_word(item) for item in member)
        else:
            flat[prefix + name] = member
    return flat


def _word(item: Any) -> str:
    return str(item.get("code", item)) if isinstance(item, dict) else str(item)


def _pairs(settings: Any) -> List[Any]:
    if isinstance(settings, dict):
        return list(settings.items())
    return [(item["name"], item["value"]) for item in settings]
