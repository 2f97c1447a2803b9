"""The flaws of the destinations that lakeport takes over from, and the tests that keep them away.

A test is named as `folder/module:function`, without `tests/`, `test_` and `.py`.
"""

from __future__ import annotations

_SAME = "mage/sections_04_05_06_content:the_same_lines_are_the_same_table_everywhere"
_CSV = "mage/sections_04_05_06_content:csv_with_date_folders_and_headers"
_OVERRIDES = "mage/section_01_config:stream_overrides_and_a_catalog"
_PARTITIONS = "mage/section_07_modes:overwrite_with_partition_keys_replaces_those_partitions_alone"
_ONCE = "mage/section_07_modes:append_evolves_and_overwrite_is_one_for_a_run"
_ALONE = "mage/section_07_modes:a_table_leaves_its_neighbours_and_the_process_alone"
_PASSED = "mage/section_03_messages:what_is_no_message_is_passed_over_and_what_is_one_is_landed"
_STREAM = "mage/section_11_streaming:a_sinks_stream_loses_nothing_and_repeats_nothing"
_BROKEN = "mage/section_03_messages:a_broken_message_is_a_bad_record"

FLAWS: dict[int, tuple[str, tuple[str, ...]]] = {
    1: (
        "Delta destinations do not import",
        (_SAME,),
    ),
    2: (
        "Delta on S3 fails at every run",
        (_SAME,),
    ),
    3: (
        "plain and anyOf types become text",
        (_SAME,),
    ),
    4: (
        "false is stored as true",
        (_SAME,),
    ),
    5: (
        "lists become single characters",
        (_SAME,),
    ),
    6: (
        "objects become Python's notation",
        (_SAME,),
    ),
    7: (
        "a null makes its column text",
        (_SAME,),
    ),
    8: (
        "date-times stay text",
        (_SAME,),
    ),
    9: (
        "a column without values fails the batch",
        (_SAME,),
    ),
    10: (
        "undeclared fields vanish",
        (
            "contract/streams:undeclared_fields_become_columns",
            "contract/streams:undeclared_fields_can_be_dropped_and_are_counted",
        ),
    ),
    11: (
        "append never evolves",
        (_ONCE,),
    ),
    12: (
        "a conflict's message has its labels swapped",
        (
            _ALONE,
            "unit/schema/evolution:types_that_do_not_fit_name_column_and_both_types",
        ),
    ),
    13: (
        "overwrite happens at each flush, and streams overwrite each other",
        (
            _ONCE,
            "contract/streams:one_table_name_for_two_streams_is_refused",
        ),
    ),
    14: (
        "partition overwrite rewrites a commit",
        (
            _PARTITIONS,
            "spark/delta_s3:committed_versions_never_change",
        ),
    ),
    15: (
        "no partition overwrite on Azure",
        (_PARTITIONS,),
    ),
    16: (
        "`partition_keys` of the config are ignored",
        ("mage/section_01_config:partition_keys_of_the_schema_and_of_the_config",),
    ),
    17: (
        "writers on S3 lose commits",
        (
            "spark/delta_s3:two_processes_lose_nothing",
            "spark/logstore:a_version_that_exists_is_a_conflict",
        ),
    ),
    18: (
        "a table's prefix wipes its neighbours",
        (_ALONE,),
    ),
    19: (
        "no endpoint, role, token or default credentials for Delta on S3",
        (
            "unit/config/clouds/azure:delta_on_s3_takes_the_keys_of_files_on_s3",
            "unit/config/clouds/azure:a_role_is_assumed_at_aws_or_at_the_endpoint",
            "storage/s3:the_default_chain_is_searched",
        ),
    ),
    20: (
        "the process's environment is changed",
        (_ALONE,),
    ),
    21: (
        "slashes of the prefix stay",
        (
            "unit/config/clouds/aws:slashes_of_the_prefix_do_no_harm",
            _CSV,
        ),
    ),
    22: (
        "storage options of the table's object win",
        ("spark/delta_s3:other_credentials_for_the_same_bucket_are_used_at_once",),
    ),
    23: (
        "modificationTime is in seconds",
        (_ALONE,),
    ),
    24: (
        "partition values are encoded twice",
        (
            "spark/delta_partition_values:hard_values_are_read_identically",
            "mage/section_01_config:partition_keys_of_the_schema_and_of_the_config",
        ),
    ),
    25: (
        "partition keys that differ fail without words, absent ones hide rows",
        (
            "spark/delta_writer:partition_keys_that_differ_are_refused",
            _PARTITIONS,
        ),
    ),
    26: (
        "statistics of nested columns are wrong",
        ("unit/writers/delta/stats:delta_rs_skips_by_them_and_finds_every_row",),
    ),
    27: (
        "abfs://container/path crashes",
        (
            _SAME,
            "unit/config/clouds/azure:the_table_is_where_the_uri_says",
        ),
    ),
    28: (
        "the log is looked for in the wrong place",
        ("mage/sections_08_09_errors:a_connection_that_works",),
    ),
    29: (
        "an error without words",
        ("storage/azure_check:a_wrong_container",),
    ),
    30: (
        "`table` is needed on Azure, and only the account's key is taken",
        (
            "unit/config/clouds/azure:the_table_key_is_a_label",
            "unit/config/clouds/azure:every_key_reaches_the_client",
        ),
    ),
    31: (
        "modes are not checked",
        ("mage/section_07_modes:other_modes_are_refused",),
    ),
    32: (
        "objects of one second overwrite each other",
        (
            "contract/streams:many_batches_in_one_second_lose_nothing",
            "storage/s3:one_of_several_processes_wins_a_name",
        ),
    ),
    33: (
        "types drift from file to file",
        (
            _SAME,
            "contract/types:declared_types_and_each_of_their_values",
        ),
    ),
    34: (
        "one value fails a batch",
        (
            _SAME,
            "contract/streams:bad_records_are_set_aside_with_their_reasons",
        ),
    ),
    35: (
        "microseconds are cut off",
        (_SAME,),
    ),
    36: (
        "no date-times and no header format on Google Cloud Storage",
        (
            _SAME,
            _CSV,
        ),
    ),
    37: (
        "CSV in Python's notation",
        (_CSV,),
    ),
    38: (
        "{} and mixed lists fail",
        (_SAME,),
    ),
    39: (
        "header formats are not checked, names collide",
        (
            "mage/section_01_config:a_wrong_key_or_value_is_told_before_anything_is_read",
            "mage/sections_04_05_06_content:headers_that_become_one_are_refused",
        ),
    ),
    40: (
        "a wrong config is found after a batch was read",
        (
            "mage/section_01_config:a_wrong_key_or_value_is_told_before_anything_is_read",
            "unit/mage/target:config_errors_come_before_anything_is_read",
        ),
    ),
    41: (
        "absolute parts leave the prefix",
        (
            "unit/writers/naming:configured_paths_that_are_refused",
            "unit/writers/naming:date_formats_that_are_refused",
        ),
    ),
    42: (
        "the role is ignored beside keys, the endpoint beside the role",
        ("storage/s3:a_role_is_assumed_with_the_keys_and_at_the_endpoint",),
    ),
    43: (
        "one request from memory, without type and condition",
        (
            "property/storage_parts:ten_thousand_parts_hold_a_tebibyte",
            "storage/s3:an_object_carries_type_metadata_tags_and_encryption",
            "storage/s3_faults:no_more_than_three_parts_are_in_memory",
        ),
    ),
    44: (
        "no retries on Google Cloud Storage",
        ("storage/gcs:a_storm_of_failures_is_outlived",),
    ),
    45: (
        "buckets.get is needed",
        (
            "storage/gcs:creating_objects_is_the_only_permission_needed",
            "mage/section_02_command_line:a_connection_that_fails",
        ),
    ),
    46: (
        "a batch is held in memory several times",
        ("faults/memory:a_stream_of_300_mb",),
    ),
    47: (
        "a failed stream's bookmark leaves through another's",
        (
            "mage/section_03_messages:a_stream_that_fails_holds_every_state_behind_it_back",
            "faults/state:no_state_goes_out_behind_a_stream_that_failed",
            "mage/section_02_command_line:a_pipe_that_breaks",
        ),
    ),
    48: (
        "a STATE that names an unseen stream crashes",
        (
            "mage/section_03_messages:a_state_alone_goes_out",
            "faults/state:states_of_many_streams_over_many_flushes",
        ),
    ),
    49: (
        "a STATE without records is lost",
        (
            "mage/section_03_messages:a_state_alone_goes_out",
            "contract/streams:a_state_without_records_goes_out_too",
        ),
    ),
    50: (
        "other shapes of STATE crash or are cut",
        (
            _PASSED,
            "unit/sources/singer/source:a_state_is_never_rewritten",
            "unit/sources/singer/state:other_shapes_replace",
            "unit/mage/target:states_are_merged_into_the_file",
        ),
    ),
    51: (
        "the state file is torn and forgets streams",
        (
            "unit/sources/singer/state:bookmarks_merge_over_runs_and_keep_their_numbers",
            "unit/sources/singer/state:a_file_that_cannot_be_replaced_keeps_its_content",
            "unit/mage/target:states_are_merged_into_the_file",
        ),
    ),
    52: (
        "currently_syncing is looked for in the wrong object",
        (
            _PASSED,
            "mage/section_02_command_line:a_load_as_the_orchestrator_starts_it",
        ),
    ),
    53: (
        "sizes count the schema with each record",
        ("unit/sources/singer/source:a_flush_is_cut_behind_the_line_that_reaches_the_bytes",),
    ),
    54: (
        "one error hides the others",
        (
            "mage/section_03_messages:no_error_hides_another",
            "mage/section_02_command_line:every_stream_that_fails_is_told",
        ),
    ),
    55: (
        "records are logged, bad lines are passed over",
        (
            "faults/limits:no_value_is_ever_shown",
            _BROKEN,
            "mage/section_02_command_line:a_load_as_the_orchestrator_starts_it",
            "mage/section_02_command_line:a_pipe_that_breaks",
        ),
    ),
    56: (
        "a flag's `False` is true",
        (
            "unit/mage/target:flags_by_argparse",
            "mage/section_02_command_line:every_stream_that_fails_is_told",
        ),
    ),
    57: (
        "[null, array] is missed, text is evaluated",
        (_PASSED,),
    ),
    58: (
        "the caller's partition keys grow, null crashes",
        (
            _OVERRIDES,
            "mage/section_03_messages:no_error_hides_another",
        ),
    ),
    59: (
        "an undeclared column is a KeyError",
        ("contract/streams:undeclared_fields_can_fail_the_run",),
    ),
    60: (
        "a catalog drops columns that are null",
        (_OVERRIDES,),
    ),
    61: (
        "STATE without a value, and lines that are lists, crash",
        (
            _BROKEN,
            _PASSED,
            "mage/section_02_command_line:a_load_as_the_orchestrator_starts_it",
            "unit/sources/singer/source:a_line_that_is_no_message_ends_the_run_at_once",
        ),
    ),
    62: (
        "times without a zone, incoming ones overwritten",
        (_SAME,),
    ),
    63: (
        "secrets on the command line",
        (
            "unit/mage/target:secrets_in_config_json_are_taken_with_a_warning",
            "unit/cli/app:secret_keys_are_refused_on_the_command_line",
            "unit/mage/target:no_line_holds_a_secret",
        ),
    ),
    64: (
        "keys and messages without effect are passed over in silence",
        (
            "unit/config/mage/streaming_sink:a_catalog",
            "unit/sources/singer/source:other_messages_have_no_effect_on_data",
            "mage/section_02_command_line:a_load_as_the_orchestrator_starts_it",
        ),
    ),
    65: (
        "values of the environment break the file, unset ones are `None`",
        (
            "unit/config/mage/templates:a_value_comes_in_whole_however_it_is_quoted",
            "unit/config/mage/templates:what_has_no_value_is_an_error_that_names_it",
        ),
    ),
    66: (
        "a template's key wins over a file's, JSON text is not taken",
        (
            "unit/config/mage/streaming_sink:a_flat_profile",
            "unit/config/clouds/gcp:the_key_comes_in_three_forms",
        ),
    ),
    67: (
        "`limit` is ignored",
        ("mage/section_10_io:objects_in_s3",),
    ),
    68: (
        "a `.tmp` is left in the current folder",
        ("mage/section_10_io:objects_in_s3",),
    ),
    69: (
        "Delta blocks use what is gone",
        ("mage/examples:days_that_are_replaced",),
    ),
    70: (
        "a template's placeholders are sent as credentials",
        (
            "unit/config/mage/streaming_sink:a_flat_profile",
            "mage/section_10_io:a_profile_makes_a_destination",
        ),
    ),
    71: (
        "5 MB are 600,000 messages",
        ("mage/section_11_streaming:objects_lie_where_the_sink_puts_them",),
    ),
    72: ("messages that come during an upload are lost, errors vanish", (_STREAM,)),
    73: ("what is buffered at the end is lost", (_STREAM,)),
    74: ("sinks share one buffer, date-times break it", (_STREAM,)),
    75: ("a failure clears the buffer", (_STREAM,)),
    76: (
        "a sink takes no credentials, endpoint or region",
        (
            "unit/config/mage/streaming_sink:each_kind_of_sink",
            "mage/section_11_streaming:objects_lie_where_the_sink_puts_them",
        ),
    ),
}
"""Number -> what was wrong, and the tests that fail if it comes back."""
