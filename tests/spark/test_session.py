"""A session of our own: what it hides, what it survives, what it adopts, how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from lakeport.engine.base import SessionRequest
from lakeport.engine.failures import translate, translate_errors
from lakeport.engine.spark.jobs import run_tasks, start_python_workers
from lakeport.engine.spark.session import DriverSession
from lakeport.engine.tasks import JobLabel
from lakeport.errors import ConfigError, LakeportError, SchemaConflict

CANARY = "canary/" + "s3cr3t+value"

LABEL = JobLabel("test")


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def run_script(script: str, *, quiet: bool = True) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not quiet or done.stderr == ""  # as a session of the user's is not
    return done.stdout


def test_a_session_that_has_not_started_knows_its_version() -> None:
    script = """
        import pyspark
        from lakeport.engine.base import SessionRequest
        from lakeport.engine.spark.session import DriverSession

        driver = DriverSession.acquire(SessionRequest())
        assert driver.spark_identity() == (pyspark.__version__, "")
        context = driver.context
        assert driver.spark_identity() == (context.version, context.applicationId)
    """
    assert run_script(script) == ""


def test_calls_that_lose_the_jvm_at_the_end_are_not_told() -> None:
    script = """
        import atexit, inspect, logging
        from py4j import java_gateway
        from lakeport.engine.base import SessionRequest
        from lakeport.engine.spark.session import DriverSession

        words = "Exception while sending command."
        assert words in inspect.getsource(java_gateway)
        atexit.register(logging.error, words)  # runs last, and speaks as py4j's threads do
        DriverSession.acquire(SessionRequest()).begin()
    """
    assert run_script(script) == ""


def test_a_call_that_loses_the_jvm_is_not_logged() -> None:
    script = """
        import os, signal, threading
        from contextlib import suppress
        from lakeport.engine.base import SessionRequest
        from lakeport.engine.spark.session import DriverSession

        driver = DriverSession.acquire(SessionRequest())
        java = driver.context._jvm.java
        java.lang.System.nanoTime()
        jvm = driver._launch.jvm.process
        os.kill(jvm.pid, signal.SIGSTOP)  # it takes the call, and never reads it
        threading.Timer(1, jvm.kill).start()
        with suppress(Exception):
            java.lang.System.nanoTime()
    """
    assert run_script(script) == ""


def gone(pids: list[int], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.1)
    return False


def test_settings(driver: DriverSession) -> None:
    conf = driver.spark.conf
    assert conf.get("spark.sql.session.timeZone") == "UTC"
    assert conf.get("spark.sql.shuffle.partitions") == str(driver.cores)
    assert conf.get("spark.databricks.delta.snapshotPartitions") == "2"
    assert driver.context.uiWebUrl is None
    assert driver.is_local
    assert not driver.adopted
    assert driver.context.defaultParallelism == driver.cores


def test_the_command_line_holds_no_settings(driver: DriverSession) -> None:
    assert driver.context is not None
    assert driver._launch is not None
    gateway = driver._launch.jvm
    assert gateway is not None
    line = command_line(gateway.process.pid)
    assert "spark.sql" not in line
    assert "--conf" not in line
    assert "redaction" not in line


def test_the_jvm_and_the_workers_leave_no_core_dumps(driver: DriverSession) -> None:
    def limit(_: int) -> list[tuple[int, int]]:
        import resource

        return [resource.getrlimit(resource.RLIMIT_CORE)]

    assert run_tasks(driver, LABEL, limit, [1]) == [(0, 0)]
    assert driver._launch is not None and driver._launch.jvm is not None
    pid = driver._launch.jvm.process.pid
    limits = Path(f"/proc/{pid}/limits").read_text()
    assert re.search(r"Max core file size +0 +0 ", limits)
    assert "HeapDumpOnOutOfMemoryError" not in command_line(pid)
    assert "-XX:-CreateCoredumpOnCrash" in command_line(pid)


def test_secrets_reach_hadoop_and_nothing_else(driver: DriverSession) -> None:
    key = "fs.s3a.bucket.canaries.secret.key"
    driver.set_hadoop_settings({key: CANARY})
    assert driver.context._jsc.hadoopConfiguration().get(key) == CANARY
    shown = [str(row) for row in driver.spark.sql("SET").collect()]
    shown += [str(pair) for pair in driver.context.getConf().getAll()]
    assert driver._launch is not None
    gateway = driver._launch.jvm
    assert gateway is not None
    shown += [command_line(gateway.process.pid), gateway.log.read_text()]
    assert not any(CANARY in text for text in shown)
    jvm = driver.context._jvm
    assert jvm is not None
    with pytest.raises(Exception) as caught:
        jvm.java.lang.Integer.parseInt(CANARY)
    told = translate(caught.value, driver.secrets)
    assert CANARY not in str(told)
    assert "***" in str(told)


def test_a_setting_that_looks_like_a_secret_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"spark\.hadoop\.fs\.s3a\.secret\.key") as caught:
        DriverSession(SessionRequest(frozenset(), {"spark.hadoop.fs.s3a.secret.key": CANARY}))
    assert CANARY not in str(caught.value)


def test_taken_up_again(driver: DriverSession) -> None:
    assert DriverSession.acquire(SessionRequest({"delta"}, quick_start=False)) is driver
    assert DriverSession.acquire(SessionRequest()) is driver


def test_warming_up_leaves_nothing_behind(driver: DriverSession) -> None:
    driver.warm_up_workers(start_python_workers)
    for thread in threading.enumerate():
        # By name: others are listed before they can be joined, while someone starts them.
        if thread.name == "lakeport-warm":
            thread.join(60)
    assert driver._launch is not None
    gateway = driver._launch.jvm
    assert gateway is not None
    assert list((gateway.folder / "failed").iterdir()) == []
    assert run_tasks(driver, LABEL, lambda x: [x], [1]) == [1]


def test_delta_works(driver: DriverSession, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    from lakeport.engine.spark.jvm.training import run_training_load

    run_training_load(driver, frozenset({"delta"}))
    path = str(tmp_path / "table")
    driver.spark.range(5).write.format("delta").save(path)
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2, 3, 4]


def test_errors_of_delta_are_ours(driver: DriverSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    driver.spark.range(5).write.format("delta").save(path)
    other = driver.spark.createDataFrame([("x",)], "name string")
    with pytest.raises(SchemaConflict) as caught, translate_errors():
        other.write.format("delta").mode("append").save(path)
    assert "\tat " not in str(caught.value)
    with pytest.raises(LakeportError, match="no such table"), translate_errors():
        driver.spark.read.format("delta").load(str(tmp_path / "none")).collect()


def test_a_session_warms_up_once(driver: DriverSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every landing asks for it."""
    begun: list[object] = []
    started = threading.Event()

    def start(*sessions: object) -> None:
        begun.extend(sessions)
        started.set()

    monkeypatch.setattr(driver, "_warmed_up", False)
    monkeypatch.setattr(driver, "_awaited", False)
    for _ in range(3):
        driver.warm_up_workers(start)
    assert started.wait(timeout=60)
    assert begun == [driver]


