"""Runs one test: starts an installation with pipelines, and disturbs it while records flow.

A feeder writes one stream, and consumers verify the outputs.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from tests.acceptance.installation import (
    Deployed,
    ExternalServers,
    Installation,
    client_config,
    deploy,
    in_background,
    pipeline,
)
from tests.chaos.feeder import Feeder, PubSubFeeder
from tests.chaos.load import DATASET, KINDS, LAYOUTS, MEMBER_VALUES, POISONS, Load, PipelineKind
from tests.chaos.verifying_consumer import Settings, VerifyingConsumer
from tests.support.fencing import count_fencings, logged_fencing
from tests.support.ports import free_port
from tests.support.proxy import Proxy
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.support.pubsub_server import PubSubServer

PROXY_HOST = "127.0.0.2"
PUBSUB_TOPIC = "raw-records"
TICK_S = 0.02
STUCK_AFTER_S = 180.0
LONGEST_RUN_S = 30 * 24 * 3600.0


@dataclass(frozen=True)
class RunOptions:
    """The settings of a run.

    Attributes:
        records: The least number of records to feed.
        rate: Records per second.
        stream: The chain and entity of the stream, which must be empty.
        source: Where the stream is: "kafka" or "pubsub".
        parallelism: The number of workers of each pipeline, or its bounds.
        network: Whether Kafka and Valkey are behind proxies.
        reread: Whether a second consumer compares the whole topics at the end. This must be false for runs longer than
            the retention time of the topics.
    """

    run_number: int
    records: int
    kinds: Sequence[str] = ("v8",)
    delivery: str = "at_least_once"
    rate: int = 2_000
    poison_every: int = 10_000
    poisons: Sequence[str] = POISONS
    stream: tuple[str, str] = ("base", "erc20_token_transfer")
    source: str = "kafka"
    parallelism: int | dict[str, int] = 1
    network: bool = True
    reread: bool = True


@dataclass(frozen=True)
class RunningPipeline:
    """A deployed pipeline, and the consumers that verify its outputs and its dead letters."""

    name: str
    kind: PipelineKind
    deployed: Deployed
    consumer: VerifyingConsumer
    dead_letter_consumer: VerifyingConsumer

    def stats(self, client: httpx2.Client) -> dict[str, Any]:
        """Return `workers_health` of the deployment's stats; empty if there are no stats."""
        response = client.get(f"/api/v1/flow/{self.deployed.id}/deploy/stats")
        health: dict[str, Any] = response.json()["workers_health"] if response.status_code == 200 else {}
        return health


@dataclass
class Environment:
    """The installation under test, and what the run adds to it.

    Attributes:
        direct: Client settings that bypass the proxy to the broker.
        proxies: The proxies on the installation's links, by name.
        kafka_logs: The directory of the broker's logs.
    """

    installation: Installation
    direct: Settings
    proxies: dict[str, Proxy]
    kafka_logs: Path
    pipelines: list[RunningPipeline] = field(default_factory=list)
    feeder: Feeder | PubSubFeeder | None = None
    pubsub: "PubSubServer | None" = None

    @property
    def newest_ms(self) -> int:
        """The timestamp up to which every pipeline has processed the stream."""
        return min(pipeline.consumer.newest_ms for pipeline in self.pipelines)


@dataclass
class PipelineResult:
    """The results of one pipeline.

    Attributes:
        readers_agree: Whether the second consumer saw the same outputs in the same order.
        reader_stalls: How many times the run's own consumers had to be replaced.
        restarts: The restarts of the worker that the last controller has counted.
    """

    outputs: int
    lost: int
    wrong: int
    inversions: int
    repeats: int
    dead_letters: int
    dead_letters_lost: int
    dead_letters_wrong: int
    dead_letter_repeats: int
    readers_agree: bool
    reader_stalls: int
    restarts: int
    age_ms: dict[str, float]

    def faults(self, delivery: str) -> list[str]:
        """Return a description of each wrong figure."""
        zeros = ["lost", "wrong", "inversions", "dead_letters_lost", "dead_letters_wrong"]
        zeros += ["repeats", "dead_letter_repeats"] if delivery == "exactly_once" else []
        wrong = [f"{name}: {getattr(self, name)}" for name in zeros if getattr(self, name)]
        return wrong if self.readers_agree else [*wrong, "a second consumer saw different outputs"]


