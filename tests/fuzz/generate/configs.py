"""Config files, YAML and JSON: right ones, ones with odd values, and damaged ones."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.fuzz.case import Case
from tests.fuzz.generate.nasty import NUMBERS, damaged, text

_ODD = [
    "~",
    "null",
    "",
    "yes",
    "no",
    "on",
    "true",
    "0x1F",
    "0o17",
    "0777",
    "1_000",
    "1e3",
    ".inf",
    ".nan",
    "NaN",
    "Infinity",
    "-0",
    "12:30:45",
    "2024-03-04",
    "'x'",
    '"x',
    "|",
    ">",
    "- a",
    "? a",
    "&a b",
    "*a",
    "!!python/object:os.system x",
    "!!int 1",
    "<<: *a",
    "%YAML 1.1",
    "---",
    "...",
    "{",
    "[",
    "}",
    "]",
    "${HOME}",
    "${NOT_SET}",
    "$${x}",
    "${",
    "{{ env_var('HOME') }}",
    "{{ env_var('NOT_SET') }}",
    "{{ 1/0 }}",
    "{{ ''.__class__ }}",
    "{{ 'x' * 10 }}",
    "{{",
    "}}",
    "{% for x in y %}",
    "{{ n_days_ago(1) }}",
    "{{ n_days_ago(10 ** 20) }}",
    "{{ variables('x') }}",
    "{{ range(10) }}",
    "{{ json_value('{', 'a') }}",
    "lakeport0template00",
    "a\tb",
    "\t",
    "# x",
    "x # y",
    "a: b",
    "1" * 5000,
    "1" * 400 + ".5",
    "é",
    "🦀",
    "{{ 9 ** (9 ** 9) }}",
    "{{ 'x' * 10 ** 10 }}",
    "{{ [0] * 10 ** 9 }}",
    "1e400",
    "-1",
    "0",
]
_KEYS = {
    "local": {"path": "/tmp/lake"},
    "amazon_s3": {"bucket": "lake"},
    "google_cloud_storage": {"bucket": "lake"},
    "delta_lake_s3": {"bucket": "lake"},
    "delta_lake_azure": {"table_uri": "abfss://c@a.dfs.core.windows.net/lake"},
}
_SOME = [
    "object_key_path",
    "table",
    "file_type",
    "mode",
    "partition_keys",
    "constant_columns",
    "catalog",
    "merge_keys",
    "hard_delete",
    "unknown_fields",
    "on_bad_record",
    "max_bad_records",
    "format",
    "internal_columns",
    "column_header_format",
    "date_partition_format",
    "compression",
    "maximum_batch_size_mb",
    "maximum_batch_rows",
    "target_file_size_mb",
    "max_record_mb",
    "run_id",
    "batch_roots",
    "spark",
    "table_properties",
    "cluster_by",
    "aws_access_key_id",
    "aws_region",
    "aws_secret_access_key",
    "aws_endpoint_url",
    "account_key",
    "config",
    "destination",
    "_streams",
    "nope",
    "",
    "load_method",
    "connector_type",
    "storage_options",
    "retries",
    "region_name",
    "signature_version",
]


def case(rng: random.Random) -> Case:
    destination = rng.choice(list(_KEYS))
    values: dict[str, Any] = {"destination": destination, **_KEYS[destination]}
    for _ in range(rng.randint(0, 4)):
        values[rng.choice(_SOME)] = _value(rng, 2)
    if rng.random() < 0.2:
        values = {"destination": values.pop("destination"), "config": values}
    form = rng.choice(["json", "yaml", "yaml"])
    made = (
        json.dumps(values, ensure_ascii=rng.random() < 0.5)
        if form == "json"
        else _yaml(rng, values)
    )
    data = made.encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        data += rng.choice(_bombs()).encode()
    if rng.random() < 0.4:
        data = damaged(rng, data)
    environ = {
        "HOME": "/home/ada",
        # What an environment can hold.
        "LAKEPORT_" + rng.choice(_SOME).upper(): text(rng)
        .replace("\0", "")
        .encode("utf-8", "ignore")
        .decode(),
    }
    return Case(data, {"environ": environ if rng.random() < 0.5 else {"HOME": "/home/ada"}})


def _value(rng: random.Random, depth: int) -> Any:
    pick = rng.random()
    if pick < 0.35:
        return rng.choice([*_ODD, text(rng)])
    if pick < 0.5:
        return rng.choice(
            [
                "append",
                "overwrite",
                "merge",
                "delta",
                "parquet",
                "csv",
                "snappy",
                "evolve",
                "raw/{stream}",
                "a,b",
                "id",
                "%Y/%m",
                "1%",
            ]
        )
    if pick < 0.65:
        return (
            float(rng.choice(NUMBERS))
            if rng.random() < 0.7
            else rng.choice([0, 1, -1, 10**30, 2**63])
        )
    if pick < 0.75 or not depth:
        return rng.choice([True, False, None, [], {}, "", 1])
    if pick < 0.88:
        return [_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {
        rng.choice([*_SOME, text(rng)]): _value(rng, depth - 1) for _ in range(rng.randint(0, 3))
    }


def _yaml(rng: random.Random, values: dict[str, Any]) -> str:
    lines = []
    for key, value in values.items():
        if isinstance(value, str) and rng.random() < 0.6:
            lines.append(f"{key}: {value}")
        elif isinstance(value, dict) and rng.random() < 0.5:
            lines += [f"{key}:", *(f"  {k}: {json.dumps(v)}" for k, v in value.items())]
        elif isinstance(value, list) and rng.random() < 0.5:
            lines += [f"{key}:", *(f"- {json.dumps(v)}" for v in value)]
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def _bombs() -> list[str]:
    doubling = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
    return [
        f"a0: &a0 [x, x, x, x, x, x, x, x, x]\n{doubling}",
        "b: &b [*b]\n",
        f"c: {'[' * 2000}{']' * 2000}\n",
        "d: " + "{a: " * 300 + "1" + "}" * 300 + "\n",
        "e:\n" + "".join(f"{' ' * n}- \n" for n in range(200)),
        "f: &f {a: 1}\ng: *f\nh: {<<: *f}\n",
        "? [a, b]\n: c\n",
        "? {a: b}\n: c\n",
        "1: x\ntrue: y\nnull: z\n2024-01-01: w\n",
        "k: 1\nk: 2\n",
    ]
