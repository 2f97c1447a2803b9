"""The Dockerfile and the manifests in `deploy/`: linted, and held against their schemas."""

from __future__ import annotations

import gzip
import json
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError

from tests.operations.image import ROOT, read_steps

DEPLOY = ROOT / "deploy"
SCHEMAS = Path(__file__).with_name("schemas")
OPERATOR = "sparkoperator.k8s.io/v1beta2"


def read_schema(name: str) -> Any:
    """A schema as it was published (Apache License 2.0), without its descriptions.

    Kubernetes' are the strict ones of the kinds that are used here. The Spark application's is that
    of the operator's release.
    """
    return json.loads(gzip.decompress((SCHEMAS / f"{name}.json.gz").read_bytes()))


def read_manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text("utf-8")))


def forbid_unknown(schema: Any) -> Any:
    """A schema that also refuses unknown fields, which an API server would drop in silence."""
    if isinstance(schema, list):
        return [forbid_unknown(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: forbid_unknown(each) for name, each in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        closed.setdefault("additionalProperties", False)
    return closed


def test_dockerfile_passes_a_linter() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0)


def test_pods_command_is_a_shells() -> None:
    done = subprocess.run(["sh", "-n", DEPLOY / "spark-pod"], capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)


def test_compose_file_follows_the_specification() -> None:
    (compose,) = read_manifests("compose.yaml")
    Draft202012Validator(read_schema("compose-spec")).validate(compose)


@pytest.mark.parametrize("name", ["cronjob.yaml", "spark-application.yaml"])
def test_manifests_follow_kubernetes_schemas(name: str) -> None:
    schema = read_schema("kubernetes-v1.37")
    for manifest in read_manifests(name):
        if manifest["apiVersion"] != OPERATOR:
            own = Draft202012Validator({**schema, "$ref": f"#/$defs/{manifest['kind']}"})
            own.validate(manifest)
            with pytest.raises(ValidationError, match="'specs' was unexpected"):
                own.validate({**manifest, "specs": {}})


def test_spark_application_follows_the_operators_schema() -> None:
    schema = forbid_unknown(read_schema("sparkapplication-v2.5.2"))
    schema["properties"]["metadata"] = {"type": "object"}  # Kubernetes' own
    application = read_manifests("spark-application.yaml")[-1]
    assert application["apiVersion"] == OPERATOR
    validator = Draft202012Validator(schema)
    validator.validate(application)
    application["spec"]["driver"]["memorySize"] = "1g"
    with pytest.raises(ValidationError, match="'memorySize' was unexpected"):
        validator.validate(application)


def containers() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each pod's settings and those of its container, in all manifests."""
    for manifest in (*read_manifests("cronjob.yaml"), *read_manifests("spark-application.yaml")):
        spec = manifest.get("spec", {})
        if manifest["kind"] == "CronJob":
            pod = spec["jobTemplate"]["spec"]["template"]["spec"]
            yield pod["securityContext"], pod["containers"][0]
        elif manifest["kind"] == "SparkApplication":
            for part in (spec["driver"], spec["executor"]):
                yield part["podSecurityContext"], part


def test_every_pod_is_restricted_and_writes_to_tmp_alone() -> None:
    found = list(containers())
    assert len(found) == 3
    for pod, container in found:
        assert pod["runAsNonRoot"] is True
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        writable = [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")]
        assert writable == ["/tmp"]


def test_spark_application_names_the_pinned_spark() -> None:
    version = read_manifests("spark-application.yaml")[-1]["spec"]["sparkVersion"]
    assert f"pyspark=={version}" in (ROOT / "requirements.lock").read_text("utf-8").splitlines()


def test_image_is_built_of_what_the_wheel_needs_and_no_more() -> None:
    copied = {
        source
        for instruction, value in read_steps(ROOT / "Dockerfile")
        if instruction == "COPY" and not value.startswith("--from=")
        for source in shlex.split(value)[:-1]
    }
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == copied
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {"pyproject.toml", project["readme"], *project["license-files"]} <= copied


def test_image_without_a_target_is_the_command_line() -> None:
    assert read_steps(ROOT / "Dockerfile")[-1] == ("FROM", "lakeport")
