from __future__ import annotations

import json
import shlex

import pytest

from lakeport.host.command import command_line, masked, started_by

CANARY = 'cana"ry\\5f3a-é'


def test_what_began_a_run_is_known_while_it_goes_on() -> None:
    assert command_line() is None
    with started_by("lakeport", ["land", "-"]):
        assert command_line() == ("lakeport", "land", "-")
        with started_by("target-lakeport", []):
            assert command_line() == ("target-lakeport",)
        assert command_line() == ("lakeport", "land", "-")
    assert command_line() is None


@pytest.mark.parametrize("option", [["--config_json"], []])
@pytest.mark.parametrize("known", [True, False])
def test_secrets_of_an_inline_config_are_masked_however_they_are_escaped(
    option: list[str], known: bool
) -> None:
    values = {"path": "/lake", "aws_secret_access_key": CANARY, "spark": {"x.password": CANARY}}
    text = json.dumps(values)
    arguments = [*option, text] if option else [f"--config_json={text}"]
    safe = masked(arguments, [CANARY] if known else [])
    assert "5f3a" not in str(safe)
    found = json.loads(safe[-1].removeprefix("--config_json="))
    assert found["path"] == "/lake" and found["spark"] == {"x.password": "**********"}


def test_known_secrets_and_what_looks_like_one_are_masked_anywhere() -> None:
    safe = masked(["land", "https://a/b.csv?sig=AbC", "--to", "s3://k:5f3a-5f3a@b"], ["5f3a-5f3a"])
    assert safe == ("land", "https://a/b.csv?sig=**********", "--to", "s3://k:**********@b")


@pytest.mark.parametrize(
    "line",
    [
        "land - --to lake.yaml --set maximum_batch_rows=5",
        "land 'a b/*.csv' --to ./lake --column token=string --rename 'pass word=secret_key'",
        'target local --catalog_json \'{"streams":[{"properties":{"token":{"type":"string"}}}]}\'',
        "land {a,b}.csv --to ./lake --null-value '{' --null-value '{}'",
    ],
)
def test_what_holds_no_secret_stays_as_it_was_typed(line: str) -> None:
    arguments = shlex.split(line)
    assert masked(arguments, ["5f3a-5f3a"]) == tuple(arguments)
