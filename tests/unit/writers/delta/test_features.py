"""Which table features a report tells of."""

from __future__ import annotations

from lakeport.writers.delta.plain import feature_notes, lacking_readers


def test_features_are_told_when_they_are_new() -> None:
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors", "someday"],
        "writerFeatures": ["deletionVectors", "clustering", "someday"],
    }
    assert lacking_readers(protocol)["someday"] == ("most others",)
    assert len(feature_notes((), protocol)) == 3
    assert feature_notes(["deletionVectors", "clustering", "someday"], protocol) == ()
    assert feature_notes((), {}) == ()
