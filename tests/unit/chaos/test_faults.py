"""The order in which the copy test applies its actions."""

import random
from itertools import islice

from tests.chaos.faults import Action, AppliedAction, shuffled

ACTIONS = [Action(victim, how, lambda: AppliedAction(0.0)) for victim in ("a", "b", "c") for how in ("KILL", "STOP")]


class TestStrikes:
    def test_every_victim_and_every_action_comes_once_before_any_repeats(self) -> None:
        order = list(islice(shuffled(ACTIONS, random.Random(5)), 12))
        for start in range(0, 12, 3):
            assert {action.victim for action in order[start : start + 3]} == {"a", "b", "c"}
        assert {action.name for action in order[:6]} == {action.name for action in ACTIONS}

    def test_the_same_seed_gives_the_same_order(self) -> None:
        first, again = ([d.name for d in islice(shuffled(ACTIONS, random.Random(7)), 30)] for _ in range(2))
        assert first == again
