"""Real object stores on this machine, for the tests: MinIO, fake-gcs-server, Azurite.

Each is built or installed once into the cache folder (`$LAKEPORT_CACHE`, else
`$XDG_CACHE_HOME/lakeport`, else `~/.cache/lakeport`; `python -m tests.emulators --build` does it
ahead) and then runs as a plain process on a free port of 127.0.0.1:

    with Minio(tmp_path) as minio:
        bucket = minio.create_bucket("lake")
        minio.client().put_object(Bucket=bucket, Key="a", Body=b"1", IfNoneMatch="*")

A tool which is missing is an error that says what to install; nothing here ever skips a test.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import parse_qs

BUILD_SECONDS = 1800
START_SECONDS = 60
STOP_SECONDS = 10
SAS_PERMISSIONS = ("read", "add", "create", "write", "delete", "list")
_INSTALL = {
    "go": "Install Go 1.26 or newer (https://go.dev/dl/) and put `go` on PATH.",
    "npm": "Install Node.js 20 or newer with npm (https://nodejs.org/, or `apt-get install npm`).",
    "node": "Install Node.js 20 or newer (https://nodejs.org/, or `apt-get install nodejs`).",
}


class EmulatorError(RuntimeError):
    """An emulator could not be built or started."""


class Keys(NamedTuple):
    """What an S3 client signs with; `token` is empty for permanent keys."""

    access_key: str
    secret_key: str
    token: str = ""


@dataclass(frozen=True)
class Package:
    """A pinned package, and the file in its cache folder which starts it."""

    name: str
    version: str
    source: str
    tool: str
    program: str

    def path(self) -> Path:
        """Return the program; the first caller builds it while the others wait."""
        folder = cache_folder() / f"{self.name}-{self.version}"
        with locked(folder.with_name(folder.name + ".lock")):
            if not folder.is_dir():
                partial = folder.with_name(folder.name + ".partial")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir()
                self._build(partial)
                partial.rename(folder)
        return folder / self.program

    def _build(self, folder: Path) -> None:
        environment = dict(os.environ)
        command = [find_tool(self.tool, self.name)]
        if self.tool == "go":
            environment |= {"GOBIN": str(folder), "GOFLAGS": "-trimpath", "CGO_ENABLED": "0"}
            environment |= {"GOOS": "", "GOARCH": "", "GOWORK": "off"}
            command += ["install", "-ldflags=-s -w", f"{self.source}@{self.version}"]
        else:
            command += ["install", f"--prefix={folder}", "--omit=dev", "--ignore-scripts"]
            command += ["--no-audit", "--no-fund", "--before=2026-09-01"]
            command += [f"{self.source}@{self.version}"]
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, timeout=BUILD_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise EmulatorError(f"{self.name}: not built in {BUILD_SECONDS} s") from error
        if done.returncode or not (folder / self.program).is_file():
            tail = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
            raise EmulatorError(f"{self.name}: `{' '.join(command)}` failed:\n{tail}")


@dataclass(frozen=True)
class Environment(Package):
    """A virtual environment of pinned packages; it can't be moved, so a file tells it is whole."""

    requirements: str = ""

    def path(self) -> Path:
        """Return its interpreter; the first caller makes it while the others wait."""
        folder = cache_folder() / f"{self.name}-{self.version}"
        python = folder / self.program
        with locked(folder.with_name(folder.name + ".lock")):
            whole = folder / "whole"
            if not whole.exists() or whole.read_text("utf-8") != self.requirements:
                self._run(sys.executable, "-m", "venv", "--clear", str(folder))
                listed = folder / "requirements.txt"
                listed.write_text(self.requirements, "utf-8")
                self._run(str(python), "-m", "pip", "install", "-q", "-r", str(listed))
                listed.rename(whole)
        return python

    def site_packages(self) -> Path:
        """Return the folder of its packages, which is made first if need be."""
        return next(self.path().parents[1].glob("lib/python3.*/site-packages"))

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
        if done.returncode:
            raise EmulatorError(
                f"{self.name}: `{' '.join(command)}` failed:\n{done.stderr[-3000:]}"
            )


