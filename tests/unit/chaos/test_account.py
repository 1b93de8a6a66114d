"""The judge of the chaos tests must see every kind of fault, or a run that passes says nothing."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.account import Account
from tests.chaos.load import KINDS, PARTITIONS, SCRIPT, THROWS, Load

FED = 400
LOAD = Load(run_number=3, poison_every=40)
KIND = KINDS["v8"]

Output = tuple[str, int, bytes]


def wanted(n: int) -> list[bytes]:
    return LOAD.outputs(KIND, n)


def outputs(partition: int) -> list[Output]:
    """What a pipeline without fault sends to a partition."""
    return [
        (f"stream/{partition}/{n // PARTITIONS}/{number}", partition, value)
        for n in range(partition, FED, PARTITIONS)
        for number, value in enumerate(wanted(n))
    ]


ALL = [output for partition in range(PARTITIONS) for output in outputs(partition)]


def account(came: list[Output]) -> Account:
    made = Account(wanted)
    for output in came:
        made.take(*output)
    return made


def test_a_run_without_fault() -> None:
    seen = account(ALL)
    assert (seen.count, seen.repeats, seen.wrong, seen.inversions) == (len(ALL), 0, 0, 0)
    assert seen.complete(FED)
    assert seen.lost(FED) == 0


@given(st.sets(st.integers(0, len(ALL) - 1), min_size=1))
def test_what_did_not_come_is_lost(gaps: set[int]) -> None:
    seen = account([output for index, output in enumerate(ALL) if index not in gaps])
    assert seen.lost(FED) == len(gaps)
    assert not seen.complete(FED)
    assert (seen.wrong, seen.inversions, seen.repeats) == (0, 0, 0)


@given(st.integers(0, FED // PARTITIONS), st.randoms(use_true_random=False))
def test_what_comes_again_is_a_repeat(behind: int, draw: random.Random) -> None:
    """A worker that was killed sends again what it had sent since its last commit."""
    mine = outputs(1)
    at = draw.randrange(1, len(mine))
    again = mine[max(0, at - behind) : at]
    seen = account([*mine[:at], *again, *mine[at:]])
    assert (seen.count, seen.repeats, seen.inversions, seen.wrong) == (len(mine), len(again), 0, 0)


@given(st.integers(0, len(outputs(2)) - 2))
def test_what_comes_too_late_is_an_inversion(index: int) -> None:
    came = outputs(2)
    came[index], came[index + 1] = came[index + 1], came[index]
    seen = account(came)
    assert (seen.inversions, seen.count, len(seen.missing)) == (1, len(came), 0)


def test_other_bytes_are_wrong_in_repeats_too() -> None:
    source, partition, _ = ALL[5]
    assert account([*ALL[:5], (source, partition, b"{}"), *ALL[6:]]).wrong == 1
    assert account([*ALL, (source, partition, b"{}")]).wrong == 1


def test_another_partition_is_wrong() -> None:
    source, partition, value = ALL[0]
    assert account([(source, partition + 1, value)]).wrong == 1


def test_an_output_that_must_not_be_is_wrong() -> None:
    dropped = next(n for n in range(FED) if not wanted(n))
    assert (
        account([(f"stream/{dropped % PARTITIONS}/{dropped // PARTITIONS}/0", dropped % PARTITIONS, b"{}")]).wrong == 1
    )


def test_order_and_repeats_show_in_the_digest() -> None:
    mine = outputs(0)
    swapped = [mine[1], mine[0], *mine[2:]]
    digests = [account(came).digest() for came in (mine, swapped, [*mine, mine[-1]], mine)]
    assert digests[0] == digests[3]
    assert digests[0] not in digests[1:3]


def test_every_poison_has_its_turn() -> None:
    planted = [LOAD.poison(n) for n in range(FED) if LOAD.poison(n)]
    assert planted == [*THROWS]
    assert all(f"'{poison}'" in SCRIPT or poison == "cut" for poison in planted)
    letters = [n for n in range(FED) if LOAD.dead_letters(KIND, n)]
    assert letters == [n for n in range(FED) if LOAD.poison(n)]
    assert [n for n in range(FED) if LOAD.dead_letters(KINDS["filter"], n)] == [
        n for n in letters if LOAD.poison(n) == "cut"
    ]


def test_without_poison() -> None:
    assert not any(Load(1, 0).poison(n) for n in range(FED))
