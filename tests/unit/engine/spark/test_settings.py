"""Settings of a session of our own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakeport.engine.spark.settings import heap_mb, local_cores, session_settings, task_attempts
from lakeport.errors import ConfigError

FOLDER = Path("/private")


def test_defaults() -> None:
    found = session_settings(frozenset({"delta"}), {}, FOLDER)
    assert found["spark.master"] == "local[*]"
    assert found["spark.driver.host"] == "127.0.0.1"
    assert found["spark.ui.enabled"] == "false"
    assert found["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert found["spark.local.dir"] == "/private/local"
    assert not any("retentionDurationCheck" in key or "properties.defaults" in key for key in found)
    assert re.search(found["spark.redaction.regex"], "fs.azure.account.key.x")


def test_without_delta() -> None:
    assert not any("delta" in key for key in session_settings(frozenset(), {}, FOLDER))


def test_the_users_settings_win() -> None:
    own = {"spark.master": "local[3]", "spark.ui.enabled": "true", "spark.sql.extensions": "a.B"}
    found = session_settings(frozenset({"delta"}), own, FOLDER)
    assert found["spark.ui.enabled"] == "true"
    assert found["spark.sql.shuffle.partitions"] == "3"
    assert found["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,a.B"


def test_a_cluster_keeps_its_own() -> None:
    found = session_settings(frozenset(), {"spark.master": "spark://host:7077"}, FOLDER)
    assert not {"spark.driver.host", "spark.local.dir", "spark.sql.shuffle.partitions"} & set(found)


@pytest.mark.parametrize(
    ("key", "match"),
    [
        ("spark.hadoop.fs.s3a.secret.key", "would show it"),
        ("fs.azure.account.key.x", "would show it"),
        ("master", "no setting of Spark's"),
        ("fs.s3a.endpoint", "no setting of Spark's"),
    ],
)
def test_refused(key: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        session_settings(frozenset(), {key: "canary"}, FOLDER)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1g", 1024), ("512m", 512), ("2048k", 2), ("1073741824", 1024), ("3GB", 3072)],
)
def test_heap(text: str, size: int) -> None:
    assert heap_mb({"spark.driver.memory": text}) == size


@pytest.mark.parametrize("text", ["", "much", "0", "10k", "-1g"])
def test_no_heap(text: str) -> None:
    with pytest.raises(ConfigError, match="no size"):
        heap_mb({"spark.driver.memory": text})


def test_cores() -> None:
    assert local_cores("local[*]") >= 1
    assert local_cores("local[*, 2]") == local_cores("local[*]")


@pytest.mark.parametrize(
    ("master", "attempts"),
    [("local", 1), ("local[*]", 1), ("local[2,5]", 5), ("spark://h:1", 4), ("yarn", 4)],
)
def test_attempts(master: str, attempts: int) -> None:
    assert task_attempts({"spark.master": master}) == attempts


def test_attempts_of_a_cluster() -> None:
    assert task_attempts({"spark.master": "yarn", "spark.task.maxFailures": "2"}) == 2
