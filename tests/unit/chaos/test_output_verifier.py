"""The verifier of the chaos tests must detect every kind of wrong output."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.load import KINDS, PARTITIONS, POISONS, SCRIPT, Load
from tests.chaos.output_verifier import OutputVerifier

FED = 400
LOAD = Load(run_number=3, poison_every=40)
KIND = KINDS["v8"]

Output = tuple[str, int, bytes]


def expected(n: int) -> list[bytes]:
    return LOAD.outputs(KIND, n)


def outputs(partition: int) -> list[Output]:
    """Return the correct outputs on a partition."""
    return [
        (f"stream/{partition}/{n // PARTITIONS}/{number}", partition, value)
        for n in range(partition, FED, PARTITIONS)
        for number, value in enumerate(expected(n))
    ]


ALL = [output for partition in range(PARTITIONS) for output in outputs(partition)]


def verify(received: list[Output]) -> OutputVerifier:
    verifier = OutputVerifier(expected)
    for output in received:
        verifier.add(*output)
    return verifier


def test_correct_outputs_have_no_faults() -> None:
    result = verify(ALL)
    assert (result.count, result.repeats, result.wrong, result.inversions) == (len(ALL), 0, 0, 0)
    assert result.complete(FED)
    assert result.lost(FED) == 0


@given(st.sets(st.integers(0, len(ALL) - 1), min_size=1))
def test_missing_outputs_are_lost(gaps: set[int]) -> None:
    result = verify([output for index, output in enumerate(ALL) if index not in gaps])
    assert result.lost(FED) == len(gaps)
    assert not result.complete(FED)
    assert (result.wrong, result.inversions, result.repeats) == (0, 0, 0)


@given(st.integers(0, FED // PARTITIONS), st.randoms(use_true_random=False))
def test_outputs_that_come_twice_are_repeats(behind: int, draw: random.Random) -> None:
    """After a kill, a worker repeats the outputs since its last commit."""
    mine = outputs(1)
    at = draw.randrange(1, len(mine))
    again = mine[max(0, at - behind) : at]
    result = verify([*mine[:at], *again, *mine[at:]])
    assert (result.count, result.repeats, result.inversions, result.wrong) == (len(mine), len(again), 0, 0)


@given(st.integers(0, len(outputs(2)) - 2))
def test_an_output_after_a_later_one_is_an_inversion(index: int) -> None:
    received = outputs(2)
    received[index], received[index + 1] = received[index + 1], received[index]
    result = verify(received)
    assert (result.inversions, result.count, len(result.missing)) == (1, len(received), 0)


def test_unexpected_bytes_are_wrong_in_first_outputs_and_repeats() -> None:
    source, partition, _ = ALL[5]
    assert verify([*ALL[:5], (source, partition, b"{}"), *ALL[6:]]).wrong == 1
    assert verify([*ALL, (source, partition, b"{}")]).wrong == 1


def test_an_output_on_another_partition_is_wrong() -> None:
    source, partition, value = ALL[0]
    assert verify([(source, partition + 1, value)]).wrong == 1


def test_an_output_of_a_dropped_record_is_wrong() -> None:
    dropped = next(n for n in range(FED) if not expected(n))
    assert (
        verify([(f"stream/{dropped % PARTITIONS}/{dropped // PARTITIONS}/0", dropped % PARTITIONS, b"{}")]).wrong == 1
    )


def test_the_digest_depends_on_order_and_repeats() -> None:
    mine = outputs(0)
    swapped = [mine[1], mine[0], *mine[2:]]
    digests = [verify(received).digest() for received in (mine, swapped, [*mine, mine[-1]], mine)]
    assert digests[0] == digests[3]
    assert digests[0] not in digests[1:3]


def test_every_kind_of_poison_is_used_in_turn() -> None:
    planted = [LOAD.poison(n) for n in range(FED) if LOAD.poison(n)]
    assert planted == [*POISONS]
    assert all(f"'{poison}'" in SCRIPT or poison == "cut" for poison in planted)
    letters = [n for n in range(FED) if LOAD.dead_letters(KIND, n)]
    assert letters == [n for n in range(FED) if LOAD.poison(n)]
    assert [n for n in range(FED) if LOAD.dead_letters(KINDS["filter"], n)] == [
        n for n in letters if LOAD.poison(n) == "cut"
    ]


def test_poison_every_0_means_no_poison() -> None:
    assert not any(Load(1, 0).poison(n) for n in range(FED))
