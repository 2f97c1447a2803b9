"""The files of the first ten minutes, as Excel, banks and other programs write them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import openpyxl
import pyarrow as pa
from pyarrow import parquet

_ORDERS = """\
Bestellnr;Kunde;Datum;Betrag;Menge
1001;Müller & Söhne;03.01.2024;1.234,50;3
1002;Café Zoë;14.01.2024;89,90;1
1003;Jäger KG;28.01.2024;12.400,00;12
"""
_STATEMENT = """\
Kontoauszug
Konto: DE02 1203 0000 0000 2020 51
Zeitraum: 01.03.2024 - 31.03.2024

Buchungstag;Empfänger;Verwendungszweck;Betrag
01.03.2024;Stadtwerke;Strom März;-84,20
15.03.2024;ACME GmbH;Gehalt;3.250,00
28.03.2024;Bäckerei Kühn;Karte 4711;-7,35
"""
_PEOPLE = "id,name,born\n1,Ada,1815-12-10\n2,Grace,1906-12-09\n3,Linus,\n"


def write(folder: Path) -> None:
    """Write them all."""
    texts = {
        "people.csv": (_PEOPLE, "utf-8"),
        "orders.csv": (_ORDERS, "cp1252"),
        "statement.csv": (_STATEMENT, "utf-8"),
        "export.csv": ("sku\tprice\nA-1\t9.90\nB-2\t12.50\n", "utf-16"),
        "cities.csv": ("sep=;\nid;city;since\n1;Oslo;2019\n2;Łódź;2021\n", "utf-8-sig"),
        "visits.csv": ("day,visits\n03/04/2023,210\n05/04/2023,198\n", "utf-8"),
        "sensors.csv": ("id,celsius\n1,21.5\n2,22.0,high\n3,20.9\n4\n5,21.1\n", "utf-8"),
        "events.jsonl": (_lines(), "utf-8"),
        "users.json": (_wrapped(), "utf-8"),
        "january.csv": ("day,units\n2024-01-30,12\n2024-01-31,9\n", "utf-8"),
        "february.csv": ("day,units\n2024-02-01,10.5\n2024-02-02,8\n", "utf-8"),
    }
    for name, (text, encoding) in texts.items():
        folder.joinpath(name).write_bytes(text.encode(encoding))
    _workbook(folder / "prices.xlsx")
    _archive(folder / "stations.zip")
    _partitions(folder / "sales")


def _lines() -> str:
    events = [
        {"id": 1, "kind": "login", "at": "2024-03-04T08:15:00Z", "user": {"id": 7}},
        {"id": 2, "kind": "order", "at": "2024-03-04T08:17:30Z", "total": 59.9},
    ]
    return "".join(json.dumps(event) + "\n" for event in events)


def _wrapped() -> str:
    users = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}]
    return json.dumps({"page": 1, "result": {"items": users}}, indent=2)


def _workbook(path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "2024"
    for row in [("article", "price", "valid"), ("bolt", 0.15, True), ("nut", 0.1, False)]:
        sheet.append(row)
    book.create_sheet("2023").append(("article", "price", "valid"))
    book.save(path)


def _archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("stations/north.csv", "code,name\nN1,Harbour\nN2,Mill\n")
        archive.writestr("stations/south.csv", "code,name\nS1,Market\n")


def _partitions(folder: Path) -> None:
    for year, amounts in {2023: [10, 20], 2024: [30]}.items():
        part = folder / f"year={year}"
        part.mkdir(parents=True)
        parquet.write_table(pa.table({"amount": amounts}), part / "part-0.parquet")
