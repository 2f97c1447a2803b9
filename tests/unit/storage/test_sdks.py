"""The stores' SDKs, loaded before a store is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakeport.errors import MissingDependency
from lakeport.storage import base
from lakeport.storage.s3.client import S3Connection, _model_loader, load_models
from lakeport.storage.s3.settings import AwsSettings

SETTINGS = AwsSettings(access_key_id="a", secret_access_key="b", region="eu-west-1")

SERVES = """
import os, sys, time
from lakeport.engine.spark import daemon
from pyspark import daemon as spark

SDKS = "botocore.session", "requests", "azure.storage.blob"

def serve():
    end = time.monotonic() + float(os.environ["SECONDS"])
    while SDKS[0] not in sys.modules and time.monotonic() < end:
        time.sleep(0.01)

daemon._PRELOAD_DELAY_SECONDS = 0.01
spark.manager = serve
daemon.main()
print([name in sys.modules for name in SDKS])
"""


def test_a_client_reads_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.loaders import JSONFileLoader

    base.preload_sdks()
    monkeypatch.setattr(JSONFileLoader, "load_file", lambda *_: pytest.fail("read anew"))
    assert S3Connection(SETTINGS)._client.meta.region_name == "eu-west-1"


def test_a_folder_of_the_users_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    S3Connection(SETTINGS)
    assert str(tmp_path) in _model_loader(str(tmp_path)).search_paths
    assert str(tmp_path) not in _model_loader(None).search_paths


def test_what_is_not_installed_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_SDK_MODULES", ("lakeport.absent",))
    monkeypatch.setitem(sys.modules, "botocore.config", None)
    base.preload_sdks()
    with pytest.raises(MissingDependency):
        load_models()


@pytest.mark.parametrize(
    ("environment", "loaded"),
    [({"SECONDS": "0.5", "SPARK_REUSE_WORKER": "1"}, False), ({"SECONDS": "60"}, True)],
)
def test_workers_of_one_task_have_them(environment: dict[str, str], loaded: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVES],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == str([loaded] * 3), done.stderr
