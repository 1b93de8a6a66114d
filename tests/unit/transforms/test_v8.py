import pytest

from headwater.errors import SandboxFailed
from headwater.model.transforms.v8 import V8Transform
from headwater.model.value_sets import dataset_set_id
from headwater.transforms.base import TransformContext
from headwater.transforms.v8 import DatasetLookup, build
from tests.support.memory.sets import MemoryDatasetNames, MemorySetStore


@pytest.fixture
def lookup() -> DatasetLookup:
    sets, names = MemorySetStore(), MemoryDatasetNames()
    names.put("ann", "wallets", "d1")
    names.put("bob", "secret", "d2")
    sets.add(dataset_set_id("d1"), ["0xaa", "straße", "x" * 1024])
    sets.add(dataset_set_id("d2"), ["0xaa"])
    return DatasetLookup("ann", names, sets)


class TestDatasetLookup:
    def test_values_are_looked_up_in_lower_case(self, lookup: DatasetLookup) -> None:
        assert lookup([("wallets", ["0xAA", "0xbb", "STRAßE", " 0xaa"])]) == [[True, False, True, False]]

    @pytest.mark.parametrize("value", ["0xAA", "0xAA\n", "0xAA\n0xAA", "\n", "", "\r0xAA", "0xΑΑ", "0XAA"])
    def test_each_value_is_looked_up_independently(self, lookup: DatasetLookup, value: str) -> None:
        found = value in ("0xAA", "0XAA")
        assert lookup([("wallets", ["0xbb", value, "0xAA"])]) == [[False, found, True]]
        assert lookup([("wallets", ["0xbb", value, "STRAßE"])]) == [[False, found, True]]

    def test_foreign_and_missing_datasets_are_unknown(self, lookup: DatasetLookup) -> None:
        assert lookup([("secret", ["0xaa"]), ("none", []), ("wallets", []), ("", ["0xaa"])]) == [None, None, [], None]

    def test_values_that_cannot_be_stored_are_not_looked_up(self, lookup: DatasetLookup) -> None:
        values = ["", "x" * 1024, "x" * 1025, "0xAA", ""]
        assert lookup([("wallets", values)]) == [[False, True, False, True, False]]


def test_a_script_needs_a_sandbox() -> None:
    resources = TransformContext("c1", "ann", MemorySetStore(), MemoryDatasetNames())
    with pytest.raises(SandboxFailed, match="TransformContext"):
        build(V8Transform(uid="u1", type="v8", script="function process() {}"), resources)
