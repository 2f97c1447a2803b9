"""Plan the load of Parquet files: columns from the footers, row groups as splits."""

from __future__ import annotations

from functools import partial

from lakeport.schema.casting import normalise
from lakeport.schema.nested import open_columns
from lakeport.schema.types import check_names
from lakeport.sources.files.declared import column_types
from lakeport.sources.files.file_set import FilePlan, FileSet
from lakeport.sources.parquet.reader import ParquetReader, read_footer, split_groups, union


def plan_parquet(files: FileSet) -> FilePlan:
    """Read the footers, put their columns together, and cut the files between row groups.

    Raises:
        InputError: a file is no Parquet, or the files' columns don't go together.
    """
    limits = files.options.limits
    footers = sorted(
        files.run(partial(read_footer, limits=limits), files.plain()), key=lambda f: f.file.uri
    )
    schema, mixed = union(footers, column_types(files.options.columns))
    check_names(files.stream, schema.names)
    return FilePlan(
        reader=ParquetReader(files.stream, normalise(schema), limits=limits, mixed=mixed),
        splits=split_groups(footers, files.options.split_bytes),
        bytes=sum(file.bytes for file in files.files),
        output_ratio=1.0,
        records=sum(footer.rows for footer in footers),
        untyped=open_columns(schema),
    )
