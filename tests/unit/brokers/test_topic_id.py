"""The topic id in the metadata of a commit."""

import pytest

from headwater.brokers.topic_id import commit_metadata, committed_topic_id


def test_a_label_can_be_read() -> None:
    assert committed_topic_id(commit_metadata("35atd0BkTtuNyKbblWRTKg")) == "35atd0BkTtuNyKbblWRTKg"


@pytest.mark.parametrize("metadata", [None, "", "written by somebody else", commit_metadata("")])
def test_other_metadata_has_no_topic_id(metadata: str | None) -> None:
    assert committed_topic_id(metadata) == ""


def test_text_after_the_id_is_ignored() -> None:
    assert committed_topic_id(commit_metadata("rD81XBjwQOKlylToD/Q6jw") + "fer") == "rD81XBjwQOKlylToD/Q6jw"
