"""The first ten minutes: what someone wants, and what they type."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One thing that a new user does.

    Args:
        name: of its screen.
        wish: what they want.
        command: what they type.
        exit_code: what comes of it: 0, or that of the mistake.
    """

    name: str
    wish: str
    command: str
    exit_code: int = 0


_START = (
    Step("alone", "What is this?", "lakeport"),
    Step("version", "Which one do I have?", "lakeport --version"),
    Step("help", "What can it do?", "lakeport --help"),
    Step("help-land", "And `land`?", "lakeport land --help"),
    Step("plan", "What would become of my file?", "lakeport plan people.csv --to ./lake"),
    Step("land", "Land it.", "lakeport land people.csv --to ./lake"),
    Step("preview", "Is it there?", "lakeport table preview ./lake/people"),
    Step("again", "The same file, by mistake.", "lakeport land people.csv --to ./lake"),
    Step("undo", "Take that back.", "lakeport table undo ./lake/people --yes"),
    Step("once", "Only what is new.", "lakeport land people.csv --to ./lake --once"),
)
_FILES = (
    Step("excel-csv", "A CSV file of a German Excel.", "lakeport land orders.csv --to ./lake"),
    Step("amounts", "Are dates and amounts right?", "lakeport table preview ./lake/orders"),
    Step("statement", "A bank's statement.", "lakeport land statement.csv --to ./lake"),
    Step("utf-16", "An export in UTF-16.", "lakeport land export.csv --to ./lake"),
    Step("sep", "A file that begins with sep=;", "lakeport land cities.csv --to ./lake"),
    Step("dates", "Is it April or March?", "lakeport land visits.csv --to ./lake"),
    Step(
        "date-format",
        "It is April.",
        "lakeport land visits.csv --to ./lake --mode overwrite --date-format %d/%m/%Y",
    ),
    Step("plan-bad", "A file with bad lines.", "lakeport plan sensors.csv --to ./lake"),
    Step("bad", "Land it anyhow.", "lakeport land sensors.csv --to ./lake", 3),
    Step(
        "quarantine",
        "Without the bad lines, then.",
        "lakeport land sensors.csv --to ./lake --on-bad-record quarantine",
    ),
    Step("json-lines", "JSON lines.", "lakeport land events.jsonl --to ./lake"),
    Step("json", "What a web service answered.", "lakeport land users.json --to ./lake"),
    Step(
        "records-path",
        "Only the records in it.",
        "lakeport land users.json --to ./lake --mode overwrite --records-path result.items",
    ),
    Step("workbook", "A workbook.", "lakeport land prices.xlsx --sheet 2024 --to ./lake"),
    Step(
        "archive",
        "Two files in an archive.",
        "lakeport land stations.zip --to ./lake --table stations",
    ),
    Step(
        "partitions",
        "A folder of Parquet files.",
        "lakeport land sales --to ./lake --partition-by year",
    ),
    Step(
        "columns",
        "Other types, names, and less.",
        "lakeport land people.csv --to ./lake --table authors "
        "--column id=string --rename name=author --drop born",
    ),
)
_MISTAKES = (
    Step("no-file", "A misspelt file.", "lakeport land peeple.csv --to ./lake", 3),
    Step(
        "no-column",
        "A misspelt column.",
        "lakeport land people.csv --to ./lake --partition-by borm",
        2,
    ),
    Step("no-option", "A misspelt option.", "lakeport land people.csv --to ./lake --parttion a", 2),
    Step("no-table", "A misspelt table.", "lakeport table show ./lake/peple", 3),
    Step("january", "Whole numbers.", "lakeport land january.csv --to ./lake --table units"),
    Step(
        "conflict",
        "Then decimals.",
        "lakeport land february.csv --to ./lake --table units",
        4,
    ),
    Step("explain", "What does that mean?", "lakeport explain SchemaConflict"),
    Step(
        "alter",
        "As the hint says.",
        "lakeport table alter ./lake/units --column units --type double",
    ),
    Step("february", "And again.", "lakeport land february.csv --to ./lake --table units"),
    Step(
        "restore",
        "January alone was better.",
        "lakeport table restore ./lake/units --version 0",
    ),
)
_LOOK = (
    Step("tables", "What is in the lake?", "lakeport tables ./lake"),
    Step("runs", "What has run?", "lakeport runs ./lake --limit 5"),
    Step("last-run", "And the last one?", "lakeport runs ./lake --last"),
    Step("show", "What is a table?", "lakeport table show ./lake/people"),
    Step("history", "What became of it?", "lakeport table history ./lake/people"),
    Step(
        "query",
        "Who bought most?",
        'lakeport table query ./lake/orders "SELECT Kunde, Betrag FROM t ORDER BY 2 DESC"',
    ),
    Step("init", "A folder of my own.", "lakeport init csv"),
    Step("init-land", "Run it.", "cd lakeport-csv && lakeport land people.csv --to lake.yaml"),
    Step("docs", "Where do I read on?", "lakeport docs"),
)
STEPS = (*_START, *_FILES, *_MISTAKES, *_LOOK)