@dataclass
class RunReport:
    """The results of a run.

    Attributes:
        feeder_stalls: How many times the run's own feeder had to replace a stalled producer.
        figures: Figures that the disturbance adds.
        faults: Wrong outputs and other errors.
        late: Times over their targets.
    """

    options: dict[str, Any]
    fed: int = 0
    feeder_stalls: int = 0
    seconds: float = 0.0
    pipelines: dict[str, PipelineResult] = field(default_factory=dict)
    broker_fencings: int = 0
    figures: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether there were no faults and no late results."""
        return not self.faults and not self.late

    def text(self) -> str:
        """Return the report as JSON."""
        return json.dumps(asdict(self) | {"verdict": "passed" if self.passed else "failed"}, indent=2)


Disturbance = Callable[[Environment, RunReport], None]


def run(directory: Path, options: RunOptions, disturb: Disturbance) -> RunReport:
    """Run a test in an empty directory.

    `disturb` is called while records flow, and may add to the report.
    """
    began = time.monotonic()
    with running_environment(directory, options) as environment:
        report = run_in(environment, options, disturb)
    report.broker_fencings = count_fencings(environment.kafka_logs)
    report.seconds = round(time.monotonic() - began, 1)
    return report


def run_in(environment: Environment, options: RunOptions, disturb: Disturbance) -> RunReport:
    """Run a test on an existing installation, and delete its pipelines afterwards."""
    report = RunReport(asdict(options))
    load = Load(options.run_number, options.poison_every, options.poisons)
    with _deployed(environment, options, load, report):
        environment.feeder = feeder = _feeder(environment, options, load)
        with ExitStack() as threads:
            for pipeline in environment.pipelines:
                threads.enter_context(in_background(pipeline.consumer))
                threads.enter_context(in_background(pipeline.dead_letter_consumer))
            with in_background(feeder):
                disturb(environment, report)
                until(lambda: feeder.count >= options.records, LONGEST_RUN_S, "the number of records")
            report.fed = feeder.count
            report.feeder_stalls = feeder.stalls
            _wait_for_outputs(environment.pipelines, report.fed)
        for pipeline in environment.pipelines:
            report.pipelines[pipeline.name] = result = _result(environment, pipeline, options, load, report.fed)
            report.faults += [f"{pipeline.name}: {fault}" for fault in result.faults(options.delivery)]
    return report


# The installation.


@contextmanager
def running_environment(directory: Path, options: RunOptions) -> Iterator[Environment]:
    """Start the installation and all servers around it, and stop them after the block."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as cleanup:
        cleanup.enter_context(logged_fencing())
        environment = _behind_proxies(directory, options, cleanup) if options.network else _embedded(directory)
        if options.source == "pubsub":
            _bind_to_pubsub(environment, directory, options, cleanup)
        environment.installation.start()
        cleanup.callback(environment.installation.stop)
        if not environment.direct:
            environment.direct = environment.installation.admin_config()
        yield environment


def _embedded(directory: Path) -> Environment:
    return Environment(Installation(directory / "data"), {}, {}, directory / "data" / "logs")


