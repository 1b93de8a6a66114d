"""One run: an installation, pipelines on one stream, a feeder, readers that check, and something that disturbs them."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from tests.acceptance.stack import Deployed, External, Stack, beside, client_config, deploy, pipeline
from tests.chaos.feeder import Feeder, PubSubFeeder
from tests.chaos.load import DATASET, KINDS, LAYOUTS, MEMBER_VALUES, THROWS, Kind, Load
from tests.chaos.witness import Settings, Witness
from tests.support.fencing import fencings, telling_broker
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
class Options:
    """What every run has. records: the fewest; rate: a second; network: Kafka and Valkey are behind proxies.

    stream: chain and entity; nothing else may be in it. source: where it is, "kafka" or "pubsub". reread: at the end a
    second reader compares the whole topics; not for runs longer than the topics keep records.
    """

    run_number: int
    records: int
    kinds: Sequence[str] = ("v8",)
    delivery: str = "at_least_once"
    rate: int = 2_000
    poison_every: int = 10_000
    poisons: Sequence[str] = THROWS
    stream: tuple[str, str] = ("base", "erc20_token_transfer")
    source: str = "kafka"
    network: bool = True
    reread: bool = True


@dataclass(frozen=True)
class Flow:
    """A deployed pipeline, and who reads its results and dead letters."""

    name: str
    kind: Kind
    made: Deployed
    witness: Witness
    dead: Witness

    def stats(self, client: httpx2.Client) -> dict[str, Any]:
        """`workers_health` of its stats; empty while there are none."""
        answer = client.get(f"/api/v1/flow/{self.made.id}/deploy/stats")
        health: dict[str, Any] = answer.json()["workers_health"] if answer.status_code == 200 else {}
        return health


@dataclass
class Installation:
    """A stack, the settings of clients that go straight to its broker, the proxies on its links, Kafka's logs."""

    stack: Stack
    direct: Settings
    proxies: dict[str, Proxy]
    kafka_logs: Path
    flows: list[Flow] = field(default_factory=list)
    feeder: Feeder | PubSubFeeder | None = None
    pubsub: "PubSubServer | None" = None

    @property
    def newest_ms(self) -> int:
        """The time up to which every pipeline has sent on what was fed."""
        return min(flow.witness.newest_ms for flow in self.flows)


@dataclass
class Result:
    """What came of one pipeline. restarts: of its worker, without those of a controller that was killed.

    reader_stalls: how often the run's own readers had lost a partition.
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
        """What must not be."""
        zeros = ["lost", "wrong", "inversions", "dead_letters_lost", "dead_letters_wrong"]
        zeros += ["repeats", "dead_letter_repeats"] if delivery == "exactly_once" else []
        found = [f"{name}: {getattr(self, name)}" for name in zeros if getattr(self, name)]
        return found if self.readers_agree else [*found, "a second reader saw something else"]


@dataclass
class Report:
    """What a run found. more: what its disturbance adds; faults: what must not be; late: what took too long.

    feeder_stalls: how often librdkafka stood still and the run's own feeder had to begin anew.
    """

    options: dict[str, Any]
    fed: int = 0
    feeder_stalls: int = 0
    seconds: float = 0.0
    pipelines: dict[str, Result] = field(default_factory=dict)
    broker_fencings: int = 0
    more: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """True when nothing was wrong, and nothing late."""
        return not self.faults and not self.late

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self) | {"verdict": "passed" if self.passed else "failed"}, indent=2)


Disturbance = Callable[[Installation, Report], None]


def run(directory: Path, options: Options, disturb: Disturbance) -> Report:
    """One run, from an empty directory to its report. disturb: called while records flow; may note faults."""
    began = time.monotonic()
    with installed(directory, options) as made:
        report = observe(made, options, disturb)
    report.broker_fencings = fencings(made.kafka_logs)
    report.seconds = round(time.monotonic() - began, 1)
    return report


def observe(made: Installation, options: Options, disturb: Disturbance) -> Report:
    """One run on an installation that is there already; its pipelines are gone afterwards."""
    report = Report(asdict(options))
    load = Load(options.run_number, options.poison_every, options.poisons)
    with _deployed(made, options, load, report):
        made.feeder = feeder = _feeder(made, options, load)
        with ExitStack() as reading:
            for flow in made.flows:
                reading.enter_context(beside(flow.witness))
                reading.enter_context(beside(flow.dead))
            with beside(feeder):
                disturb(made, report)
                until(lambda: feeder.count >= options.records, LONGEST_RUN_S, "the number of records")
            report.fed = feeder.count
            report.feeder_stalls = feeder.stalls
            _wait_for_the_rest(made.flows, report.fed)
        for flow in made.flows:
            report.pipelines[flow.name] = _result(made, flow, options, load, report.fed)
            report.faults += [f"{flow.name}: {one}" for one in report.pipelines[flow.name].faults(options.delivery)]
    return report


# An installation.


@contextmanager
def installed(directory: Path, options: Options) -> Iterator[Installation]:
    """Everything up, and at the end gone."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as closing:
        closing.enter_context(telling_broker())
        made = _behind_proxies(directory, options, closing) if options.network else _embedded(directory)
        if options.source == "pubsub":
            _bind_to_pubsub(made, directory, options, closing)
        made.stack.start()
        closing.callback(made.stack.stop)
        if not made.direct:
            made.direct = made.stack.admin_config()
        yield made


