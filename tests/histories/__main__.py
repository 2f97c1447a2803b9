"""Play one history and tell what came of it."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from tests.emulators import Azurite, Minio
from tests.histories.driver import History
from tests.histories.stores import CONTAINER, Store, on_azure, on_s3


def main() -> int:
    """Play; the exit code is 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--store", choices=("s3", "azure"), default="s3")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long steps are begun")
    parser.add_argument("--writers", type=int, default=4, help="2 to 6, the last one of delta-rs")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="history-"))
    print(f"history on {told.store}, seed {told.seed}, journals in {folder}", flush=True)
    with Minio(folder) if told.store == "s3" else Azurite(folder) as server:
        report = History(
            _table(server),
            told.seed,
            folder,
            writers=(*["lakeport"] * (told.writers - 1), "delta-rs"),
            steps=1_000_000,
            kills=1_000_000,
            seconds=told.minutes * 60,
        ).play()
    print(f"{report.versions} versions, {report.kills} kills, {report.failed} requests failed")
    for what, count in report.said.items():
        print(f"  {what}: {count}")
    for text in report.anomalies:
        print(f"FOUND: {text}")
    return 1 if report.anomalies else 0


def _table(server: Minio | Azurite) -> Store:
    if isinstance(server, Minio):
        server.create_bucket(CONTAINER)
        return on_s3(server, "t")
    server.create_container(CONTAINER)
    return on_azure(server, "t")


if __name__ == "__main__":
    sys.exit(main())
