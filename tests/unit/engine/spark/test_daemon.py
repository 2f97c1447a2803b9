"""The daemon on standby and the one that Spark starts: who serves, with what, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from lakeport.engine.spark import daemon as standby
from lakeport.host.process import is_running

WAITS = """
import os, sys
from lakeport.engine.spark import daemon as standby
held = standby.replace_daemon(standby.open_socket(sys.argv[1]))
print(os.environ["GIVEN"], os.environ.get("OWN"), sys.path[-1], sys.stdin.read(), flush=True)
print("told", file=sys.stderr, flush=True)
os._exit(0)
"""
PLACEHOLDER = """
import sys
from lakeport.engine.spark import daemon as standby
sys.path.append("/given")
sys.exit(0 if standby.hand_over_to_standby(sys.argv[1]) else 4)
"""

SLOW_PLACEHOLDER = (
    """
import select
from lakeport.engine.spark import daemon as standby
send = standby.socket.send_fds
def send_and_wait(connection, *rest):
    sent, gone = send(connection, *rest), select.poll()
    gone.register(connection, 0)
    assert gone.poll(60_000)
    return sent
standby.socket.send_fds = send_and_wait
"""
    + PLACEHOLDER
)


LISTENS = """
import sys
from lakeport.engine.spark import daemon as standby
x = standby.open_socket(sys.argv[1])
"""


def run(script: str, address: Path, **environment: str) -> subprocess.Popen[str]:
    known = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", script, str(address)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | known | environment,
    )


def wait_for(address: Path) -> None:
    end = time.monotonic() + 30
    while not address.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_it_takes_over_pipes_environment_and_path(tmp_path: Path) -> None:
    address = tmp_path / "workers"
    waits = run(WAITS, address, OWN="1", GIVEN="none")
    wait_for(address)
    given = "x" * 100_000  # more than one message
    placeholder = run(PLACEHOLDER, address, GIVEN=given)
    out, err = placeholder.communicate("sent\n", timeout=60)
    assert out.split() == [given, "None", "/given", "sent"]
    assert err == "told\n"
    assert placeholder.returncode == 0
    assert waits.communicate(timeout=60) == ("", "")
    assert not standby.hand_over_to_standby(str(address))  # it serves once


def test_work_that_is_done_at_once_was_taken_over(tmp_path: Path) -> None:
    address = tmp_path / "workers"
    waits = run(WAITS, address)
    wait_for(address)
    placeholder = run(SLOW_PLACEHOLDER, address, GIVEN="small")
    out, err = placeholder.communicate("", timeout=60)
    waits.communicate(timeout=60)
    assert (placeholder.returncode, out.split()[0], err) == (0, "small", "told\n")


def test_without_one_the_work_is_left_to_whoever_asked(tmp_path: Path) -> None:
    assert not standby.hand_over_to_standby(str(tmp_path / "workers"))


def test_one_that_ends_before_it_takes_over_is_none(tmp_path: Path) -> None:
    address = tmp_path / "workers"
    listens = LISTENS
    waits = run(f"{listens}sys.stdin.read()", address)
    wait_for(address)
    placeholder = run(PLACEHOLDER, address)
    time.sleep(0.3)
    waits.communicate("", timeout=60)
    placeholder.communicate(timeout=60)
    assert placeholder.returncode == 4


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    script = "from pathlib import Path; from lakeport.engine.spark import daemon; "
    script += f"print(daemon.start_standby(Path({str(tmp_path / 'workers')!r}), {{}}).pid)"
    starts = run(script, tmp_path)
    out, err = starts.communicate(timeout=60)
    assert err == ""
    end = time.monotonic() + 30
    while is_running(int(out)):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_it_has_a_group_of_its_own_which_ends_with_it(tmp_path: Path) -> None:
    process = standby.start_standby(tmp_path / "workers", {})
    wait_for(tmp_path / "workers")
    assert os.getpgid(process.pid) == process.pid
    standby.end_standby(process)
    assert process.returncode == -9
    standby.end_standby(process)  # again: fine
