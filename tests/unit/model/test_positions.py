"""Positions as they are stored in the database."""

from headwater.model.positions import GroupPositions, StoredPositions


def test_the_stored_names() -> None:
    group = GroupPositions(topic="t", topic_id="", offsets={0: 4}, rewound=frozenset({0}), is_restore_deferred=True)
    positions = StoredPositions(groups={1: group})
    stored = '{"groups":{"1":{"topic":"t","topic_id":"","offsets":{"0":4},"gaps":[],"recounted":[0],"is_kept":true}}}'
    assert positions.model_dump_json() == stored
    assert StoredPositions.model_validate_json(stored) == positions