def _behind_proxies(directory: Path, options: RunOptions, cleanup: ExitStack) -> Environment:
    """Run Kafka and Valkey outside of `headwater up`, each behind a proxy.

    Kafka's outer listener advertises the same port on another loopback address, which is the proxy's address.
    """
    servers = ExternalServers(directory / "parts", PROXY_HOST)
    cleanup.callback(servers.stop)
    installation = Installation(directory / "data", external=servers)
    direct = installation.admin_config()
    kafka_port = json.loads((directory / "parts" / "ports.json").read_text())["kafka"]
    redis_url_start, _, valkey = servers.settings["HEADWATER_REDIS_URL"].rpartition(":")
    valkey_port, _, database = valkey.partition("/")
    proxies = {
        "kafka": Proxy((PROXY_HOST, kafka_port), ("127.0.0.1", kafka_port), options.run_number),
        "valkey": Proxy(("127.0.0.1", free_port()), ("127.0.0.1", int(valkey_port)), options.run_number),
    }
    for proxy in proxies.values():
        proxy.start()
        cleanup.callback(proxy.stop)
    servers.settings["HEADWATER_KAFKA_BOOTSTRAP_SERVERS"] = f"{PROXY_HOST}:{kafka_port}"
    servers.settings["HEADWATER_REDIS_URL"] = f"{redis_url_start}:{proxies['valkey'].address[1]}/{database}"
    return Environment(installation, direct, proxies, directory / "parts" / "logs")


def _bind_to_pubsub(environment: Environment, directory: Path, options: RunOptions, cleanup: ExitStack) -> None:
    """Bind the stream to the fake Pub/Sub server.

    It is behind a proxy, too, if Kafka and Valkey are.
    """
    from tests.support.pubsub_server import PROJECT, start_fake

    environment.pubsub = server = start_fake()
    cleanup.callback(server.stop)
    server.topic(PUBSUB_TOPIC)
    endpoint = server.address
    if options.network:
        host, port = endpoint.split(":")
        proxy = environment.proxies["pubsub"] = Proxy(("127.0.0.1", free_port()), (host, int(port)), options.run_number)
        proxy.start()
        cleanup.callback(proxy.stop)
        endpoint = "{}:{}".format(*proxy.address)
    binding = {"pubsub": {"project": PROJECT, "topic": PUBSUB_TOPIC, "endpoint": endpoint}}
    path = directory / "streams.json"
    path.write_text(json.dumps({".".join(options.stream): binding}))
    environment.installation.flags = ("--stream-bindings", str(path))


def _feeder(environment: Environment, options: RunOptions, load: Load) -> Feeder | PubSubFeeder:
    if environment.pubsub is None:
        return Feeder(environment.direct, "stream." + ".".join(options.stream), load, options.rate)
    from tests.support.pubsub_server import PROJECT

    return PubSubFeeder(environment.pubsub, f"projects/{PROJECT}/topics/{PUBSUB_TOPIC}", load, options.rate)


# Pipelines.


@contextmanager
def _deployed(environment: Environment, options: RunOptions, load: Load, report: RunReport) -> Iterator[None]:
    with environment.installation.client() as client:
        dataset = _filled_dataset(client)
        environment.pipelines = [_deploy(environment, client, name, options, load) for name in options.kinds]
        yield
    # A new client: the run may have killed the process to which the old one was connected.
    with environment.installation.client() as client:
        flows = (f"/api/v1/flow/{pipeline.deployed.id}" for pipeline in environment.pipelines)
        for url in [*flows, dataset]:
            response = client.delete(url)
            if not response.is_success:
                report.faults.append(f"{url} cannot be deleted: {response.text}")


def _filled_dataset(client: httpx2.Client) -> str:
    """Create and fill the dataset that scripts use. Return its path."""
    response = client.post("/api/v1/flow/datasets", json={"name": DATASET})
    assert response.status_code == 201, response.text
    url = f"/api/v1/flow/datasets/{response.json()['id']}"
    assert client.post(f"{url}/entries", json={"values": MEMBER_VALUES}).json()["count"] == len(MEMBER_VALUES)
    return url


