"""Plans, and their application, which reaches what the files say."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater_client.files.desired import DesiredPipeline, ProjectFiles
from headwater_client.files.live import LivePipeline
from headwater_client.files.plan import DiffLine, make_plan, plan_pipeline
from headwater_client.files.plan_text import plan_lines
from headwater_client.files.values import DesiredValues
from tests.examples import examples
from tests.unit.files.server import Server

CONFIG: dict[str, Any] = {
    "source": {"chain": "base", "entity": "log"},
    "transforms": [
        {"name": "token", "type": "redis_set_filter", "filter_expr": "root = this.address"},
        {"name": "enrich", "type": "v8", "script": "a\nb\nc"},
    ],
    "sinks": [{"type": "kafka", "name": "out"}],
    "parallelism": 1,
    "delivery": "at_least_once",
}
USDC = DesiredPipeline("usdc", "USDC", "", (), CONFIG, script_labels={"enrich": "scripts/usdc.ts"})


def project(*pipelines: DesiredPipeline) -> ProjectFiles:
    return ProjectFiles("wallets", "", pipelines)


def live(pipeline: DesiredPipeline = USDC, **members: Any) -> LivePipeline:
    defaults: dict[str, Any] = {"state": "running", "running_config": pipeline.config, "config": pipeline.config}
    return LivePipeline("id", pipeline.key, pipeline.name, "", (), **{"revision": 3, **defaults, **members})


def lines(*pipelines: DesiredPipeline, server: dict[str, LivePipeline], prune: bool = False) -> list[str]:
    plan = make_plan(project(*pipelines), server)
    return [line for _, line in plan_lines(plan, "http://localhost:8080", prune=prune)]


def without_names(config: Any) -> Any:
    return {**config, "transforms": [{**transform, "name": None} for transform in config["transforms"]]}


def script(text: str) -> dict[str, Any]:
    return {**CONFIG, "transforms": [CONFIG["transforms"][0], {"name": "enrich", "type": "v8", "script": text}]}


class TestPlan:
    def test_what_the_server_adds_is_no_difference(self) -> None:
        stored = {
            "source": {"type": "pubsub", "chain": "base", "entity": "log", "is_zerolag": False, "start_at": "latest"},
            "transforms": [{"uid": f"t{index}", **each} for index, each in enumerate(CONFIG["transforms"])],
            "sinks": [{"uid": "s", "type": "kafka", "name": "out", "partitions": None}],
        }
        plan = make_plan(project(USDC), {"usdc": live(config=stored, running_config=stored)})
        assert plan.is_empty(prune=True)
        assert lines(USDC, server={"usdc": live()})[-1] == "Nothing to do: all 1 pipelines are as the files say."

    def test_a_changed_script_shows_its_lines(self) -> None:
        plan = plan_pipeline(USDC, live(config=script("a\nx\nc"), running_config=script("a\nx\nc")))
        [change] = plan.changes
        assert (change.where, change.detail) == ("transforms.enrich", "scripts/usdc.ts")
        assert change.lines == (DiffLine(2, "-", "x"), DiffLine(2, "+", "b"))
        assert (plan.saves, plan.steps, plan.redeploys) == (True, ("deploy",), True)

    def test_a_saved_change_that_does_not_run_is_deployed(self) -> None:
        plan = plan_pipeline(USDC, live(running_config=script("old")))
        assert (plan.saves, plan.steps, plan.redeploys) == (False, ("deploy",), True)

    def test_a_failed_rollout_is_tried_again(self) -> None:
        assert plan_pipeline(USDC, live(failure="out of memory")).steps == ("deploy",)

    def test_a_new_description_does_not_redeploy(self) -> None:
        plan = plan_pipeline(replace(USDC, description="of USDC"), live())
        assert (plan.saves, plan.steps) == (True, ())

    def test_a_removed_sink_of_a_deployed_pipeline_removes_its_topic(self) -> None:
        old = {**CONFIG, "sinks": [*CONFIG["sinks"], {"type": "kafka", "name": "old"}]}
        removed = ("the topic of the sink old and the records in it",)
        assert plan_pipeline(USDC, live(config=old, running_config=old)).destroys == removed
        assert plan_pipeline(USDC, live(running_config=old)).destroys == removed
        assert plan_pipeline(USDC, live(config=old)).destroys == ()
        assert plan_pipeline(USDC, live(config=old, running_config=None, state="none")).destroys == ()

    def test_a_sink_of_another_type_removes_its_topic_too(self) -> None:
        prices = {"type": "prices", "name": "old", "price_field": "price", "token_field": "token"}
        with_topic = {**CONFIG, "sinks": [*CONFIG["sinks"], {"type": "kafka", "name": "old"}]}
        with_prices = {**CONFIG, "sinks": [*CONFIG["sinks"], prices]}
        plan = plan_pipeline(replace(USDC, config=with_prices), live(config=with_topic, running_config=with_topic))
        assert plan.destroys == ("the topic of the sink old and the records in it",)
        running = live(config=with_prices, running_config=with_prices)
        assert plan_pipeline(replace(USDC, config=with_topic), running).destroys == ()
        assert plan_pipeline(USDC, running).destroys == ()

    def test_the_text(self) -> None:
        server = {"usdc": live(config=script("a\nx\nc")), "old-feed": live(replace(USDC, key="old-feed"))}
        assert lines(USDC, replace(USDC, key="new-pools"), server=server) == [
            "project wallets on http://localhost:8080",
            "",
            "~ usdc                                 saved, keeps running",
            "  ~ transforms.enrich  scripts/usdc.ts",
            "      2 - x",
            "      2 + b",
            "",
            "+ new-pools                            created and deployed",
            "",
            "- old-feed                             not in this folder; --prune removes it",
            "",
            "1 to change, 1 to create, 0 to remove (1 with --prune).",
        ]


class TestValues:
    def test_initial_values_are_written_once(self) -> None:
        server, pipeline = Server(), replace(USDC, values={"token": DesiredValues("initial", "values", ("A", "b"))})
        server.apply(server.plan(project(pipeline)))
        assert server.state()["usdc"][3] == {"token": {"a", "b"}}
        server.write("usdc", "token", set())
        assert server.plan(project(pipeline)).is_empty(prune=True)

    def test_a_renamed_filter_keeps_its_values(self) -> None:
        server, pipeline = Server(), replace(USDC, values={"token": DesiredValues("initial", "values", ("a",))})
        server.apply(server.plan(project(pipeline)))
        server.write("usdc", "token", {"b"})
        transforms = [{**CONFIG["transforms"][0], "name": "tokens"}, CONFIG["transforms"][1]]
        config = {**CONFIG, "transforms": transforms}
        plan = server.plan(project(replace(pipeline, config=config, values={"tokens": pipeline.values["token"]})))
        [change] = plan.pipelines[0].changes
        assert (change.where, change.detail) == ("transforms.tokens", "has a new name; it was token")
        assert (plan.pipelines[0].values, plan.pipelines[0].steps) == ((), ())
        server.apply(plan)
        assert server.state()["usdc"][3] == {"tokens": {"b"}}

    def test_replaced_values_are_those_of_the_file_after_each_apply(self) -> None:
        server, pipeline = Server(), replace(USDC, values={"token": DesiredValues("replace", "v", ("a", "b", "a"))})
        server.apply(server.plan(project(pipeline)))
        server.write("usdc", "token", {"a", "c", "d"})
        [write] = server.plan(project(pipeline)).pipelines[0].values
        assert (write.added, write.removed) == (1, 2)
        server.apply(server.plan(project(pipeline)))
        assert server.state()["usdc"][3] == {"token": {"a", "b"}}


names = st.sampled_from(["a", "b", "c"])
transforms = st.one_of(
    st.builds(
        lambda name, expr: {"name": name, "type": "redis_set_filter", "filter_expr": expr},
        names,
        st.sampled_from(["root = this.x", "root = this.y"]),
    ),
    st.builds(lambda name, text: {"name": name, "type": "v8", "script": text}, names, st.sampled_from(["1", "2\n3"])),
)
values = st.builds(
    DesiredValues,
    st.sampled_from(["initial", "replace"]),
    st.just("values"),
    st.lists(st.sampled_from(["x", "Y", " z "]), max_size=4).map(tuple),
)


@st.composite
def pipelines(draw: st.DrawFn, key: str) -> DesiredPipeline:
    chosen = draw(st.lists(transforms, max_size=3, unique_by=lambda transform: transform["name"]))
    filters = [transform["name"] for transform in chosen if transform["type"] == "redis_set_filter"]
    sinks = draw(st.lists(names, min_size=1, max_size=2, unique=True))
    return DesiredPipeline(
        key,
        draw(names),
        draw(st.sampled_from(["", "text"])),
        tuple(draw(st.lists(names, max_size=2))),
        {
            "source": {"chain": "base", "entity": draw(st.sampled_from(["log", "block"]))},
            "transforms": chosen,
            "sinks": [{"type": "kafka", "name": name} for name in sinks],
            "parallelism": draw(st.integers(1, 2)),
            "delivery": "at_least_once",
        },
        draw(st.sampled_from(["running", "paused", "none"])),
        {name: draw(values) for name in filters if draw(st.booleans())},
    )


folders = st.sets(st.sampled_from(["p", "q"])).flatmap(
    lambda keys: st.tuples(*map(pipelines, sorted(keys))).map(lambda found: project(*found))
)


@settings(max_examples=examples(400))
@given(st.lists(folders, min_size=1, max_size=3), st.integers(0, 8))
def test_any_folders_are_reached_however_often_an_apply_is_interrupted(
    versions: list[ProjectFiles], steps: int
) -> None:
    server = Server()
    for version in versions:
        server.apply(server.plan(version), prune=True, steps=steps)  # killed after some requests
        server.apply(server.plan(version), prune=True)
        assert server.plan(version).is_empty(prune=True)
        state = server.state()
        assert sorted(state) == sorted(pipeline.key for pipeline in version.pipelines)
        for pipeline in version.pipelines:
            body, deployed, running, sets = state[pipeline.key]
            assert body == pipeline.body(pipeline.key)
            assert deployed == pipeline.deploy
            if deployed == "running":
                assert without_names(running) == without_names(pipeline.config)
            for name, desired in pipeline.values.items():
                if desired.mode == "replace":
                    assert sets[name] == set(desired.normalised())
