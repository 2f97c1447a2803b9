"""The folder to start a stream from: its script, run as its README says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from deltalake import DeltaTable

from lakeport.cli.app import main


def test_a_stream_begins_and_goes_on(tmp_path: Path) -> None:
    assert main(["init", "streaming", "--into", str(tmp_path / "begin")]) == 0
    for number, rows in ((2, 2), (3, 1)):
        command = [sys.executable, str(tmp_path / "begin" / "stream.py")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"{rows} rows landed\n"), done.stderr
        table = DeltaTable(str(tmp_path / "begin" / "lake" / "events")).to_pyarrow_table()
        assert table.num_rows == number
        (tmp_path / "begin" / "inbox" / "2.json").write_text('{"id": 3, "name": "Emmy"}\n')
