"""References in config values; AWS's stores answer from a server of the test's own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport import scrub
from lakeport.cli.app import main
from lakeport.config.files import expand
from lakeport.config.load import load_target
from lakeport.config.references import is_reference
from lakeport.errors import ConfigError, MissingDependency

CANARY = "canary-5f3a"
FIELDS = json.dumps({"password": CANARY, "port": 5432})
ANSWERS: dict[str, dict[str, Any]] = {
    "db": {"SecretString": FIELDS},
    "text": {"SecretString": CANARY},
    "bytes": {"SecretBinary": "Y2FuYXJ5LTVmM2E="},
    "/lake/key": {"Parameter": {"Value": CANARY}},
    "none": {"__type": "ResourceNotFoundException", "message": CANARY},
    "/none": {"__type": "ParameterNotFound", "message": CANARY},
    "closed": {"__type": "AccessDeniedException", "message": CANARY},
    "broken": {"__type": "InvalidRequestException", "message": CANARY},
}


class AmazonJson(BaseHTTPRequestHandler):
    """Speaks AWS's JSON protocol, as Secrets Manager and SSM do."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = asked.get("SecretId") or asked["Name"]
        answer = ANSWERS[name.rpartition(":")[2] if name.startswith("arn:") else name]
        body = json.dumps(answer).encode()
        self.send_response(400 if "__type" in answer else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), AmazonJson) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _place(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scrub, "_known", set())
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": server,
        "NAME": "Ada",
    }.items():
        monkeypatch.setenv(name, value)
    Path("key").write_text(f"{CANARY}\n")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${NAME}", "Ada"),
        ("${env:NAME}", "Ada"),
        ("$${env:NAME}", "${env:NAME}"),
        ("a ${file:key} ${NAME}", f"a {CANARY} Ada"),
        ("${aws-secret:db}", FIELDS),
        ("${aws-secret:db#password}", CANARY),
        ("${aws-secret:db#port}", "5432"),
        ("${aws-secret:text}", CANARY),
        ("${aws-secret:bytes}", CANARY),
        ("${aws-secret:arn:aws:secretsmanager:eu-north-1:1:secret:text}", CANARY),
        ("${aws-ssm:/lake/key}", CANARY),
        ("{{ aws_secret_var('text') }}", CANARY),
    ],
)
def test_a_reference_is_replaced(text: str, value: str) -> None:
    assert expand({"k": [text]}, {"NAME": "Ada"}, "lake.yaml") == {"k": [value]}
    assert CANARY not in value or CANARY not in scrub.scrub(f"about {CANARY}: {value}")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("env:NOPE", ["environment variable 'NOPE'", "set NOPE"]),
        ("file:nope", ["no secret 'nope'"]),
        ("file:.", ["could not be asked", "IsADirectoryError"]),
        ("aws-secret:none", ["AWS Secrets Manager has no secret 'none'"]),
        ("aws-secret:", ["no secret of a name like ''", "${aws-secret:NAME}"]),
        ("aws-secret:closed", ["refused", "AccessDenied", "secretsmanager:GetSecretValue"]),
        ("aws-secret:broken", ["could not be asked", "InvalidRequestException"]),
        ("aws-secret:text#key", ["no JSON object", "leave #key out"]),
        ("aws-secret:db#kee", ["no field 'kee'", "'password', 'port'"]),
        ("aws-ssm:/none", ["Parameter Store has no secret '/none'"]),
        ("gcp-secret:name", ["projects/PROJECT/secrets/NAME"]),
        ("azure-secret:name", ["${azure-secret:VAULT/NAME}"]),
        ("aws-sceret:x", ["did you mean `aws-secret`", "env, file, aws-secret, aws-ssm"]),
    ],
)
def test_a_wrong_reference_is_told(reference: str, words: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^lake\.yaml") as caught:
        expand(f"${{{reference}}}", {}, "lake.yaml")
    assert all(word in str(caught.value) for word in words), caught.value
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "extra"),
    [("gcp-secret:projects/p/secrets/n", "gcp-secrets"), ("vault:kv/n#f", "vault")],
)
def test_an_sdk_that_is_missing_is_told_with_its_extra(
    kind: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "hvac", None)
    monkeypatch.setitem(__import__("sys").modules, "google.cloud.secretmanager", None)
    with pytest.raises(MissingDependency) as caught:
        expand(f"${{{kind}}}", {}, "lake.yaml")
    assert caught.value.hint == f"pip install 'lakeport[{extra}]'"


def test_references_count_wherever_a_user_writes_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"destination": "amazon_s3", "bucket": "lake", "aws_access_key_id": "a"}
    reference = "${aws-secret:db#password}"
    Path("lake.yaml").write_text(json.dumps({**keys, "aws_secret_access_key": reference}))
    found = [
        load_target("lake.yaml"),
        load_target({**keys, "aws_secret_access_key": reference}),
        load_target(keys, {"aws_secret_access_key": reference, "spark": {"a": "${NAME}"}}),
    ]
    monkeypatch.setenv("LAKEPORT_AWS_SECRET_ACCESS_KEY", reference)
    found.append(load_target(keys))
    assert [each.secrets() for each in found] == [("a", CANARY)] * 4
    assert found[2].spark == {"a": "${NAME}"}
    assert is_reference(reference) and not is_reference("${NAME}") and not is_reference("x")


def test_a_secret_is_in_no_report(capsys: pytest.CaptureFixture[str]) -> None:
    Path("lake.yaml").write_text("destination: local\npath: ./lake/${file:key}\n")
    Path("t.csv").write_text("a\n1\n")
    assert main(["land", "t.csv", "--to", "lake.yaml", "--engine", "threads", "--json"]) == 0
    out, err = capsys.readouterr()
    assert lakeport.tables("lake.yaml")[0].rows == 1 and CANARY not in out + err
    reports = [*Path("lake", CANARY).glob("_lakeport/**/*.json")]
    logs = [*Path("lake", CANARY).glob("*/_delta_log/*.json")]
    assert reports and logs
    assert not [file for file in (*reports, *logs) if CANARY in file.read_text()]
    assert main(["land", "nope.csv", "--to", "lake.yaml", "--engine", "threads"]) != 0
    assert CANARY not in capsys.readouterr().err


def test_the_command_line_takes_references_to_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["tables", "s3://lake/raw", "--set", "aws_access_key_id=${file:key}", "--set"]
    assert main([*line, f"aws_secret_access_key={CANARY}"]) == 2
    out = capsys.readouterr().err
    assert "is a secret" in out and CANARY not in out and "${file:" in out