_NO_TAG = "v0.0.0-20260212201848-7aac2a2c5b7c"  # MinIO's releases are not semantic versions
_GCS = "github.com/fsouza/fake-gcs-server"
# Azurite 3.36 and later want Node.js 22.
_AZURITE = "node_modules/azurite/dist/src/blob/main.js"
PACKAGES = {
    "minio": Package("minio", _NO_TAG, "github.com/minio/minio", "go", "minio"),
    "fake-gcs-server": Package("fake-gcs-server", "v1.56.1", _GCS, "go", "fake-gcs-server"),
    "azurite": Package("azurite", "3.35.0", "azurite", "npm", _AZURITE),
}
ACTIONLINT = Package(
    "actionlint", "v1.7.12", "github.com/rhysd/actionlint/cmd/actionlint", "go", "actionlint"
)
"""Checks GitHub's workflows."""


def _spark(version: str, java: str) -> Environment:
    """A PySpark beside the installed one, with a Java that it runs on."""
    minor = version.rpartition(".")[0]
    pinned = f"pyspark=={version}\njdk4py=={java}\n"
    return Environment(f"spark-{minor}", version, "pyspark", "python", "bin/python", pinned)


SPARKS = {
    "3.5": _spark("3.5.9", "17.0.9.2"),
    "4.0": _spark("4.0.5", "21.0.8.2"),
    "4.1": _spark("4.1.4", "21.0.8.2"),
    "4.3": _spark("4.3.0", "25.0.2.1"),
}
"""The Sparks that the tests run on beside the installed one. Their packages go first in a path."""
SHARED_SPARKS = ("3.5", "4.0")
"""Those that a share of the tests runs on each time."""


