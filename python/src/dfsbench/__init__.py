"""Reads results of dfsbench into pandas and polars.

>>> import dfsbench
>>> results = dfsbench.open("dfsbench.db")            # or a directory of `dfsbench export`
>>> results.campaigns().pandas()                      # doctest: +SKIP
>>> results.figures(campaign="last").polars()         # doctest: +SKIP

Nothing is needed but Python; pandas, polars and, for Parquet, pyarrow are imported where they are
used. A results file is opened to be read only, also while a campaign writes to it.
"""

from ._histogram import Histogram
from ._report import Report, read_report
from ._results import Results, ResultsError, open
from ._table import Table

__all__ = ["Histogram", "Report", "Results", "ResultsError", "Table", "open", "read_report"]
__version__ = "0.1.0"