def test_a_load_imports_no_pandas(tmp_path: Path) -> None:
    script = f"""
        import sys
        from pathlib import Path
        from lakeport.cli import app
        from lakeport.engine.spark.jobs import run_tasks
        from lakeport.engine.tasks import JobLabel
        from lakeport.engine.base import SessionRequest
        from lakeport.engine.spark.session import DriverSession

        def loaded(_):
            import pyarrow
            pyarrow.scalar(1)
            before = "pandas" in sys.modules
            return [before, type(pyarrow.table({{"a": [1]}}).to_pandas()).__name__]

        source = Path({str(tmp_path / "people.csv")!r})
        source.write_text("id,name\\n1,Ada\\n")
        for file_type in ("parquet", "delta"):
            target = ["--to", {str(tmp_path)!r} + "/" + file_type, "--format", file_type]
            app.start("lakeport", ["land", str(source), *target, "--json"])
            print()
            print("pandas" in sys.modules)
        driver = DriverSession.acquire(SessionRequest())
        print(*run_tasks(driver, JobLabel("test"), loaded, [1]))
    """
    *printed, in_worker, frame = run_script(script).split()
    assert [word for word in printed if word in ("True", "False")] == ["False", "False"]
    assert (in_worker, frame) == ("False", "DataFrame")