def _embedded(directory: Path) -> Installation:
    return Installation(Stack(directory / "data"), {}, {}, directory / "data" / "logs")


def _behind_proxies(directory: Path, options: Options, closing: ExitStack) -> Installation:
    """Kafka and Valkey apart from `up`, each behind a proxy.

    Kafka tells clients of its outer listener to come to the same port of another loopback address: the proxy's.
    """
    parts = External(directory / "parts", PROXY_HOST)
    closing.callback(parts.stop)
    stack = Stack(directory / "data", external=parts)
    direct = stack.admin_config()
    kafka_port = json.loads((directory / "parts" / "ports.json").read_text())["kafka"]
    before, _, valkey = parts.settings["HEADWATER_REDIS_URL"].rpartition(":")
    valkey_port, _, database = valkey.partition("/")
    proxies = {
        "kafka": Proxy((PROXY_HOST, kafka_port), ("127.0.0.1", kafka_port), options.run_number),
        "valkey": Proxy(("127.0.0.1", free_port()), ("127.0.0.1", int(valkey_port)), options.run_number),
    }
    for proxy in proxies.values():
        proxy.start()
        closing.callback(proxy.stop)
    parts.settings["HEADWATER_KAFKA_BOOTSTRAP_SERVERS"] = f"{PROXY_HOST}:{kafka_port}"
    parts.settings["HEADWATER_REDIS_URL"] = f"{before}:{proxies['valkey'].address[1]}/{database}"
    return Installation(stack, direct, proxies, directory / "parts" / "logs")


def _bind_to_pubsub(made: Installation, directory: Path, options: Options, closing: ExitStack) -> None:
    """The stream is on a server of Pub/Sub's protocol; behind a proxy too, when the others are."""
    from tests.support.pubsub_server import PROJECT, start_fake

    made.pubsub = server = start_fake()
    closing.callback(server.stop)
    server.topic(PUBSUB_TOPIC)
    endpoint = server.address
    if options.network:
        host, port = endpoint.split(":")
        proxy = made.proxies["pubsub"] = Proxy(("127.0.0.1", free_port()), (host, int(port)), options.run_number)
        proxy.start()
        closing.callback(proxy.stop)
        endpoint = "{}:{}".format(*proxy.address)
    place = {"pubsub": {"project": PROJECT, "topic": PUBSUB_TOPIC, "endpoint": endpoint}}
    path = directory / "streams.json"
    path.write_text(json.dumps({".".join(options.stream): place}))
    made.stack.flags = ("--stream-bindings", str(path))


def _feeder(made: Installation, options: Options, load: Load) -> Feeder | PubSubFeeder:
    if made.pubsub is None:
        return Feeder(made.direct, "stream." + ".".join(options.stream), load, options.rate)
    from tests.support.pubsub_server import PROJECT

    return PubSubFeeder(made.pubsub, f"projects/{PROJECT}/topics/{PUBSUB_TOPIC}", load, options.rate)


# Pipelines.


