"""A redrive processes each source record once, and never a stub."""

import pytest

from headwater.model.dead_letter import STUB_HEADER, LetterHeaders, LetterId
from headwater.model.outputs import OUTPUT_ID_HEADER
from headwater.model.redrive import LetterRange, RedriveSelection, RedriveSpec
from headwater.sources import dead_letter_selector
from headwater.sources.dead_letter_selector import DeadLetterSelector
from tests.support.memory.redrives import MemoryRedriveOutcomes

OLD_STUB = b'{"headwater": "record too large for the dead-letter topic", "sha256": "0a", "bytes": 9, "key_bytes": 0}'


class Scene:
    """The selector of a redrive of all letters in partition 0."""

    def __init__(self) -> None:
        self.store = MemoryRedriveOutcomes()
        redrive = RedriveSpec(id="r", number=2, selection=RedriveSelection(ranges={0: LetterRange(0, 100)}))
        self.selector = DeadLetterSelector("d", redrive, self.store)

    def select(self, *sources: str, first: int = 0, value: bytes = b"{}", **headers: str) -> list[int]:
        """Return the offsets that are selected, of letters with these values of OUTPUT_ID_HEADER."""
        letters = [LetterId(0, first + number) for number in range(len(sources))]
        encoded = {f"headwater-{name}": text.encode() for name, text in headers.items()}
        by_letter = {
            letter: LetterHeaders({OUTPUT_ID_HEADER: source.encode()} | encoded)
            for letter, source in zip(letters, sources, strict=True)
        }
        return [letters[row].offset for row in self.selector.select(letters, by_letter, [value] * len(letters))]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_letters_of_one_source_record_are_processed_once(scene: Scene) -> None:
    assert scene.select("s/0/7/0", "s/0/7/1", "s/0/8/0", "s/0/7/2") == [0, 2]
    assert scene.select("s/0/7/3", "s/0/9/0", first=4) == [5]
    first = LetterId(0, 0)
    assert scene.selector.repeats({0: 4}) == {LetterId(0, 1): first, LetterId(0, 3): first}
    scene.selector.forget({0: 4})
    assert scene.selector.repeats({0: 5, 1: 9}) == {LetterId(0, 4): first}


def test_letters_that_are_read_again_are_processed_again(scene: Scene) -> None:
    assert scene.select("s/0/7/0", "s/0/7/1") == [0]
    assert scene.select("s/0/7/0", "s/0/7/1") == [0]


def test_after_a_restart_a_processed_record_is_not_processed_again(scene: Scene) -> None:
    scene.store.record("d", 2, {LetterId(0, 0): "failed"}, 1)
    assert scene.select("s/0/7/0", "s/0/7/1") == []
    assert scene.selector.repeats({0: 2}) == {LetterId(0, 1): LetterId(0, 0)}


def test_a_record_whose_transaction_may_have_been_aborted_is_processed_again(scene: Scene) -> None:
    scene.store.record("d", 2, {LetterId(0, 0): "delivered", LetterId(0, 1): "delivered"}, 1, in_transaction=True)
    assert scene.select("s/0/7/0", "s/0/7/1") == [0]


def test_letters_of_an_earlier_redrive_are_no_first_letters(scene: Scene) -> None:
    scene.store.record("d", 1, {LetterId(0, 0): "failed"}, 1)
    assert scene.select("s/0/7/0", "s/0/7/1") == [1]


def test_letters_without_a_source_are_all_processed(scene: Scene) -> None:
    assert scene.select("", "") == [0, 1]


def test_the_remembered_records_are_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letter_selector, "MAX_REMEMBERED_RECORDS", 2)
    assert scene.select("s/0/1/0", "s/0/2/0", "s/0/3/0", "s/0/3/1", "s/0/1/1") == [0, 1, 2, 4]


def test_a_stub_is_never_processed(scene: Scene) -> None:
    assert scene.select("s/0/1/0", stub="record too large for the dead-letter topic") == []
    assert scene.select("s/0/1/0", value=OLD_STUB) == []
    assert STUB_HEADER == "headwater-stub"
