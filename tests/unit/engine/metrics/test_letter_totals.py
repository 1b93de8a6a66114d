"""Dead letters are counted by the kind of their error, each once."""

import pytest

from headwater.model.dead_letter import LetterKind, letter_total_name, parse_letter_total_name
from tests.unit.engine.metrics.test_transform_metrics import Copies, Scene

BAD = LetterKind("Error", "t", None)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def letters(scene: Scene) -> dict[LetterKind | None, int]:
    return {parse_letter_total_name(name): total.count for name, total in scene.store.letter_totals("d1").items()}


def test_letters_are_counted_with_the_commit(scene: Scene) -> None:
    scene.process("1 x x 1 x", [Copies("t", scene.clock)])
    assert letters(scene) == {}
    scene.commit()
    assert letters(scene) == {BAD: 3}
    scene.process("1 1", [Copies("t", scene.clock)], first=3)
    scene.commit()
    assert letters(scene) == {BAD: 3}


def test_letters_of_several_transforms(scene: Scene) -> None:
    scene.process("x 1", [Copies("t", scene.clock), Copies("u", scene.clock)])
    scene.process("x", [Copies("u", scene.clock)], first=1)
    scene.commit()
    assert letters(scene) == {BAD: 1, BAD._replace(component="u"): 1}


def test_the_next_worker_counts_no_letter_twice(scene: Scene) -> None:
    scene.process("x 1 x 1", [Copies("t", scene.clock)])
    scene.metrics.on_acknowledged(0)
    scene.metrics.before_commit(ignore_retry_delay=True)  # the worker is killed before the commit of its positions
    scene.new_worker("b")
    scene.process("x 1 x 1 x x", [Copies("t", scene.clock)])
    scene.commit()
    assert letters(scene) == {BAD: 4}


@pytest.mark.parametrize("kind", [BAD, LetterKind('a/"b:', "sink", 12), LetterKind("ü" * 512, "", None)])
def test_names_of_totals(kind: LetterKind) -> None:
    assert parse_letter_total_name(letter_total_name(kind)) == kind
    assert parse_letter_total_name("transform/t/sent") is None
