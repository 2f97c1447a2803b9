"""The image's containers at work: root read-only, a user without rights, no network but MinIO's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from tests.emulators import PACKAGES
from tests.operations.image import HOSTNAME, Image, build_stages
from tests.operations.test_deploy import DEPLOY, read_manifests

pytestmark = pytest.mark.soak

CSV = "id,name\n1,Ada\n2,Grace\n"
NAMES = ["Ada", "Grace"]
DRIVER_PORT = 7078  # as on Kubernetes
# What Spark has Java open to an executor's libraries.
OPENED = ("java.lang", "java.net", "java.nio", "java.util", "java.util.concurrent", "sun.nio.ch")


@pytest.fixture(scope="module")
def stages() -> Iterator[dict[str, Image]]:
    """The Dockerfile's stages; they take 5 GB, and minutes."""
    with tempfile.TemporaryDirectory(prefix="lakeport-image-") as folder:
        yield build_stages("spark", Path(folder))


def folder_of(path: Path, user: str) -> Path:
    """A folder for a container's mount that belongs to its user."""
    path.mkdir()
    os.chown(path, int(user), 0)
    return path


def run(command: list[str]) -> str:
    """Standard output of a container that ends well; nothing of this process's environment."""
    done = subprocess.run(command, capture_output=True, text=True, env={}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def first_process(container: subprocess.Popen[Any]) -> int:
    """The process id, outside of it, of the container's process 1."""
    children = Path(f"/proc/{container.pid}/task/{container.pid}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.05)
    return int(found[0])


def kill(container: subprocess.Popen[Any]) -> None:
    """Kill a container; its process 1 has another user, and so outlives what started it."""
    if container.poll() is None:
        os.kill(first_process(container), signal.SIGKILL)
    container.wait()


def names_in(table: str, **options: str) -> list[str]:
    """The sorted names in a Delta table, read by delta-rs."""
    rows = DeltaTable(table, storage_options=options or None).to_pyarrow_table()
    return sorted(rows["name"].to_pylist())


@pytest.mark.parametrize("user", ["10001", "1000650000"])
def test_spark_lands_in_a_mounted_folder(
    stages: dict[str, Image], tmp_path: Path, user: str
) -> None:
    work = folder_of(tmp_path / "work", user)
    (work / "people.csv").write_text(CSV)
    command = ["land", "people.csv", "--to", "lake", "--json"]
    report = json.loads(run(stages["lakeport"].command(command, {"/work": work}, user=user)))
    assert report["engine"]["name"] == "spark"
    assert names_in(str(work / "lake" / "people")) == NAMES
    assert (work / "lake" / "people").stat().st_uid == int(user)


def test_root_is_read_only_even_for_root(stages: dict[str, Image]) -> None:
    python = replace(stages["lakeport"], entrypoint=["python3", "-c"], user="0")
    assert run(python.command(["open('/tmp/x', 'w').close()"])) == ""
    refused = python.command(["open('/opt/lakeport/x', 'w')"])
    done = subprocess.run(refused, capture_output=True, text=True, check=False)
    assert "Read-only file system" in done.stderr


def test_term_ends_a_load_within_the_pods_grace(stages: dict[str, Image], tmp_path: Path) -> None:
    image = stages["lakeport"]
    work = folder_of(tmp_path / "work", image.user)
    options = ["--to", "lake", "--set", "maximum_batch_size_mb=1"]
    command = image.command(["land", "-", *options], {"/work": work})
    schema = {"properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    lines = [{"type": "SCHEMA", "stream": "people", "schema": schema, "key_properties": []}]
    record = {"id": 1, "name": "Ada" * 30}
    lines += [{"type": "RECORD", "stream": "people", "record": record}] * 10_000
    pod = read_manifests("cronjob.yaml")[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    commit = work / "lake" / "people" / "_delta_log" / f"{0:020}.json"
    with (
        (tmp_path / "load.log").open("wb") as log,
        subprocess.Popen(
            command, text=True, env={}, stdin=subprocess.PIPE, stdout=log, stderr=log
        ) as load,
    ):
        assert load.stdin is not None
        load.stdin.writelines(json.dumps(line) + "\n" for line in lines)
        load.stdin.flush()  # and the tap goes on
        while not commit.exists():
            assert load.poll() is None, "the load ended"
            time.sleep(0.1)
        os.kill(first_process(load), signal.SIGTERM)
        load.wait(pod["terminationGracePeriodSeconds"])
        assert load.returncode == 143
    assert "Error: terminated" in (tmp_path / "load.log").read_text()
    assert DeltaTable(str(work / "lake" / "people")).version() == 0


@dataclass(frozen=True)
class Network:
    """A network of its own, with MinIO in it as `minio`, started as the compose file does.

    Attributes:
        process: a process in it, whose network others join.
        hosts: a file for /etc/hosts.
        keys: environment variables with the keys of MinIO, and where it is.
    """

    process: int
    hosts: Path
    keys: dict[str, str]

    def join(self, command: list[str]) -> list[str]:
        """The command, run in this network."""
        return ["nsenter", f"--net=/proc/{self.process}/ns/net", "--", *command]

    def python(self, script: str, *arguments: str) -> str:
        """What a script prints in this environment's Python, in this network."""
        command = [sys.executable, "-c", script, *arguments]
        return subprocess.run(
            self.join(command), env=self.keys, check=True, capture_output=True, text=True
        ).stdout

    def put(self, key: str, content: str) -> None:
        """Write an object into the bucket `lake`."""
        self.python(
            "import boto3, sys\n"
            "boto3.client('s3').put_object(Bucket='lake', Key=sys.argv[1], Body=sys.argv[2])",
            key,
            content,
        )

    def names(self, table: str) -> list[str]:
        """The sorted names in a Delta table of the bucket, read by delta-rs."""
        return json.loads(
            self.python(
                "import json, sys; from deltalake import DeltaTable\n"
                "rows = DeltaTable(f's3://lake/{sys.argv[1]}').to_pyarrow_table()\n"
                "print(json.dumps(sorted(rows['name'].to_pylist())))",
                table,
            )
        )


def wait_for_port(process: int, port: int) -> None:
    """Wait until something listens at a port of a process's network."""
    files = [Path(f"/proc/{process}/net/{name}") for name in ("tcp", "tcp6")]
    deadline = time.monotonic() + 120
    while not any(f":{port:04X} " in file.read_text() for file in files):
        assert time.monotonic() < deadline, f"nothing listens at {port}"
        time.sleep(0.2)


@pytest.fixture
def compose() -> dict[str, Any]:
    """The services of the compose file."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]


@pytest.fixture
def network(stages: dict[str, Image], compose: dict[str, Any], tmp_path: Path) -> Iterator[Network]:
    service, data, hosts = compose["minio"], tmp_path / "data", tmp_path / "hosts"
    data.mkdir()
    hosts.write_text(f"127.0.0.1 localhost minio {HOSTNAME}\n")
    keys = service["environment"]
    command = replace(stages["python"], entrypoint=service["entrypoint"]).command(
        service["command"],
        {"/data": data},
        read_only={"/usr/local/bin/minio": PACKAGES["minio"].path()},
        environment={"PATH": "/usr/local/bin:/usr/bin", **keys},
    )
    with (tmp_path / "minio.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        inside = first_process(process)
        wait_for_port(inside, 9000)
        yield Network(
            inside,
            hosts,
            {
                "AWS_ACCESS_KEY_ID": keys["MINIO_ROOT_USER"],
                "AWS_SECRET_ACCESS_KEY": keys["MINIO_ROOT_PASSWORD"],
                "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
                "AWS_REGION": "us-east-1",
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_ALLOW_HTTP": "true",
            },
        )
    finally:
        kill(process)


def test_compose_file_lands_in_minio_and_lists_the_tables(
    stages: dict[str, Image], compose: dict[str, Any], network: Network
) -> None:
    said = {}
    preview = {"command": ["table", "preview", "people", "--to", "lake.yaml"]}
    services = {**compose, "preview": {**compose["tables"], **preview}}
    for name in ("load", "tables", "preview"):
        service = services[name]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        ((own, place, _),) = (volume.split(":") for volume in service["volumes"])
        command = stages["lakeport"].command(
            service["command"],
            read_only={"/etc/hosts": network.hosts, place: DEPLOY / own},
            environment=service["environment"],
            network=True,
        )
        said[name] = run(network.join(command))
    assert "people  delta" in said["tables"]
    assert "Grace" in said["preview"]
    assert network.names("raw/people") == NAMES


def secret(network: Network) -> dict[str, str]:
    """The variables of the manifests' secret, with MinIO's address, which AWS needs none of."""
    keys = {name: value for name, value in network.keys.items() if "KEY" in name}
    return {**keys, "LAKEPORT_AWS_ENDPOINT": "http://minio:9000"}


def config_map(manifests: list[dict[str, Any]], folder: Path) -> Path:
    """A folder with the files of the manifests' ConfigMap."""
    (data,) = (each["data"] for each in manifests if each["kind"] == "ConfigMap")
    folder.mkdir()
    for name, content in data.items():
        (folder / name).write_text(content)
    return folder


def test_cron_job_lands_new_files_each_time(
    stages: dict[str, Image], network: Network, tmp_path: Path
) -> None:
    manifests = read_manifests("cronjob.yaml")
    pod = manifests[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    files = config_map(manifests, tmp_path / "config")
    place = next(m["mountPath"] for m in container["volumeMounts"] if m["name"] == "lake")
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    command = stages["lakeport"].command(
        container["args"],
        read_only={"/etc/hosts": network.hosts, place: files},
        environment={**variables, **secret(network)},
        network=True,
    )
    network.put("in/orders/1.csv", "id,name\n1,Ada\n")
    run(network.join(command))
    network.put("in/orders/2.csv", "id,name\n2,Grace\n")
    run(network.join(command))
    assert network.names("raw/orders") == NAMES


def test_spark_starts_its_driver_and_executors_from_the_image(
    stages: dict[str, Image], network: Network, tmp_path: Path
) -> None:
    """As Spark on Kubernetes starts its pods; the master is a standalone one, without workers."""
    manifests = read_manifests("spark-application.yaml")
    application = manifests[-1]["spec"]
    files = config_map(manifests, tmp_path / "config")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark.properties").write_text(
        "spark.master spark://127.0.0.1:7077\n"
        "spark.driver.host 127.0.0.1\n"
        f"spark.driver.port {DRIVER_PORT}\n"
    )
    network.put("in/orders/1.csv", CSV)
    place = application["driver"]["configMaps"][0]["path"]

    def start(image: Image, name: str, command: list[str], **variables: str) -> Any:
        read_only = {
            "/etc/hosts": network.hosts,
            "/opt/spark/conf": tmp_path / "conf",
            place: files,
        }
        log = stack.enter_context((tmp_path / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            network.join(
                image.command(command, read_only=read_only, environment=variables, network=True)
            ),
            env={},
            stdout=log,
            stderr=log,
        )
        stack.callback(kill, process)
        return process

    with ExitStack() as stack:
        master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
        start(replace(stages["spark"], entrypoint=["spark-class"]), "master", master)
        wait_for_port(network.process, 7077)
        driver = start(
            stages["spark"],
            "driver",
            [
                *("driver", "--properties-file", "/opt/spark/conf/spark.properties"),
                *("--class", "org.apache.spark.deploy.PythonRunner"),
                application["mainApplicationFile"],
            ],
            SPARK_DRIVER_BIND_ADDRESS="127.0.0.1",
            SPARK_CONF_DIR="/opt/spark/conf",
            **secret(network),
        )
        wait_for_port(network.process, DRIVER_PORT)
        options = ["--add-modules=jdk.incubator.vector", f"-Dspark.driver.port={DRIVER_PORT}"]
        options += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        start(
            stages["spark"],
            "executor",
            ["executor"],
            SPARK_DRIVER_URL=f"spark://CoarseGrainedScheduler@127.0.0.1:{DRIVER_PORT}",
            SPARK_EXECUTOR_ID="1",
            SPARK_EXECUTOR_CORES=str(application["executor"]["cores"]),
            SPARK_EXECUTOR_MEMORY=application["executor"]["memory"],
            SPARK_APPLICATION_ID="app",
            SPARK_EXECUTOR_POD_IP="127.0.0.1",
            SPARK_EXECUTOR_POD_NAME="lakeport-exec-1",
            SPARK_RESOURCE_PROFILE_ID="0",
            **{f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate(options)},
        )
        driver.wait(300)
        assert driver.returncode == 0, (tmp_path / "driver.log").read_text()
    assert network.names("raw/orders") == NAMES
