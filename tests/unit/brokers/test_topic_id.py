"""The topic's id in the metadata of a commit."""

import pytest

from headwater.brokers.topic_id import label, labelled


def test_a_label_can_be_read() -> None:
    assert labelled(label("35atd0BkTtuNyKbblWRTKg")) == "35atd0BkTtuNyKbblWRTKg"


@pytest.mark.parametrize("metadata", [None, "", "written by somebody else", label("")])
def test_other_metadata_tells_no_id(metadata: str | None) -> None:
    assert labelled(metadata) == ""
