"""Rules say which resources are removed, and which need an operator's confirmation."""

from dataclasses import replace

import pytest

from headwater.brokers.base import Inventory
from headwater.controller.classification import (
    MAX_UNKNOWN_DEPLOYMENTS,
    ClassifiedResources,
    active_unknown_deployments,
    classify,
    connected_ids,
)
from headwater.controller.recorded_state import RecordedState
from headwater.controller.resource_names import ExistingResources, ResourceNames


def identity(letter: str, number: int = 0) -> str:
    return f"01{letter}{number:023}"


D, OTHER_D, F, OTHER_F = identity("d"), identity("d", 1), identity("f"), identity("f", 1)
OUT, DLQ = f"flow.{F}.out", f"flow.{F}.dlq"
NOTHING = RecordedState()


def found(*deployments: str, topics: frozenset[str] = frozenset({OUT, DLQ})) -> ExistingResources:
    """Return an inventory of deployments that read and write these topics."""
    users = frozenset(f"{kind}-{deployment}" for deployment in deployments for kind in ("dep", "wrk"))
    inventory = Inventory(
        topics=topics | {"stream.base.log", "headwater.ticks", "flow.short.out"},
        users=users | {"headwater-admin", "dep-short"},
        topics_in_acls_by_user=dict.fromkeys(users, topics) | {"somebody": frozenset({"stream.base.log"})},
        groups=frozenset(f"{user}.main" for user in users) | {"somebody's"},
    )
    return ExistingResources(
        inventory,
        external_groups={f"wrk-{each}.1": False for each in deployments},
        subscriptions=frozenset(f"wrk-{each}.2" for each in deployments),
        running_deployment_ids=frozenset(deployments),
    )


def owned(*deployments: str, topics: frozenset[str] = frozenset()) -> ResourceNames:
    return replace(found(*deployments).names, topics=topics)


def recorded(
    active: str = "", ended: str = "", deployed: str = "", undeployed: str = "", *more_ended: str
) -> RecordedState:
    def ids(each: str) -> frozenset[str]:
        return frozenset({each} if each else ())

    return RecordedState(
        active_deployments=ids(active),
        ended_deployments=ids(ended) | frozenset(more_ended),
        deployed_configurations=ids(deployed),
        undeployed_configurations=ids(undeployed),
    )


BOTH = frozenset({OUT, DLQ})


class TestRule:
    @pytest.mark.parametrize(
        ("seen", "known", "removable", "unknown"),
        [
            pytest.param(found(D), recorded(active=D, deployed=F), ResourceNames(), ResourceNames(), id="active stays"),
            pytest.param(
                found(D), recorded(ended=D, undeployed=F), owned(D, topics=BOTH), ResourceNames(), id="ended is removed"
            ),
            pytest.param(
                found(D),
                recorded(ended=D, active=OTHER_D, deployed=F, undeployed=F),
                owned(D),
                ResourceNames(),
                id="topics of a configuration that is deployed again stay",
            ),
            pytest.param(found(D), NOTHING, ResourceNames(), owned(D, topics=BOTH), id="made after the backup waits"),
            pytest.param(
                found(OTHER_D),
                recorded(ended=D, undeployed=F),
                ResourceNames(),
                owned(OTHER_D, topics=BOTH),
                id="deployed again after the backup waits with its topics",
            ),
            pytest.param(
                found(D, OTHER_D),
                recorded(ended=D, undeployed=F),
                owned(D),
                owned(OTHER_D, topics=BOTH),
                id="the ended one goes and the unknown one keeps the topics",
            ),
            pytest.param(
                found(),
                recorded(ended=D, undeployed=F),
                ResourceNames(topics=BOTH),
                ResourceNames(),
                id="topics alone, of what is recorded as ended",
            ),
            pytest.param(found(), NOTHING, ResourceNames(), ResourceNames(topics=BOTH), id="topics of the unknown"),
            pytest.param(
                found(D),
                recorded(active=OTHER_D, deployed=F),
                ResourceNames(),
                owned(D),
                id="an unknown deployment beside an active one",
            ),
            pytest.param(
                found(D),
                recorded(ended=D),
                owned(D),
                ResourceNames(topics=BOTH),
                id="of a configuration never seen",
            ),
        ],
    )
    def test_table(
        self, seen: ExistingResources, known: RecordedState, removable: ResourceNames, unknown: ResourceNames
    ) -> None:
        assert classify(seen, known) == ClassifiedResources(removable, unknown)

    @pytest.mark.parametrize("count", [MAX_UNKNOWN_DEPLOYMENTS, MAX_UNKNOWN_DEPLOYMENTS + 1])
    def test_no_topic_is_removed_while_many_deployments_are_unknown(self, count: int) -> None:
        strangers = [identity("x", number) for number in range(count)]
        seen = found(*strangers, topics=frozenset({f"flow.{OTHER_F}.out"}))
        seen = replace(seen, inventory=replace(seen.inventory, topics=seen.inventory.topics | BOTH))
        result = classify(seen, recorded(ended=D, undeployed=F))
        assert result.removable.topics == (BOTH if count <= MAX_UNKNOWN_DEPLOYMENTS else frozenset())
        assert result.removable.topics | result.unknown.topics >= BOTH
        assert not result.removable.users

    def test_names_of_another_form_are_invisible(self) -> None:
        assert found(topics=frozenset()).names == ResourceNames()

    def test_a_user_with_only_acls_is_found(self) -> None:
        inventory = Inventory(
            topics=frozenset(),
            users=frozenset(),
            topics_in_acls_by_user={f"dep-{D}": frozenset({OUT})},
            groups=frozenset(),
        )
        assert classify(ExistingResources(inventory), NOTHING).unknown.users == {f"dep-{D}"}


class TestConfirming:
    def test_deployments_and_configurations_are_found_by_each_other(self) -> None:
        seen = found(D)
        unknown = classify(seen, NOTHING).unknown
        assert connected_ids([D], seen, unknown) == connected_ids([F], seen, unknown) == {D, F}

    def test_others_are_left_out(self) -> None:
        seen = found(D)
        unknown = classify(seen, recorded(active=D, deployed=F)).unknown
        assert connected_ids([D, F, OTHER_D], seen, unknown) == frozenset()

    def test_resources_of_another_installation_are_reported(self) -> None:
        seen = found(D, OTHER_D)
        busy = replace(seen.inventory, busy_groups=frozenset({f"wrk-{D}.main", f"dep-{OTHER_D}.main"}))
        seen = replace(seen, inventory=busy)
        assert active_unknown_deployments(seen, classify(seen, NOTHING).unknown) == {D}

    def test_workers_that_read_another_cluster_are_reported(self) -> None:
        seen = replace(found(D, OTHER_D), external_groups={f"wrk-{D}.1": True, f"wrk-{OTHER_D}.1": False})
        assert active_unknown_deployments(seen, classify(seen, NOTHING).unknown) == {D}
