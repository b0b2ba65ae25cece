"""Time the import, `kem --help`, and a first and a second `kem quickstart`.

Times are wall-clock seconds of whole processes. The first quickstart has an empty folder for
compiled code.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import Row, at_most


def seconds(*command: str, folder: str, cache: str | None = None) -> float:
    """Return the wall-clock seconds of a command that runs in a folder."""
    environment = dict(os.environ)
    if cache is not None:
        environment |= {"KEM_CACHE": cache, "PYTENSOR_FLAGS": f"base_compiledir={cache}/pytensor"}
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return time.perf_counter() - began


def rows() -> list[Row]:
    """Measure all commands; import and help are the median of three runs."""
    kem = str(Path(sys.executable).with_name("kem"))
    with tempfile.TemporaryDirectory() as folder:
        imports, helps = (
            statistics.median(seconds(*command, folder=folder) for _ in range(3))
            for command in ((sys.executable, "-c", "import kem_pymc"), (kem, "--help"))
        )
        cache = str(Path(folder) / "cache")
        first, second = (
            seconds(kem, "quickstart", "--out", name, folder=folder, cache=cache)
            for name in ("first", "second")
        )
    return [
        at_most("import kem_pymc", imports, 2.0, " s"),
        at_most("kem --help", helps, 1.0, " s"),
        at_most("first kem quickstart, without compiled code", first, 120.0, " s"),
        at_most("second kem quickstart", second, 60.0, " s"),
    ]
