from __future__ import annotations

import json
import shlex

import pytest

from lakeport.host.process import command_line, mask_command_line, record_command_line

CANARY = 'cana"ry\\5f3a-é'


def test_what_began_a_run_is_known_while_it_goes_on() -> None:
    assert command_line() is None
    with record_command_line("lakeport", ["land", "-"]):
        assert command_line() == ("lakeport", "land", "-")
        with record_command_line("target-lakeport", []):
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
    safe = mask_command_line(arguments, [CANARY] if known else [])
    assert "5f3a" not in str(safe)
    found = json.loads(safe[-1].removeprefix("--config_json="))
    assert found["path"] == "/lake" and found["spark"] == {"x.password": "**********"}


def test_known_secrets_and_what_looks_like_one_are_masked_anywhere() -> None:
    safe = mask_command_line(
        ["land", "https://a/b.csv?sig=AbC", "--to", "s3://k:5f3a-5f3a@b"], ["5f3a-5f3a"]
    )
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
    assert mask_command_line(arguments, ["5f3a-5f3a"]) == tuple(arguments)


@pytest.mark.parametrize(
    "tap",
    [
        "tap-x --token 5f3a5f3a --config tap.json",
        "tap-x --token=5f3a5f3a",
        "tap-x --api-key '5f3a \"5f3a' -v",
        "tap-x --auth 5f3a",
        "env API_TOKEN=5f3a5f3a tap-x",
        "sh -c 'API_TOKEN=5f3a5f3a tap-x --password \"5f3a\"'",
        'tap-x --config \'{"start": 1, "oauth": [{"client_secret": "5f3a"}]}\'',
        "tap-x --url https://me:5f3a@host/",
        "tap-x --token '5f3a",
    ],
)
@pytest.mark.parametrize("form", [["--from-tap", "{}"], ["--from-tap={}"]])
def test_secrets_among_a_taps_arguments_are_masked(form: list[str], tap: str) -> None:
    safe = mask_command_line(["land", *(part.format(tap) for part in form), "--to", "./lake"], [])
    assert "5f3a" not in str(safe) and "**********" in str(safe)
    assert safe[-2:] == ("--to", "./lake")


def test_a_tiny_secret_of_a_tap_is_masked_and_no_more_than_that() -> None:
    safe = mask_command_line(
        ["land", "--from-tap", "tap-X --token X --config X.json --state=a"], []
    )
    assert safe[-1] == "tap-X --token '**********' --config X.json --state=a"
    plain = "tap-x --config tap.json --catalog 'a b.json' -p props.json"
    assert mask_command_line(["--from-tap", plain], []) == ("--from-tap", plain)
