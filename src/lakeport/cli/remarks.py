"""What commands add to the report of a load, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.loading.report import LandingReport


def about_internal(
    config: DestinationConfig, otherwise: str, report: LandingReport
) -> tuple[str, ...]:
    """What the internal columns of a new table are, where nobody has said a word of them.

    Args:
        config: that of the load.
        otherwise: what leaves them out, such as an option.
        report: that of the load.
    """
    said = {"internal_columns", "internal_columns_prefix"} & config.model_fields_set
    made = any(stream.rows and not stream.first_version for stream in report.streams)
    if said or not made:
        return ()
    from lakeport.shape.columns import header_name, internal_names

    names = internal_names(config.internal_columns_prefix)
    shown = " and ".join(header_name(name, config.column_header_format) for name in names)
    return (f"{shown} tell when rows came and changed; `{otherwise}` leaves them out",)
