from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeport.config.lake import LakeFile
from lakeport.config.sources import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.errors import ConfigError
from lakeport.model import Mode
from tests.unit.config.kit import load_target, read_lake

EXAMPLE = """\
target: {destination: delta_lake_s3, bucket: acme-lake, object_key_path: bronze}
defaults: {on_bad_record: quarantine, max_bad_records: 1%}
loads:
  daily_delays:
    from: {tables: [flights]}
    sql: SELECT ym, carrier, count(*) AS flights FROM flights GROUP BY ym, carrier
    mode: overwrite
  flights:
    from: {files: "s3://acme-inbox/flights/*.csv.gz", new_only: true}
    sql: SELECT *, year * 100 + month AS ym FROM source WHERE carrier IS NOT NULL
    partition_keys: [ym]
    expect:
      - {not_null: [carrier, flight]}
      - {check: "dep_delay > -120", otherwise: quarantine}
      - {rows: {at_least: 1}}
    tags: nightly
  orders:
    from: {database: "postgresql://${PGUSER}@db/shop", table: public.orders, cursor: updated_at}
    load_method: upsert
    merge_keys: [id]
  issues:
    from: {tap: [tap-github, --config, tap.json]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def written(folder: Path, text: str, name: str = "lake.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def read(folder: Path, text: str, name: str = "lake.yaml", **environ: str) -> LakeFile:
    return read_lake(written(folder, text, name), environ=environ)


def refused(folder: Path, text: str, name: str = "lake.yaml", **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(folder, text, name, **environ)
    return str(caught.value)


def loads(*lines: str) -> str:
    return "target: ./lake\nloads:\n" + "".join(f"  {line}\n" for line in lines)


def test_the_example_is_read_whole(folder: Path) -> None:
    lake = read(folder, EXAMPLE, PGUSER="ada")
    flights, orders = lake.loads["flights"], lake.loads["orders"]
    assert isinstance(flights.source, FilesSource) and flights.source.new_only
    assert flights.target.partition_keys == ("ym",)
    assert flights.target.max_bad_records == 0.01
    assert [one.kind for one in flights.expect] == ["not_null", "check", "rows"]
    assert (flights.tags, flights.line) == (("nightly",), 8)
    assert isinstance(orders.source, DatabaseSource)
    assert orders.source.database.get_secret_value() == "postgresql://ada@db/shop"
    assert (orders.target.mode, orders.target.merge_keys) == (Mode.MERGE, ("id",))
    assert {name: load.target.table for name, load in lake.loads.items()} == {
        "flights": "flights",
        "orders": "orders",
        "issues": None,
        "daily_delays": "daily_delays",
    }


def test_loads_come_behind_those_that_they_use(folder: Path) -> None:
    lake = read(folder, EXAMPLE, PGUSER="ada")
    assert list(lake.loads) == ["flights", "orders", "issues", "daily_delays"]
    daily = lake.loads["daily_delays"]
    assert daily.depends == ("flights",)
    assert isinstance(daily.source, TablesSource)
    assert daily.source.tables == {"flights": "s3://acme-lake/bronze/flights"}


def test_paths_go_from_the_folder_of_the_file(folder: Path) -> None:
    lake = read(
        folder,
        loads(
            "a: {from: {files: [data/*.csv, 's3://b/x.csv', /all.csv]}}",
            "b: {from: {tap: [./tap.py]}}",
            "c: {from: {database: 'sqlite:///shop.db', table: t}}",
            "d: {from: {tables: [./other/table]}}",
        ),
    )
    a, b, c, d = lake.loads.values()
    assert isinstance(a.source, FilesSource)
    assert a.source.files == (f"{folder}/data/*.csv", "s3://b/x.csv", "/all.csv")
    assert isinstance(b.source, TapSource) and b.source.folder == str(folder)
    assert isinstance(c.source, DatabaseSource)
    assert c.source.database.get_secret_value() == f"sqlite:///{folder}/shop.db"
    assert isinstance(d.source, TablesSource)
    assert d.source.tables == {"table": f"{folder}/other/table"}
    assert a.target.model_dump()["path"] == str(folder / "lake")


def test_a_target_may_be_a_config_file_with_the_keys_of_mage(folder: Path) -> None:
    written(folder, "destination: local\nconfig: {path: there, format: parquet}", "conf.yaml")
    lake = read(folder, "target: conf.yaml\nloads: {a: {from: {files: x.csv}}}")
    target = lake.loads["a"].target
    assert (target.file_type, target.model_dump()["path"]) == ("parquet", str(folder / "there"))


def test_a_lake_file_is_a_target_for_others(folder: Path) -> None:
    path = written(folder, "target: ./${WHERE}\nloads: {broken: 1}")
    assert load_target(path, environ={"WHERE": "lake"}).model_dump()["path"] == f"{folder}/lake"


def test_json_is_taken_and_its_lines_are_told(folder: Path) -> None:
    text = json.dumps({"target": "x", "loads": {"a": {"from": {"fils": "x.csv"}}}}, indent="\t")
    assert "line 5, column 4: load 'a': `from` names no source" in refused(
        folder, text, "lake.json"
    )


def test_every_mistake_has_its_line(folder: Path) -> None:
    text = """\