def cache_folder() -> Path:
    """Return the folder of the built emulators; it exists afterwards."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakeport"
    folder = Path(os.environ.get("LAKEPORT_CACHE") or cache).absolute() / "emulators"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def find_tool(tool: str, needed_by: str) -> str:
    """Return the path of a command, or raise an error that says what to install."""
    found = shutil.which(tool)
    if found is None:
        raise EmulatorError(f"{needed_by} needs `{tool}`, which is not on PATH. {_INSTALL[tool]}")
    return found


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def free_port() -> int:
    """Return one below those that connections get: none takes it while a server is down."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Server:
    """A server process; a context manager. Killed or stopped, it starts again on the same port."""

    package: ClassVar[Package]
    health: ClassVar[str]

    def __init__(self, data: Path) -> None:
        self.data = data / self.package.name
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Return the address without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Return the id of the running process."""
        if self._process is None:
            raise EmulatorError(f"{self.package.name} is not running")
        return self._process.pid

    def command(self, program: Path) -> list[str]:
        """Return the command line."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Return the variables the process gets beside PATH and HOME."""
        return {}

    def start(self) -> Self:
        """Start the process and wait until it answers; another program may take the port first."""
        program = self.package.path()
        self.data.mkdir(parents=True, exist_ok=True)
        known_port = self.port
        for _ in range(3):
            self.port = known_port or free_port()
            if self._started(program):
                return self
        log = (self.data / "server.log").read_text(errors="replace")[-3000:]
        raise EmulatorError(f"{self.package.name} did not start on port {self.port}:\n{log}")

    def _started(self, program: Path) -> bool:
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.data), **self.environment()}
        with (self.data / "server.log").open("ab") as log:
            command = self.command(program)
            self._process = self._spawn(
                command, env=variables, cwd=self.data, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._healthy():
                return True
            time.sleep(0.05)
        self.kill()
        return False

    def _spawn(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, **options)

    def _healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        with closing(connection):
            try:
                connection.request("GET", self.health)
                return connection.getresponse().status < 500
            except (OSError, http.client.HTTPException):
                return False

    def stop(self) -> None:
        """Ask the process to end, and kill it if it does not; the data stays."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Kill the process at once, as a crash does (`start` brings it back)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Freeze the process: connections open, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)  # a thread of it may be about to answer

    def resume(self) -> None:
        """Let a paused process run on."""
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()


def s3_client(endpoint: str, access_key: str, secret_key: str, token: str = "", **o: Any) -> Any:
    """Return a boto3 S3 client; more options go to `botocore.config.Config`."""
    return _aws_client("s3", endpoint, Keys(access_key, secret_key, token), **o)


_AWS_LOCK = threading.Lock()  # a session makes one client at a time


@cache
def _aws_session() -> Any:
    """Return the session of all clients; each session takes 0.1 s to read the service's model."""
    import boto3  # type: ignore[import-untyped,unused-ignore]

    return boto3.session.Session()


def _aws_client(service: str, endpoint: str, keys: Keys, **options: Any) -> Any:
    from botocore.config import Config  # type: ignore[import-untyped,unused-ignore]

    settings = {"connect_timeout": 5, "read_timeout": 30, "s3": {"addressing_style": "path"}}
    with _AWS_LOCK:
        return _aws_session().client(
            service,
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=keys.access_key,
            aws_secret_access_key=keys.secret_key,
            aws_session_token=keys.token or None,
            config=Config(**{**settings, **options}),
        )


def s3_config(store: Any) -> dict[str, str]:
    """How a destination's config says where a server is, and its keys."""
    return {
        "aws_endpoint": store.endpoint,
        "aws_access_key_id": store.access_key,
        "aws_secret_access_key": store.secret_key,
    }


class Minio(Server):
    """S3 with signatures, policies and STS. Honours `If-None-Match: *` on PUT and on complete."""

    package = PACKAGES["minio"]
    health = "/minio/health/cluster"  # 200 once buckets and users are loaded
    region = "us-east-1"
    kms_key = "lake-key"

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.keys = Keys("root" + secrets.token_hex(8), secrets.token_hex(20))
        self.access_key, self.secret_key, _ = self.keys

    def command(self, program: Path) -> list[str]:
        """Return the command line; the keys travel in the environment."""
        folders = [f"--certs-dir={self.data}/certs", f"{self.data}/objects"]
        return [str(program), "server", "--quiet", f"--address=127.0.0.1:{self.port}", *folders]

    def environment(self) -> dict[str, str]:
        """Return the keys, and switch off the console, updates and the root-disk check."""
        root = {"MINIO_ROOT_USER": self.access_key, "MINIO_ROOT_PASSWORD": self.secret_key}
        root["MINIO_KMS_SECRET_KEY"] = (
            f"{self.kms_key}:{b64encode(secrets.token_bytes(32)).decode()}"
        )
        return root | {"MINIO_BROWSER": "off", "MINIO_UPDATE": "off", "MINIO_CI_CD": "1"}

    @property
    def config(self) -> dict[str, str]:
        """How a destination's config says where the server is, and who root is."""
        return s3_config(self)

    @property
    def delta_options(self) -> dict[str, str]:
        """How delta-rs reaches the server, as root."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ALLOW_HTTP": "true",
        }

    def client(self, keys: Keys | None = None, **options: Any) -> Any:
        """Return a boto3 S3 client, with root's keys unless others are given."""
        return _aws_client("s3", self.endpoint, keys or self.keys, **options)

    def create_bucket(self, name: str) -> str:
        """Create a bucket (names have 3 to 63 characters)."""
        self.client().create_bucket(Bucket=name)
        return name

    def restricted(self, policy: Mapping[str, Any], seconds: int = 3600) -> Keys:
        """Return temporary keys which may do what an IAM policy allows, and nothing else."""
        answer = _aws_client("sts", self.endpoint, self.keys).assume_role(
            RoleArn="arn:aws:iam::123456789012:role/test",
            RoleSessionName="test",
            Policy=json.dumps(policy),
            DurationSeconds=seconds,  # MinIO takes 900 (15 minutes) and more
        )["Credentials"]
        return Keys(answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"])

    def of_folder(self, bucket: str, folder: str) -> Keys:
        """Return temporary keys which may do everything in one folder, and nothing elsewhere."""
        there = f"arn:aws:s3:::{bucket}"
        listed = {"Action": ["s3:ListBucket", "s3:GetBucketLocation"], "Resource": [there]}
        done = {"Action": ["s3:*"], "Resource": [f"{there}/{folder}/*"]}
        rules = [{"Effect": "Allow", **rule} for rule in (listed, done)]
        return self.restricted({"Version": "2012-10-17", "Statement": rules})


class FakeGcs(Server):
    """The JSON API of Google Cloud Storage, for any credentials or none.

    Simple, multipart and resumable uploads all honour `ifGenerationMatch`. In memory by default:
    on disk, "a" and "a/b" cannot both be objects, as a file is no folder.
    """

    package = PACKAGES["fake-gcs-server"]
    health = "/_internal/healthcheck"

    def __init__(self, data: Path, *, on_disk: bool = False) -> None:
        super().__init__(data)
        self.on_disk = on_disk

    def command(self, program: Path) -> list[str]:
        """Return the command line; resumable uploads continue at the external URL."""
        backend = ["-backend", "filesystem" if self.on_disk else "memory"]
        store = [*backend, "-filesystem-root", f"{self.data}/objects", "-log-level", "warn"]
        here = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port)]
        public = ["-public-host", f"127.0.0.1:{self.port}", "-external-url", self.endpoint]
        return [str(program), *store, *here, *public]

    @property
    def config(self) -> dict[str, str]:
        """How a destination's config says where the server is."""
        return {"google_endpoint": self.endpoint}

    def client(self, credentials: Any = None) -> Any:
        """Return a google-cloud-storage client, anonymous unless credentials are given."""
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import storage  # type: ignore[import-untyped,unused-ignore]

        return storage.Client(
            project="test",
            credentials=credentials or AnonymousCredentials(),  # type: ignore[no-untyped-call,unused-ignore]
            client_options={"api_endpoint": self.endpoint},
        )

    def create_bucket(self, name: str) -> str:
        """Create a bucket."""
        self.client().create_bucket(name)
        return name


