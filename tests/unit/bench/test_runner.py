"""A run is measured with all that it starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.measure import run

BUSY = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"


def test_a_process_that_outlives_its_parent_counts() -> None:
    spawn = f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {BUSY!r}])"
    took = run([sys.executable, "-S", "-c", spawn])
    assert took.failure == "" and took.cpu >= 0.4


def test_memory_is_the_peak_of_the_tree() -> None:
    hold = "import time; held = bytearray(b'1') * 80_000_000; time.sleep(0.6)"
    spawn = (
        "import subprocess, sys; each = [subprocess.Popen([sys.executable, '-S', '-c', "
        f"{hold!r}]) for _ in range(2)]; [one.wait() for one in each]"
    )
    assert run([sys.executable, "-S", "-c", spawn]).memory_mb > 150


def test_a_run_that_takes_too_long_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    late = tmp_path / "late"
    spawn = (
        "import subprocess, time; subprocess.Popen(['sh', '-c', "
        f"'sleep 1.2; touch {late}'], start_new_session=True); time.sleep(60)"
    )
    took = run([sys.executable, "-S", "-c", spawn], limit=0.5)
    assert took.failure == "stopped after 0.5 s"
    run(["sleep", "1"])
    assert not late.exists()


def test_a_failure_is_told_with_the_last_line_of_output() -> None:
    took = run(
        [sys.executable, "-S", "-c", "import sys; print('first', flush=True); sys.exit('why')"]
    )
    assert took.failure == "exit code 1: why"


def test_standard_input_is_fed_as_often_as_asked(tmp_path: Path) -> None:
    source = tmp_path / "lines"
    source.write_text("one\ntwo\n")
    assert run(["wc", "-l"], feed=(source, 3)).output == "6"


def test_what_works_beside_a_run_counts() -> None:
    busy = f"held = bytearray(b'1') * 30_000_000\n{BUSY.replace('0.4', '9')}"
    with subprocess.Popen([sys.executable, "-S", "-c", busy]) as beside:
        try:
            took = run(["sleep", "1"], beside=[beside.pid])
        finally:
            beside.kill()
    assert took.cpu > 0.05 and took.memory_mb > 30
