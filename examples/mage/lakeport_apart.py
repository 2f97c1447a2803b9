"""lakeport's destinations for a Python that has no lakeport: each export runs in another one.

Copy this file to `utils/` of the Mage project, name the other interpreter in LAKEPORT_PYTHON, and
change a block's import line:

    from default_repo.utils.lakeport_apart import DeltaLakeS3

Frames go over as Parquet files. Log lines go to this process's standard error.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

_PYTHON = "LAKEPORT_PYTHON"
_PROGRAM = """
import json, sys
from pathlib import Path
import pyarrow.parquet as pq
from lakeport import mage
from lakeport.errors import LakeportError
from lakeport.mage.io import ConfigFileLoader

asked, answer = json.load(sys.stdin), Path(sys.argv[1])
kind = getattr(mage, asked["kind"])
try:
    loader = asked["profile"] and ConfigFileLoader(config=asked["profile"])
    made = kind.with_config(loader, **asked["config"]) if loader else kind(config=asked["config"])
    report = made.export(pq.read_table(asked["frame"]), asked["table"], **asked["keys"])
except LakeportError as error:
    answer.write_text(json.dumps({"message": error.message, "hint": error.hint}))
    sys.exit(1)
answer.write_text(json.dumps({"rows": report.rows, "run_id": report.run_id}))
"""


class LakeportError(Exception):
    """A load failed in the other interpreter: what failed, and what to do."""


class Destination:
    """Base class of destinations whose exports run in the interpreter LAKEPORT_PYTHON.

    Args:
        config: the destination's keys, as `lakeport.mage` takes them.
        profile: settings of a profile of `io_config.yaml`, if the credentials are there.
    """

    def __init__(self, config: dict[str, Any], profile: dict[str, Any] | None = None) -> None:
        self.config = config
        self.profile = profile

    @classmethod
    def with_config(cls, loader: Any, **keys: Any) -> Destination:
        """Return a destination with the credentials of Mage's own `ConfigFileLoader`."""
        return cls(keys, dict(loader.config))

    def export(self, df: Any, table: str | None = None, **keys: Any) -> dict[str, Any]:
        """Land a pandas, Polars or Spark frame in a table; return the number of rows and the run.

        Raises:
            LakeportError: the load failed, or LAKEPORT_PYTHON names no interpreter with lakeport.
        """
        with tempfile.TemporaryDirectory() as folder:  # which other users can't read
            frame, answer = Path(folder, "frame.parquet"), Path(folder, "answer.json")
            _write_parquet(df, frame)
            asked = {
                "kind": type(self).__name__,
                "profile": self.profile,
                "config": self.config,
                "frame": str(frame),
                "table": table,
                "keys": keys,
            }
            _run(json.dumps(asked), answer)
            found: dict[str, Any] = json.loads(answer.read_text())
        if "message" in found:
            raise LakeportError(f"{found['message']}\nHint: {found['hint']}")
        return found


class AmazonS3(Destination):
    """`lakeport.mage.AmazonS3`, in the other interpreter."""


class DeltaLakeAzure(Destination):
    """`lakeport.mage.DeltaLakeAzure`, in the other interpreter."""


class DeltaLakeS3(Destination):
    """`lakeport.mage.DeltaLakeS3`, in the other interpreter."""


class GoogleCloudStorage(Destination):
    """`lakeport.mage.GoogleCloudStorage`, in the other interpreter."""


def _write_parquet(df: Any, path: Path) -> None:
    """Write a frame as one Parquet file; a Spark frame is collected first."""
    df = df.toPandas() if hasattr(df, "toPandas") else df
    if hasattr(df, "write_parquet"):
        df.write_parquet(path)
    else:
        df.to_parquet(path, index=False)


def _run(asked: str, answer: Path) -> None:
    """Run the load; raise LakeportError if the other interpreter gives no answer."""
    python = os.environ.get(_PYTHON, "")
    if not os.access(python, os.X_OK):
        raise LakeportError(
            f"{_PYTHON} is {python!r}, which is no program\n"
            "Hint: name the Python that has lakeport, such as /opt/lakeport/bin/python."
        )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [python, "-c", _PROGRAM, str(answer)]
    run = subprocess.run(command, input=asked, text=True, env=kept, check=False)
    if not answer.exists():
        raise LakeportError(
            f"{python} ended with code {run.returncode}; what it printed is in the log\n"
            f"Hint: `{python} -m lakeport version` shows whether lakeport is there."
        )