@contextmanager
def _deployed(made: Installation, options: Options, load: Load, report: Report) -> Iterator[None]:
    with made.stack.client() as client:
        dataset = _filled_dataset(client)
        made.flows = [_deploy(made, client, name, options, load) for name in options.kinds]
        yield
    with made.stack.client() as client:  # another one: what the run has killed may have held the first one's connection
        for url in [*(f"/api/v1/flow/{flow.made.id}" for flow in made.flows), dataset]:
            gone = client.delete(url)
            if not gone.is_success:
                report.faults.append(f"{url} can't be deleted: {gone.text}")


def _filled_dataset(client: httpx2.Client) -> str:
    """The path of the dataset that scripts ask."""
    made = client.post("/api/v1/flow/datasets", json={"name": DATASET})
    assert made.status_code == 201, made.text
    url = f"/api/v1/flow/datasets/{made.json()['id']}"
    assert client.post(f"{url}/entries", json={"values": MEMBER_VALUES}).json() == {"count": len(MEMBER_VALUES)}
    return url


def _deploy(made: Installation, client: httpx2.Client, name: str, options: Options, load: Load) -> Flow:
    kind, (chain, entity) = KINDS[name], options.stream
    extra = {} if options.delivery == "at_least_once" else {"delivery": options.delivery}
    flow = deploy(client, pipeline(entity, chain, name=name, transforms=list(kind.transforms), **extra))
    settings, letters = _settings(made, flow), flow.answer["dead_letter"]["topic"]
    layout = LAYOUTS[options.source]
    witness = Witness(settings, flow.sink["topic"], partial(load.outputs, kind), layout)
    return Flow(name, kind, flow, witness, Witness(settings, letters, partial(load.dead_letters, kind), layout))


def _settings(made: Installation, flow: Deployed) -> Settings:
    """Those of the deployment's reader, past the proxy: what is measured is the way to the topic."""
    return {**client_config(flow.sink), "bootstrap.servers": made.direct["bootstrap.servers"]}


def _wait_for_the_rest(flows: Sequence[Flow], fed: int) -> None:
    """Until everything came, or nothing came for a long time."""
    witnesses = [witness for flow in flows for witness in (flow.witness, flow.dead)]
    while not all(witness.account.complete(fed) for witness in witnesses):
        if time.monotonic() - max(witness.came_at for witness in witnesses) > STUCK_AFTER_S:
            return
        time.sleep(TICK_S)


def _result(made: Installation, flow: Flow, options: Options, load: Load, fed: int) -> Result:
    seen, dead = flow.witness.account, flow.dead.account
    agree = True
    if options.reread:
        topic = flow.made.sink["topic"]
        wanted, layout = partial(load.outputs, flow.kind), LAYOUTS[options.source]
        again = Witness(_settings(made, flow.made), topic, wanted, layout).read_to_the_end()
        agree = again.account.digest() == seen.digest()
    return Result(
        outputs=seen.count,
        lost=seen.lost(fed),
        wrong=seen.wrong,
        inversions=seen.inversions,
        repeats=seen.repeats,
        dead_letters=dead.count,
        dead_letters_lost=dead.lost(fed),
        dead_letters_wrong=dead.wrong,
        dead_letter_repeats=dead.repeats,
        readers_agree=agree,
        reader_stalls=flow.witness.stalls + flow.dead.stalls,
        restarts=_restarts_when_healthy(made, flow),
        age_ms=summary(flow.witness.ages_ms),
    )


def _restarts_when_healthy(made: Installation, flow: Flow) -> int:
    """At the end every pipeline is whole again."""
    with made.stack.client() as client:
        until(lambda: flow.stats(client).get("healthy_workers") == 1, what=f"health of {flow.name} at the end")
        return sum(worker["restart_count"] for worker in flow.stats(client)["workers"])


def summary(counts: Mapping[Any, int]) -> dict[str, float]:
    """Median, 99th percentile and maximum of values that are given with how often they came."""
    total = sum(counts.values())
    if not total:
        return {"count": 0}
    left, found = [0.5 * total, 0.99 * total], []
    seen = 0
    for value in sorted(counts):
        seen += counts[value]
        while left and seen >= left[0]:
            found.append(value)
            left.pop(0)
    return {"count": total, "p50": found[0], "p99": found[1], "max": max(counts)}
