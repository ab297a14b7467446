"""A table of results, and its conversion to data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Sequence

if TYPE_CHECKING:
    import pandas
    import polars

Row = Dict[str, Any]


class Table:
    """Rows with the same columns, in the order of the file.

    Times are nanoseconds and sizes bytes, unless the name of a column says otherwise.
    """

    def __init__(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.name = name
        self.columns: List[str] = list(columns)
        self._rows: List[Sequence[Any]] = list(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            yield dict(zip(self.columns, row))

    def __repr__(self) -> str:
        return f"<Table {self.name}: {len(self)} rows, {len(self.columns)} columns>"

    def rows(self) -> List[Row]:
        """Returns the rows as dictionaries."""
        return list(self)

    def column(self, name: str) -> List[Any]:
        """Returns the values of a column.

        Raises `KeyError`, listing the columns, if there is no such column.
        """
        if name not in self.columns:
            raise KeyError(f"{self.name} has no column {name!r}; it has {', '.join(self.columns)}")
        at = self.columns.index(name)
        return [row[at] for row in self._rows]

    def pandas(self) -> pandas.DataFrame:
        """Returns a pandas frame; missing values are `None` or `NaN`."""
        import pandas

        return pandas.DataFrame(
            {name: self.column(name) for name in self.columns}, columns=self.columns
        )

    def polars(self) -> polars.DataFrame:
        """Returns a polars frame; missing values are null."""
        import polars

        columns = {name: self.column(name) for name in self.columns}
        # The first rows may be null, and a column of integers may continue with floats.
        return polars.DataFrame(columns, strict=False, infer_schema_length=None)