target: {destination: local, path: lake, fil_type: delta}
defaults:
  mode: apend
loads:
  a:
    from: {files: x.csv, new_onyl: true}
    expct: []
  b:
    from: {tap: []}
    expect:
      - {not_null: [id]}
      - {unikue: [id]}
  c:
    from: {database: "postgresql://${NOT_SET}/x", table: t, query: q}
    sql: [no]
  d: {from: {tables: [aa]}}
looads: {}
"""
    said = refused(folder, text)
    assert [line.split(":")[0].split(",")[0] for line in said.splitlines()[1:11]] == [
        f"  - line {line}" for line in (1, 3, 6, 7, 9, 12, 14, 14, 15, 16)
    ]
    for words in (
        "`file_type`",
        "`append`",
        "`new_only`",
        "load 'a': there is no key `expct`; did you mean `expect`?",
        "'NOT_SET', which is not set",
        "no load of the file is called 'aa'",
    ):
        assert words in said
    assert "line 17, column 1: there is no key `looads`; did you mean `loads`?" in said


def test_lines_are_right_with_templates_tabs_and_other_ends_of_lines(folder: Path) -> None:
    text = (
        "\ufefftarget: {{ env_var(\n  'X') }}\r\nloads: # \u2028\r\n  a: # \there\r\n    frm: 1\r\n"
    )
    assert "line 5, column 5: load 'a': there is no key `frm`" in refused(folder, text, X="lake")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("target: x\nloads:\n  a: {from: {files: x}\n", "line 4, column 1"),
        ("target: x\nloads:\n\t- a", "line 3, column 1"),
        ("target: x\nloads:\n  a: {}\n  a: {}\n", "'a' is given twice, in lines 3 and 4"),
        ("target: x", "the key `loads` is missing"),
        ("loads: {a: {from: {files: x}}}", "the key `target` is missing"),
        (loads("source: {from: {files: x}}"), "line 3, column 3: load 'source'"),
        (loads("a: {from: {files: x, tap: [y]}}"), "names files and tap"),
        (loads("a: {from: {files: x}, python: clean}"), "module:function"),
        ("target: ftp://x\nloads: {a: {from: {files: x}}}", "line 1, column 1: no destination"),
        ("target: {destination: lokal}\nloads: {a: {from: {files: x}}}", "did you mean `local`"),
    ],
)
def test_what_is_wrong_is_told(folder: Path, text: str, words: str) -> None:
    assert words in refused(folder, text)


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ("from: {tap: []}", "`tap` is empty"),
        ("from: {tap: }", "`tap` has no value"),
        ("from: {tap: [a, 1]}", "item 2 of `tap` has to be text"),
        ("from: {files: []}", "`files` names no file, folder or glob"),
        ("from: {files: 7}", "`files` has to be text or a list"),
        ("from: {files: [a, [b]]}", "item 2 of `files` has to be text"),
        ("from: {files: a, new_only: maybe}", "`new_only` has to be true or false"),
        ("from: {tables: {}}", "`tables` is empty"),
        ("from: {tables: 5}", "`tables` has to hold keys"),
        ("from: {database: 5, table: t}", "`database` has to be text"),
        ("from: {database: d, table: t, splits: some}", "`splits` has to be a whole number"),
        ("expect: [{not_null: 5}]", "`not_null` has to be a list"),
        ("expect: [{in: {date: [a, {b: c}]}}]", "item 2 of `in.date` has to be one value: text"),
        ("expect: [{in: {str: [], n: 5}}]", "`in.str` has to list values"),
        ("expect: [{matches: {id: 5}}]", "`matches.id` has to be text"),
        ("expect: [{matches: id}]", "`matches` has to hold keys"),
        ("expect: [{check: }]", "`check` has no value"),
        ("expect: [{rows: {at_least: -1}}]", "`at_least` has to be 0 or more"),
        ("expect: [{rows: {at_least: 1.5}}]", "`at_least` has to be a whole number"),
        ("expect: [{rows: 5}]", "`rows` has to hold keys"),
        ("expect: [{fresh: {column: '', within: 1h}}]", "`column` is empty"),
        ("expect: [{fresh: {column: a, within: 0}}]", "`within` has to be more than 0"),
        ("<<: {mode: append}", "`defaults`"),
    ],
)
def test_a_wrong_value_is_told_in_our_words(folder: Path, load: str, words: str) -> None:
    text = load if load.startswith("from") else f"from: {{files: x}}\n    {load}"
    said = refused(folder, f"target: ./lake\nloads:\n  a:\n    {text}\n")
    assert words in said
    assert f"line {4 + text.count(chr(10))}, column " in said
    assert not {"valid", "tuple", "dictionary", "Input", "should"} & {*said.split()}


def test_what_is_no_text_is_told_with_its_line(folder: Path) -> None:
    path = folder / "lake.yaml"
    path.write_bytes(loads("a: {from: {files: é.csv}}").encode("latin-1"))
    with pytest.raises(ConfigError, match="is not UTF-8 at byte 42, in line 3"):
        read_lake(path)


def test_every_cycle_is_told(folder: Path) -> None:
    text = loads(
        "a: {from: {tables: [b]}}",
        "b: {from: {tables: [a]}}",
        "c: {from: {files: x}, sql: SELECT * FROM source JOIN d JOIN e}",
        "d: {from: {tables: [c]}}",
        "e: {from: {tables: [c]}}",
        "f: {from: {tables: [f]}}",
        "g: {from: {tables: [a]}}",
    )
    said = refused(folder, text)
    assert "has 4 mistakes" in said
    for ring in (
        "a (line 3) -> b (line 4) -> a (line 3)",
        "f (line 8) -> f (line 8)",
    ):
        assert f"it uses itself: {ring}" in said
    rings = {line.partition("itself: ")[2] for line in said.splitlines() if "itself" in line}
    of_c = [ring for ring in rings if "c (line 5)" in ring]
    assert len(of_c) == 2
    assert all("d (line 6)" in ring or "e (line 7)" in ring for ring in of_c)


def test_a_cycle_is_told_with_its_lines(folder: Path) -> None:
    said = refused(
        folder,
        loads(
            "a: {from: {tables: [b]}}",
            "b: {from: {files: x}, sql: SELECT * FROM source JOIN c USING (id)}",
            "c: {from: {files: x}, expect: [{references: {id: a.id}}]}",
        ),
    )
    assert "line 3, column 3: load 'a'" in said
    assert "a (line 3) -> b (line 4) -> c (line 5) -> a (line 3)" in said


def test_loads_share_a_table_unless_one_overwrites_it(folder: Path) -> None:
    shared = loads(
        "eu: {from: {files: x}, table: orders}",
        "us: {from: {files: y}, table: orders}",
        "all: {from: {tables: [eu]}}",
        "some: {from: {files: z}, sql: SELECT * FROM source JOIN orders USING (id)}",
    )
    lake = read(folder, shared)
    assert lake.loads["all"].depends == lake.loads["some"].depends == ("eu", "us")
    assert lake.loads["some"].tables == {"orders": f"{folder}/lake/orders"}
    said = refused(folder, shared.replace("y}, table", "y}, mode: overwrite, table"))
    assert "line 4, column 3: load 'us': it lands in the table of load 'eu' (line 3)" in said


def test_one_table_for_all_loads_is_refused(folder: Path) -> None:
    text = loads("a: {from: {files: x}}", "b: {from: {files: y}}")
    text = text.replace("loads:", "defaults: {table: %s}\nloads:")
    assert "line 2, column 12: `table` names one table" in refused(folder, text % "one")
    lake = read(folder, text % '"raw_{stream}"')
    assert [load.target.table for load in lake.loads.values()] == ["raw_a", "raw_b"]


def test_tables_in_azure_lie_in_the_folder_that_the_target_names(folder: Path) -> None:
    uri = "abfss://lake@acme.dfs.core.windows.net/bronze"
    lake = read(folder, f"target: {uri}\nloads: {{a: {{from: {{files: x}}}}}}")
    assert lake.loads["a"].target.model_dump()["table_uri"] == f"{uri}/a"


def test_taps_of_one_program_are_remembered_each_by_its_load(folder: Path) -> None:
    taps = (f"{load}: {{from: {{tap: [tap-github]}}}}" for load in ("a", "b"))
    lake = read(folder, loads(*taps, "c: {from: {tap: [tap-github], name: d}}"))
    sources = [load.source for load in lake.loads.values()]
    assert [one.name for one in sources if isinstance(one, TapSource)] == ["a", "b", "d"]


def test_a_taps_table_is_named_with_its_stream(folder: Path) -> None:
    taps = "issues: {from: {tap: [tap-github]}}"
    lake = read(folder, loads(taps, "open: {from: {tables: {i: issues.issues}}}"))
    source = lake.loads["open"].source
    assert isinstance(source, TablesSource)
    assert source.tables == {"i": f"{folder}/lake/issues"}
    assert lake.loads["open"].depends == ("issues",)
    said = refused(folder, loads(taps, "open: {from: {tables: [issues]}}"))
    assert "load 'issues' has a table for each stream" in said


def test_no_secret_is_told(folder: Path) -> None:
    text = (
        "target: {destination: amazon_s3, bucket: b, aws_secret_access_key: '${S}', oops: '${S}'}\n"
        "loads: {a: {from: {database: 'postgresql://u:${S}@h/d', tabel: x}}}"
    )
    said = refused(folder, text, S="hunter2-hunter2")
    assert "hunter2" not in said and "`oops`" in said and "`tabel`" in said


def test_a_file_with_secrets_that_others_may_write_is_refused(folder: Path) -> None:
    path = written(folder, loads("a: {from: {database: 'postgresql://u:hunter2@h/d', table: t}}"))
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="holds secrets, and others may write"):
        read_lake(path, environ={})


def test_what_a_load_starts_and_imports_is_looked_for(folder: Path) -> None:
    written(folder, "", "mine.py")
    lake = read(
        folder,
        loads(
            "good: {from: {tap: [python3, tap.py]}, python: 'mine:clean'}",
            "tap: {from: {tap: [tap-of-nowhere]}}",
            "module: {from: {files: x}, python: 'module_of_nowhere:f'}",
        ),
    )
    lake.loads["good"].check()
    with pytest.raises(ConfigError, match=r"line 4: load 'tap': there is no command 'tap-of-now"):
        lake.loads["tap"].check()
    with pytest.raises(ConfigError, match=r"line 5: load 'module'.*no module 'module_of_nowhere'"):
        lake.loads["module"].check()


def test_lineage_and_notices(folder: Path) -> None:
    lake = read(
        folder,
        "lineage: {file: events.jsonl}\nnotices: {failure: 'https://hooks/x'}\n"
        + loads("a: {from: {files: x}}"),
    )
    assert lake.lineage is not None and lake.lineage.file == str(folder / "events.jsonl")
    assert lake.notices is not None and lake.notices.secrets() == ("https://hooks/x",)
