"""The flaws of Mage's command line, log lines and STATE, and the tests by which none comes back.

The numbers are those of the list that lakeport's compatibility is judged by.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FLAWS = {
    32: (
        "files of one second overwrote each other",
        "contract/test_streams.py::test_many_batches_in_one_second_lose_nothing",
    ),
    40: (
        "errors of the config came after a batch was read",
        "unit/test_mage_target.py::test_config_errors_come_before_anything_is_read",
    ),
    45: (
        "the connection test did not look at what a load needs",
        "mage/test_section_02_command_line.py::test_a_connection_that_fails",
    ),
    47: (
        "a failed stream's bookmark went out with another stream's STATE",
        "mage/test_section_02_command_line.py::test_a_pipe_that_breaks",
        "faults/test_state.py::test_no_state_goes_out_behind_a_stream_that_failed",
    ),
    48: (
        "a STATE that named a stream of an earlier flush was a KeyError",
        "faults/test_state.py::test_states_of_many_streams_over_many_flushes",
    ),
    49: (
        "a STATE without records was lost",
        "contract/test_streams.py::test_a_state_without_records_goes_out_too",
    ),
    50: (
        "keys beside `bookmarks` were lost, and stale fields of a bookmark stayed",
        "unit/test_mage_target.py::test_states_are_merged_into_the_file",
        "unit/test_singer_source.py::test_a_state_is_never_rewritten",
    ),
    51: (
        "the state file was not written whole, and lost other streams",
        "unit/test_mage_target.py::test_states_are_merged_into_the_file",
        "unit/test_singer_state.py::test_a_file_that_cannot_be_replaced_keeps_its_content",
    ),
    52: (
        "`currently_syncing` was looked for in the wrong place",
        "mage/test_section_02_command_line.py::test_a_load_as_the_orchestrator_starts_it",
    ),
    53: (
        "a batch's size counted the schema with each record",
        "unit/test_singer_source.py::test_a_flush_is_cut_behind_the_line_that_reaches_the_bytes",
    ),
    54: (
        "of several errors only the first was told",
        "mage/test_section_02_command_line.py::test_every_stream_that_fails_is_told",
    ),
    55: (
        "records were logged, and broken lines passed over",
        "mage/test_section_02_command_line.py::test_a_load_as_the_orchestrator_starts_it",
        "mage/test_section_02_command_line.py::test_a_pipe_that_breaks",
    ),
    56: (
        "`--log_to_stdout False` meant yes",
        "unit/test_mage_target.py::test_flags_by_argparse",
        "mage/test_section_02_command_line.py::test_every_stream_that_fails_is_told",
    ),
    61: (
        "a STATE without value and lines of lists and numbers crashed",
        "mage/test_section_02_command_line.py::test_a_load_as_the_orchestrator_starts_it",
        "unit/test_singer_source.py::test_a_line_that_is_no_message_ends_the_run_at_once",
    ),
    63: (
        "secrets stood on the command line without a word, and in logs",
        "unit/test_mage_target.py::test_secrets_in_config_json_are_taken_with_a_warning",
        "unit/test_mage_target.py::test_no_line_holds_a_secret",
    ),
    64: (
        "ACTIVATE_VERSION had no effect without a warning",
        "mage/test_section_02_command_line.py::test_a_load_as_the_orchestrator_starts_it",
    ),
}


@pytest.mark.parametrize("number", FLAWS)
def test_a_flaw_has_tests(number: int) -> None:
    _, *tests = FLAWS[number]
    assert tests
    for name in tests:
        path, _, test = name.partition("::")
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        assert test in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)], name