class TokenServer:
    """Google's token endpoint for one service account whose key it makes; a context manager.

    A request whose assertion this account's key did not sign gets 401 `invalid_grant`.
    """

    email = "tester@test.iam.gserviceaccount.com"

    def __init__(self, *, expires_in: int = 3600) -> None:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        self.private_key = private.decode()
        public = serialization.PublicFormat.SubjectPublicKeyInfo
        self.public_key = key.public_key().public_bytes(pem, public)
        self.expires_in = expires_in
        self.tokens: list[str] = []
        self.refused = 0
        self._server = _TokenHttpServer(("127.0.0.1", 0), _TokenHandler)
        self._server.owner = self
        self.token_uri = f"http://127.0.0.1:{self._server.server_address[1]}/token"

    @property
    def issued(self) -> int:
        """Return how many tokens were issued."""
        return len(self.tokens)

    def key(self) -> dict[str, str]:
        """Return the content of the service account's key file."""
        account = {"type": "service_account", "project_id": "test", "client_id": "1"}
        account |= {"private_key_id": "1", "private_key": self.private_key}
        return account | {"client_email": self.email, "token_uri": self.token_uri}

    def write_key(self, path: Path) -> Path:
        """Write the key file, readable by its owner only."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(self.key()))
        return path

    def credentials(self, key: Mapping[str, str] | None = None) -> Any:
        """Return google-auth credentials of the key, or of a changed copy of it."""
        from google.oauth2.service_account import Credentials

        make: Any = Credentials.from_service_account_info
        return make(dict(key or self.key()))

    def issue(self, form: Mapping[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Answer a request for a token."""
        from google.auth import jwt

        try:
            # The audience is not compared: google-auth always names Google's own endpoint there.
            jwt.decode(form["assertion"][0], certs=self.public_key)  # type: ignore[no-untyped-call,unused-ignore]
        except (KeyError, ValueError) as error:
            self.refused += 1
            return 401, {"error": "invalid_grant", "error_description": type(error).__name__}
        self.tokens.append("ya29." + secrets.token_urlsafe(32))
        token = {"access_token": self.tokens[-1], "token_type": "Bearer"}
        return 200, {**token, "expires_in": self.expires_in}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _TokenHttpServer(ThreadingHTTPServer):
    daemon_threads = True
    owner: TokenServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet: a client that goes away later would be told to another test's stderr."""


