"""Read files of any format but Singer's as batches of splits, mostly one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from lakeport.errors import ConfigError
from lakeport.model import Batch, Flush, Split
from lakeport.sources.csv.csv_plan import plan_csv
from lakeport.sources.excel.excel_plan import plan_excel
from lakeport.sources.files.file_set import FileSet
from lakeport.sources.files.folders import FolderReader
from lakeport.sources.files.source_file import SourceFile, check_signature, digest_files
from lakeport.sources.json.json_plan import plan_json
from lakeport.sources.spool import parse_spool_number
from lakeport.sources.typed.typed_plan import plan_typed

_PLANNERS: dict[str, Callable[[FileSet], Batch | list[Batch]]] = {
    "csv": plan_csv,
    "tsv": plan_csv,
    "json": plan_json,
    "jsonl": plan_json,
    "parquet": plan_typed,
    "xlsx": plan_excel,
    "arrow": plan_typed,
    "orc": plan_typed,
    "avro": plan_typed,
}


def file_flushes(files: FileSet) -> Iterator[Flush]:
    """Plan the load of files: yield one flush; InputError if they can't be read.

    It has one batch, but for sheets of workbooks that land in tables of their own.
    """
    digest = digest_files(files.files) if files.config.run_id is not None else ""
    planned = _plan_batches(files)
    batches = planned if isinstance(planned, list) else [planned]
    yield Flush(tuple(_complete_batch(files, batch, digest) for batch in batches), last=True)


def _complete_batch(files: FileSet, batch: Batch, digest: str) -> Batch:
    """Return a planned batch with its folders' columns, the digest, and names of its files."""
    if files.folders and batch.reader is not None:
        reader = FolderReader(batch.reader, files.folders)
        reader.check(batch.stream, batch.splits)
        batch = replace(batch, reader=reader)
    return replace(
        batch,
        splits=tuple(_name_splits(files.files, batch.splits)),
        digest=digest,
        tracks_content=True,
        untyped={n: t for n, t in batch.untyped.items() if n not in files.folder_names},
    )


def _name_splits(files: Sequence[SourceFile], splits: Sequence[Split]) -> Iterator[Split]:
    """Yield the splits with file names for error messages; unchanged for a single file."""
    counts = Counter(file.name for file in files)
    names = [file.name if counts[file.name] == 1 else file.path for file in files]
    by_uri = {file.uri: name for file, name in zip(files, names, strict=True) if not file.member}
    for split in splits:
        if len(files) == 1 or split.file:
            yield split
        else:
            name = by_uri.get(split.uri) or names[parse_spool_number(split.uri)]
            yield replace(split, file=name)


def _plan_batches(files: FileSet) -> Batch | list[Batch]:
    """Check the first bytes of local files, and have the format's planner make the batches.

    Raises:
        ConfigError: the format is Singer's.
        SourceError: a local file begins as one of another format.
    """
    planner = _PLANNERS.get(files.format)
    if planner is None:
        raise ConfigError(
            f"file format {files.format!r} does not hold the rows of one table",
            "Singer files are landed as Singer messages: name them as such.",
        )
    if files.csv.detect:
        for file in files.files:
            if file.storage is None:
                check_signature(file)
    return planner(files)