def _deploy(
    environment: Environment, client: httpx2.Client, name: str, options: RunOptions, load: Load
) -> RunningPipeline:
    kind, (chain, entity) = KINDS[name], options.stream
    body = pipeline(
        entity,
        chain,
        name=name,
        transforms=list(kind.transforms),
        delivery=options.delivery,
        parallelism=options.parallelism,
    )
    deployed = deploy(client, body)
    settings, layout = _settings(environment, deployed), LAYOUTS[options.source]
    dead_letters = deployed.deploy_response["dead_letter"]["topic"]
    return RunningPipeline(
        name,
        kind,
        deployed,
        VerifyingConsumer(settings, deployed.sink["topic"], partial(load.outputs, kind), layout),
        VerifyingConsumer(settings, dead_letters, partial(load.dead_letters, kind), layout),
    )


def _settings(environment: Environment, deployed: Deployed) -> Settings:
    """Return consumer settings with the deployment's credentials that bypass the proxy.

    So the age of an output does not include the impaired link between the broker and the test.
    """
    return {**client_config(deployed.sink), "bootstrap.servers": environment.direct["bootstrap.servers"]}


def _wait_for_outputs(pipelines: Sequence[RunningPipeline], fed: int) -> None:
    """Wait until all outputs have come, or until none has come for STUCK_AFTER_S."""
    consumers = [consumer for running in pipelines for consumer in (running.consumer, running.dead_letter_consumer)]
    while not all(consumer.verifier.complete(fed) for consumer in consumers):
        if time.monotonic() - max(consumer.last_output_at for consumer in consumers) > STUCK_AFTER_S:
            return
        time.sleep(TICK_S)


def _result(
    environment: Environment, pipeline: RunningPipeline, options: RunOptions, load: Load, fed: int
) -> PipelineResult:
    outputs, dead_letters = pipeline.consumer.verifier, pipeline.dead_letter_consumer.verifier
    agree = True
    if options.reread:
        settings, topic = _settings(environment, pipeline.deployed), pipeline.deployed.sink["topic"]
        expected, layout = partial(load.outputs, pipeline.kind), LAYOUTS[options.source]
        second = VerifyingConsumer(settings, topic, expected, layout).read_to_end()
        agree = second.verifier.digest() == outputs.digest()
    return PipelineResult(
        outputs=outputs.count,
        lost=outputs.lost(fed),
        wrong=outputs.wrong,
        inversions=outputs.inversions,
        repeats=outputs.repeats,
        dead_letters=dead_letters.count,
        dead_letters_lost=dead_letters.lost(fed),
        dead_letters_wrong=dead_letters.wrong,
        dead_letter_repeats=dead_letters.repeats,
        readers_agree=agree,
        reader_stalls=pipeline.consumer.stalls + pipeline.dead_letter_consumer.stalls,
        restarts=_restarts_when_healthy(environment, pipeline),
        age_ms=summary(pipeline.consumer.ages_ms),
    )


def _restarts_when_healthy(environment: Environment, pipeline: RunningPipeline) -> int:
    """Wait until the pipeline's workers are healthy. Return their restart count."""
    with environment.installation.client() as client:
        until(lambda: _is_healthy(pipeline.stats(client)), what=f"a healthy {pipeline.name} at the end")
        return sum(worker["restart_count"] for worker in pipeline.stats(client)["workers"])


def _is_healthy(health: Mapping[str, Any]) -> bool:
    healthy: int = health.get("healthy_workers", 0)
    return healthy >= 1 and healthy == int(health["total_workers"])


def summary(counts: Mapping[Any, int]) -> dict[str, float]:
    """Return the median, 99th percentile and maximum of values.

    `counts` says how many times each value came.
    """
    total = sum(counts.values())
    if not total:
        return {"count": 0}
    ranks, percentiles = [0.5 * total, 0.99 * total], []
    passed = 0
    for value in sorted(counts):
        passed += counts[value]
        while ranks and passed >= ranks[0]:
            percentiles.append(value)
            ranks.pop(0)
    return {"count": total, "p50": percentiles[0], "p99": percentiles[1], "max": max(counts)}
