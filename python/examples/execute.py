"""Executes the notebook on results of the program, and checks that it draws three plots.

Usage: execute.py PROGRAM, built with the feature `parquet`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).with_name("plots.ipynb")


def main() -> None:
    program = str(Path(sys.argv[1]).absolute())
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "XDG_CONFIG_HOME": folder, "DFSBENCH_RESULTS": ""}
        for args in (
            "run null --workload mixed --duration 200ms --trials 3 --io-size 4KiB,64KiB --quiet",
            "export export --format parquet",
        ):
            subprocess.run([program, *args.split()], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
        os.environ["DFSBENCH_RESULTS"] = f"{folder}/dfsbench.db"
        os.environ["DFSBENCH_EXPORT"] = f"{folder}/export"
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    plots = sum(
        "image/png" in output.get("data", {})
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    )
    if plots != 3:
        raise SystemExit(f"{NOTEBOOK.name} drew {plots} plots, and three are meant")
    print(f"{NOTEBOOK.name}: executed, {plots} plots")


if __name__ == "__main__":
    main()