def test_workers_come_from_the_daemon_on_standby(driver: DriverSession) -> None:
    jvm = driver._launch.jvm if driver._launch is not None else None
    assert jvm is not None and jvm.workers is not None
    assert run_tasks(driver, LABEL, lambda _: [os.getppid()], [1, 2]) == [jvm.workers.pid] * 2


def test_numpy_values_still_reach_the_jvm(driver: DriverSession) -> None:
    import numpy as np

    longs, lists = driver.spark._jvm.java.lang.Long, driver.spark._jvm.java.util.Arrays
    assert longs.valueOf(np.int64(3)) == 3
    assert lists.toString(np.array([1, 2], "int64")) == "[1, 2]"


def test_an_interrupt_cancels(driver: DriverSession) -> None:
    def slow(seconds: float) -> list[int]:
        time.sleep(seconds)
        return [1]

    assert run_tasks(driver, LABEL, slow, [0.0]) == [1]
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    begun = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_tasks(driver, LABEL, slow, [60.0])
    assert time.monotonic() - begun < 50
    assert run_tasks(driver, LABEL, slow, [0.0]) == [1]


def test_nothing_outlives_a_killed_driver() -> None:
    script = """
    import os, sys, time
    from lakeport.engine.spark.jobs import run_tasks
    from lakeport.engine.tasks import JobLabel
    from lakeport.engine.base import SessionRequest
    from lakeport.engine.spark.session import DriverSession
    driver = DriverSession.acquire(SessionRequest({"delta"}))
    workers = run_tasks(driver, JobLabel("test"), lambda _: [os.getpid(), os.getppid()], [0, 1])
    print(driver._launch.jvm.process.pid, *workers, flush=True)
    time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as child:
        assert child.stdout is not None
        pids = [int(word) for word in child.stdout.readline().split()]
        assert len(pids) >= 3
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        child.kill()
    assert gone(pids)


def test_adopting_growing_and_ending() -> None:
    out = run_script("""
    import os
    import tempfile
    from pathlib import Path
    from unittest.mock import patch
    from lakeport.errors import ConfigError, SourceError
    from lakeport.engine.sql.frames import normalise_frame
    from lakeport.engine.spark.engine import SparkEngine
    from lakeport.engine.spark.jobs import run_tasks
    from lakeport.engine.tasks import JobLabel
    from lakeport.engine.base import SessionRequest
    from lakeport.engine.spark.session import DriverSession

    # No jars in the cache: none on the class path.
    with tempfile.TemporaryDirectory() as cache, patch.dict(os.environ, LAKEPORT_CACHE=cache):
        own = DriverSession.acquire(SessionRequest(frozenset(), {"spark.app.name": "mine"}))
        session = own.spark
    pid = own._launch.jvm.process.pid
    DriverSession._current = None      # as if somebody else had built it
    needs = frozenset({"delta", "s3a"})
    plain = SparkEngine(SessionRequest(needs))  # which can land files, and plain tables
    assert plain.adopted and plain.run_tasks("test", lambda x: [x], [1]) == [1]
    try:
        plain.delta_session("test", needs)
    except ConfigError as error:
        told = str(error)
        assert '("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")' in told
        assert "io.delta:delta-spark_4.2_2.13:4.4.0" in str(error)
        assert "org.apache.hadoop:hadoop-aws:3.5.0" in str(error)
        assert "software.amazon.awssdk:bundle" in str(error)
        store = "io.lakeport.delta.ConditionalS3LogStore"
        for scheme in ("s3a", "s3"):
            assert f'("spark.delta.logStore.{scheme}.impl", "{store}")' in told
        assert "a log store for S3 that is safe for two writers" in told
        assert 'lakeport-logstore.jar")' in told
    else:
        raise SystemExit("adopted what lacks Delta")
    adopted = DriverSession.acquire(SessionRequest())
    assert adopted.adopted and adopted.spark is session and adopted.attempts == 1
    assert run_tasks(adopted, JobLabel("test"), lambda x: [x + 1], [1, 2]) == [2, 3]
    adopted.stop()
    frame = session.range(3)
    assert frame.count() == 3
    session.stop()               # by its owner: its JVM lives on
    try:
        normalise_frame(frame, "t")
    except SourceError as error:
        assert "the frame's Spark session was stopped" in str(error)
    else:
        raise SystemExit("took a frame of a session that was stopped")

    again = DriverSession.acquire(SessionRequest({"delta"}))
    assert run_tasks(again, JobLabel("test"), lambda x: [x + 1], [1]) == [2]
    own._launch.jvm.kill()
    assert not Path(f"/proc/{pid}").exists()
    assert run_tasks(again, JobLabel("test"), lambda x: [x + 1], [1]) == [2]
    folder = again._launch.jvm.folder
    assert DriverSession.acquire(SessionRequest({"delta", "s3a"})) is again  # all jars are there
    other = SessionRequest({"delta", "s3a", "azure"}, {"spark.app.name": "other"})
    grown = DriverSession.acquire(other)
    assert grown is not again and not folder.exists()
    jvm = grown.context._jvm
    conf = grown.context._jsc.hadoopConfiguration()
    grown.set_hadoop_settings({
        "fs.s3a.access.key": "a" * 20, "fs.s3a.secret.key": "b" * 40, "fs.s3a.bucket.probe": "0",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.azure.account.key.account.dfs.core.windows.net": "Yg==",
        "fs.azure.account.hns.enabled": "false",
    })
    for uri in ("s3a://bucket/", "abfss://container@account.dfs.core.windows.net/"):
        system = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI.create(uri), conf)
        print(system.getClass().getSimpleName())
    pid = grown._launch.jvm.process.pid
    grown.stop(fast=False)
    assert not Path(f"/proc/{pid}").exists()
    """)
    assert out.split() == ["S3AFileSystem", "SecureAzureBlobFileSystem"]


def test_a_jvm_that_ends_at_its_start() -> None:
    run_script("""
    from lakeport.errors import SparkFailure
    from lakeport.engine.base import SessionRequest
    from lakeport.engine.spark.session import DriverSession
    wrong = {"spark.driver.extraJavaOptions": "--add-modules=no.such"}
    bad = DriverSession.acquire(SessionRequest(frozenset(), wrong))
    try:
        bad.context
    except SparkFailure as error:
        assert "no.such" in str(error), str(error)
    else:
        raise SystemExit("it started")
    """)


def test_a_damaged_class_archive_is_dropped(tmp_path: Path) -> None:
    run_script(f"""
    import os
    from pathlib import Path
    from lakeport.engine.spark.jvm import archive
    from lakeport.engine.spark.jvm import gateway
    from lakeport.engine.spark.jvm import jars
    from lakeport.engine.spark.jvm.java import find_java
    from lakeport.engine.base import SessionRequest
    from lakeport.engine.spark.session import DriverSession

    os.environ["LAKEPORT_CDS"] = "on"
    java = find_java()
    cached = java.version >= 25
    file = Path({str(tmp_path)!r}, "damaged.aot" if cached else "damaged.jsa")
    written = "AOTCacheOutput" if cached else "ArchiveClassesAtExit"
    os.system(f"{{java.path}} -XX:{{written}}={{file}} -Xlog:all=off -version 2>/dev/null >&2")
    file.chmod(0o644)
    os.truncate(file, 5000)
    archive.archive_path = lambda *_: file
    archive.record_in_background = lambda *_: None
    driver = DriverSession.acquire(SessionRequest())
    assert driver.context is not None
    assert file.exists() == cached  # Java 25 sees the damage, and does without
    driver.stop()
    """)
