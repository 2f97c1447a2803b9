"""Sections 8 and 9: the connection test, and what is said when something fails."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest

from lakeport.errors import ConfigError, LakeportError
from lakeport.mage import AmazonS3
from tests.emulators import Minio
from tests.mage.conftest import Place, record, schema, singer


def test_a_connection_that_works(place: Place) -> None:
    assert place.made().test_connection() is True
    assert place.made(table=None).test_connection() is True


def test_a_connection_that_fails_says_what_and_how(
    s3: Place, minio: Minio, caplog: pytest.LogCaptureFixture
) -> None:
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket", "s3:GetObject"],
                "Resource": ["arn:aws:s3:::*"],
            }
        ],
    }
    keys = minio.restricted(policy)
    made = AmazonS3(
        config={
            **s3.config,
            "aws_access_key_id": keys.access_key,
            "aws_secret_access_key": keys.secret_key,
            "aws_session_token": keys.token,
        },
        logger=logging.getLogger("block"),
        test_connection=True,
    )
    with pytest.raises(LakeportError, match="PutObject"), caplog.at_level("INFO", "block"):
        made.process(io.BytesIO())
    told = [entry.message for entry in caplog.records if entry.name == "block"]
    line = json.loads(told[-1])
    assert (line["level"], line["caller"], line["type"]) == ("EXCEPTION", "AmazonS3", "LOG")
    assert "PutObject" in line["tags"]["error"]
    assert keys.secret_key not in caplog.text


@pytest.mark.parametrize(
    ("config", "lines", "named"),
    [
        ({"file_type": "avro"}, [], "'avro' is not one of parquet, csv"),
        ({}, [b'{"type": "SCHEMA", "schema": {}}'], "SCHEMA without a `stream`"),
        ({}, [record(id=1)], "before its stream's SCHEMA"),
        ({}, [{"type": "STATE"}], "STATE without a `value`"),
        ({"bucket": "no-such-bucket-here"}, None, "no-such-bucket-here"),
    ],
)
def test_an_error_is_logged_once_with_its_hint_and_raised(
    s3: Place,
    config: dict[str, Any],
    lines: list[Any] | None,
    named: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    messages = [schema({"id": {"type": "integer"}}), record(id=1)] if lines is None else lines
    with pytest.raises(LakeportError) as caught:
        AmazonS3(config={**s3.config, **config}).process(io.BytesIO(singer(*messages)))
    assert named in caught.value.message
    (line,) = [each for each in capfd.readouterr().err.splitlines() if each.startswith("ERROR")]
    told = json.loads(line[line.index("{") :])
    assert told["message"].startswith("AmazonS3 process failed with error")
    assert named in told["tags"]["error"]
    assert s3.config["aws_secret_access_key"] not in line


def test_no_config_is_told_by_its_missing_keys() -> None:
    with pytest.raises(ConfigError, match="`bucket` is missing"):
        AmazonS3().process(io.BytesIO(b""))


def test_templates_need_no_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert AmazonS3(show_templates=True).process(io.BytesIO()) is None
    assert "bucket" in json.loads(capsys.readouterr().out)["config"]