class _TokenHandler(BaseHTTPRequestHandler):
    server: _TokenHttpServer

    def log_message(self, _format: str, *_args: Any) -> None:
        """Write no access log."""

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"] or 0)).decode())
        status, answer = self.server.owner.issue(form)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Azurite(Server):
    """Azure's Blob API with the account every emulator has. Honours `If-None-Match: *`."""

    package = PACKAGES["azurite"]
    health = "/"
    account = "devstoreaccount1"
    # Published by Microsoft for emulators; it opens nothing else.
    account_key = (
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    )

    def command(self, program: Path) -> list[str]:
        """Return the command line; newer API versions than Azurite knows are let through."""
        node = find_tool("node", self.package.name)
        here = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        lax = ["--skipApiVersionCheck", "--loose", "--disableTelemetry", "--silent"]
        return [node, str(program), "--location", f"{self.data}/objects", *here, *lax]

    @property
    def blob_endpoint(self) -> str:
        """Return the account's address."""
        return f"{self.endpoint}/{self.account}"

    @property
    def config(self) -> dict[str, str]:
        """How a destination's config says where the server is, and the account's key."""
        return {"access_key": self.account_key, "azure_endpoint": self.endpoint}

    @property
    def delta_options(self) -> dict[str, str]:
        """How delta-rs reaches the server."""
        return {
            "account_name": self.account,
            "account_key": self.account_key,
            "endpoint": self.blob_endpoint,
            "allow_http": "true",
        }

    def uri(self, container: str, path: str) -> str:
        """Return a folder's address as users write it."""
        return f"abfss://{container}@{self.account}.dfs.core.windows.net/{path}"

    def sas(self, container: str, hours: int = 1, **permissions: bool) -> str:
        """Return a signature for a container, valid since long ago; without names, for all."""
        from azure.storage.blob import ContainerSasPermissions, generate_container_sas

        return generate_container_sas(
            self.account,
            container,
            self.account_key,
            permission=ContainerSasPermissions(
                **(permissions or dict.fromkeys(SAS_PERMISSIONS, True))
            ),
            expiry=datetime.now(UTC) + timedelta(hours=hours),
            start=datetime.now(UTC) - timedelta(hours=9),
        )

    @property
    def connection_string(self) -> str:
        """Return the connection string which the Azure SDKs take."""
        account = f"AccountName={self.account};AccountKey={self.account_key}"
        return f"DefaultEndpointsProtocol=http;{account};BlobEndpoint={self.blob_endpoint};"

    def client(self, **options: Any) -> Any:
        """Return an azure-storage-blob service client which does not retry for minutes."""
        from azure.storage.blob import BlobServiceClient

        options = {"retry_total": 1, **options}
        return BlobServiceClient.from_connection_string(self.connection_string, **options)

    def create_container(self, name: str) -> str:
        """Create a container."""
        self.client().create_container(name)
        return name


def main() -> None:
    """Build every emulator, and the browser, ahead: `python -m tests.emulators --build`."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m tests.emulators", description=main.__doc__)
    parser.add_argument("--build", action="store_true", required=True, help="build all of them")
    parser.parse_args()
    from tests.browser import chromium
    from tests.orchestrators.environments import ORCHESTRATORS
    from tests.postgres import TAP_POSTGRES

    sparks = [SPARKS[minor] for minor in SHARED_SPARKS]
    tools = (ACTIONLINT, TAP_POSTGRES, *ORCHESTRATORS, *chromium.packages())
    for package in (*PACKAGES.values(), *tools, *sparks):
        began = time.monotonic()
        print(f"{package.name} {package.version}: ", end="", flush=True)
        program = package.path()
        print(f"{program} ({time.monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
