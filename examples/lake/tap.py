"""A small Singer tap: the airports in `airports.csv` behind the code that the STATE names."""

import argparse
import csv
import json
from pathlib import Path

KINDS = {"lat": "number", "lon": "number", "alt": "integer", "tz": "integer"}

parser = argparse.ArgumentParser()
parser.add_argument("--state", type=Path)
state = parser.parse_args().state
seen = json.loads(state.read_text()).get("faa", "") if state else ""
with Path("airports.csv").open(newline="") as file:
    airports = sorted(csv.DictReader(file), key=lambda airport: airport["faa"])
columns = {name: {"type": ["null", KINDS.get(name, "string")]} for name in airports[0]}
schema = {"type": "object", "properties": columns}
head = {"type": "SCHEMA", "stream": "airports", "schema": schema, "key_properties": ["faa"]}
print(json.dumps(head))
for airport in airports:
    if airport["faa"] > seen:
        record = {
            name: json.loads(text) if name in KINDS else text or None
            for name, text in airport.items()
        }
        print(json.dumps({"type": "RECORD", "stream": "airports", "record": record}))
        seen = airport["faa"]
print(json.dumps({"type": "STATE", "value": {"faa": seen}}))
