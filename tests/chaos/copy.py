"""The copy test: a stream goes through a pipeline while everything under it is killed, stopped and cut off.

Its shape is that of Apache Kafka's transactions_test: numbered records, random victims, and at the end a comparison of
what came out with what went in, by content; a reader beside it must have seen the same.
"""

import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import typer

from tests.acceptance.stack import Deployed, External, Stack, beside, client_config, deploy, free_port, pipeline, until
from tests.chaos.faults import SHORTEST_S, Deed, Strike, Victims, shuffled
from tests.chaos.feeder import Feeder
from tests.chaos.load import DATASET, KINDS, MEMBER_VALUES, Load
from tests.chaos.witness import Settings, Truth, Witness
from tests.support.proxy import Proxy

CHAIN, ENTITY = "base", "erc20_token_transfer"
STREAM = f"stream.{CHAIN}.{ENTITY}"
PROXY_HOST = "127.0.0.2"
TICK_S = 0.02
CHECKPOINT_MS = 2_000
"""The next strike at the same victim waits for this much of the stream: then the worker has committed."""
CLOCK_MS = 5
"""A record with a time of so much after a strike was fed after it."""
STUCK_AFTER_S = 180.0
_FENCED = re.compile(rb"[Ff]enc(ed|ing)|Invalid(ProducerEpoch|TxnState)|unknown member id")
_TELLING = ("org.apache.kafka.coordinator", "kafka.coordinator", "org.apache.kafka.storage.internals.log")


@dataclass(frozen=True)
class Options:
    """What a run does. gap_s: the mean of the pauses between strikes; longest_stop_s: of anything that lasts.

    network: Kafka and Valkey are behind proxies. only: names of deeds, for example "worker KILL"; none means all.
    """

    run_number: int
    records: int = 1_000_000
    strikes: int = 60
    kind: str = "v8"
    delivery: str = "at_least_once"
    rate: int = 2_000
    gap_s: float = 3.0
    longest_stop_s: float = 60.0
    poison_every: int = 10_000
    network: bool = True
    only: tuple[str, ...] = ()


@dataclass
class Report:
    """What a run found. recovery_s: of strikes that were alone; overlapping_s: of the others; by victim and deed."""

    options: dict[str, Any]
    fed: int = 0
    seconds: float = 0.0
    strikes: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    invented: int = 0
    wrong: int = 0
    repeats: int = 0
    repeats_that_differ: int = 0
    inversions: int = 0
    misplaced: int = 0
    dead_letters_planted: int = 0
    dead_letters_missing: int = 0
    dead_letters_unexpected: int = 0
    readers_agree: bool = False
    broker_fencings: int = 0
    recovery_s: dict[str, dict[str, float]] = field(default_factory=dict)
    overlapping_s: dict[str, dict[str, float]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def judge(self) -> "Report":
        """Name what must not be."""
        zeros = ("lost", "invented", "wrong", "repeats_that_differ", "inversions", "misplaced",
                 "dead_letters_missing", "dead_letters_unexpected")  # fmt: skip
        self.faults += [f"{name}: {getattr(self, name)}" for name in zeros if getattr(self, name)]
        if not self.readers_agree:
            self.faults.append("a second reader saw other records, or another order")
        if self.options["delivery"] == "exactly_once" and self.repeats:
            self.faults.append(f"repeats: {self.repeats}")
        return self

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self) | {"verdict": "failed" if self.faults else "passed"}, indent=2)


@dataclass
class Installation:
    """A stack, the settings of clients that go straight to its broker, and the proxies on its links."""

    stack: Stack
    direct: Settings
    proxies: dict[str, Proxy]
    kafka_logs: Path


@contextmanager
def installed(directory: Path, options: Options) -> Iterator[Installation]:
    """Everything up, and at the end gone."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as closing:
        closing.enter_context(telling_broker())
        made = _behind_proxies(directory, options, closing) if options.network else _embedded(directory)
        made.stack.start()
        closing.callback(made.stack.stop)
        if not made.direct:
            made.direct = made.stack.admin_config()
        yield made


@contextmanager
def telling_broker() -> Iterator[None]:
    """Kafka's coordinators tell whom they fence, which they do at a level that is off otherwise."""
    options = " ".join(f"-Dorg.slf4j.simpleLogger.log.{name}=info" for name in _TELLING)
    before = os.environ.get("JAVA_TOOL_OPTIONS")
    os.environ["JAVA_TOOL_OPTIONS"] = f"{before or ''} {options}"
    try:
        yield
    finally:
        del os.environ["JAVA_TOOL_OPTIONS"]
        os.environ.update({} if before is None else {"JAVA_TOOL_OPTIONS": before})


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


def prepare(client: httpx.Client, options: Options) -> Deployed:
    """Deploy the pipeline, with the set that its script asks."""
    if options.kind == "contains":
        made = client.post("/api/v1/flow/datasets", json={"name": DATASET})
        assert made.status_code == 201, made.text
        entries = f"/api/v1/flow/datasets/{made.json()['id']}/entries"
        assert client.post(entries, json={"values": MEMBER_VALUES}).json() == {"count": len(MEMBER_VALUES)}
    extra = {} if options.delivery == "at_least_once" else {"delivery": options.delivery}
    return deploy(client, pipeline(ENTITY, CHAIN, transforms=list(KINDS[options.kind].transforms), **extra))


class Chaos:
    """Strikes one after the other, at random times; see `run`."""

    def __init__(self, made: Installation, options: Options, witness: Witness, tell: Callable[[str], None]) -> None:
        self._options = options
        self._witness = witness
        self._tell = tell
        # Three sources of chance: how many numbers one of them gives must not depend on another's luck.
        which, self._draw, among = (random.Random(options.run_number + more) for more in range(3))
        deeds = Victims(made.stack, made.proxies, among, scripts=options.kind in ("v8", "contains")).deeds()
        wanted = [deed for deed in deeds if not options.only or deed.name in options.only]
        self._deeds = shuffled(wanted, which)
        self._ends: list[tuple[float, Callable[[], None]]] = []
        self.strikes: list[Strike] = []

    def run(self) -> None:
        """Do all strikes, and wait until their effects are over."""
        try:
            for _ in range(self._options.strikes):
                self._pause(self._draw.expovariate(1 / self._options.gap_s))
                self._strike()
            self._wait(lambda: all(strike.came_at for strike in self.strikes), "the end of all strikes")
        finally:
            for _, end in self._ends:
                end()

    def _strike(self) -> None:
        deed, lasts_s = next(self._deeds), self._draw.uniform(*self._stop_range)
        self._wait(lambda: self._free(deed), f"the return of {deed.victim}")
        done = deed.do()
        others = [strike for strike in self.strikes if strike.came_at is None]
        for other in others:
            other.alone = False
        ended = time.time()
        if done.end is not None:
            ended += lasts_s
            self._ends.append((ended, done.end))
        self.strikes.append(Strike(deed.name, deed.victim, done.at, ended, alone=not others))
        self._tell(f"{len(self.strikes)}: {deed.name}" + (f" for {lasts_s:.0f} s" if done.end else ""))

    def _free(self, deed: Deed) -> bool:
        """True when the stream has gone on for a checkpoint after all else that was done to the victim, or to any."""
        newest = self._witness.newest_ms - CHECKPOINT_MS
        strikes = [strike for strike in self.strikes if deed.exclusive or strike.victim == deed.victim]
        return all(s.came_at is not None and newest > max(s.came_at, s.ended) * 1000 for s in strikes)

    @property
    def _stop_range(self) -> tuple[float, float]:
        longest = self._options.longest_stop_s
        return min(SHORTEST_S, longest / 2), longest

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._tick()

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        until_ = time.monotonic() + STUCK_AFTER_S
        while not condition():
            assert time.monotonic() < until_, f"stuck: waited {STUCK_AFTER_S:.0f} s for {what}"
            self._tick()

    def _tick(self) -> None:
        time.sleep(TICK_S)
        now = time.time()
        due = [end for at, end in self._ends if at <= now]
        self._ends = [(at, end) for at, end in self._ends if at > now]
        for end in due:
            end()
        for strike in self.strikes:
            if strike.came_at is None and self._witness.newest_ms > strike.at * 1000 + CLOCK_MS:
                strike.came_at = now


def run(directory: Path, options: Options, tell: Callable[[str], None] = typer.echo) -> Report:
    """One run, from an empty directory to its report."""
    began = time.monotonic()
    report = Report(asdict(options))
    load = Load(KINDS[options.kind], options.run_number, options.poison_every)
    with installed(directory, options) as made:
        with made.stack.client() as client:
            flow = prepare(client, options)
        readers = {**client_config(flow.sink), "bootstrap.servers": made.direct["bootstrap.servers"]}
        witness, dead = Witness(readers, flow.sink["topic"]), Witness(readers, flow.answer["dead_letter"]["topic"])
        feeder = Feeder(made.direct, STREAM, load, options.rate)
        with beside(witness), beside(dead):
            with beside(feeder):
                chaos = Chaos(made, options, witness, tell)
                chaos.run()
                until(lambda: feeder.count >= options.records, within_s=3600 * 24, what="the number of records")
            truth = Truth({**readers, **made.direct}, STREAM, load)
            _wait_for(witness, truth.outputs)
            _wait_for(dead, truth.dead)
        _compare(report, truth, witness, dead)
        report.readers_agree = witness.same_as(Witness(readers, flow.sink["topic"]).read_to_the_end())
        _check_health(made.stack, flow, report)
    report.fed = truth.records
    assert truth.records == feeder.count, f"the stream holds {truth.records} records of {feeder.count}"
    _count(report, chaos.strikes, made)
    report.seconds = round(time.monotonic() - began, 1)
    return report.judge()


def _wait_for(witness: Witness, wanted: dict[int, int]) -> None:
    """Until everything came, or nothing came for a long time."""
    while len(witness.seen) < len(wanted) and time.monotonic() - witness.came_at < STUCK_AFTER_S:
        time.sleep(TICK_S)


def _compare(report: Report, truth: Truth, witness: Witness, dead: Witness) -> None:
    report.lost = len(truth.outputs.keys() - witness.seen.keys())
    report.invented = len(witness.seen.keys() - truth.outputs.keys())
    report.wrong = sum(content != truth.outputs.get(at, content) for at, content in witness.seen.items())
    report.repeats, report.repeats_that_differ = witness.repeats, witness.differing
    report.inversions, report.misplaced = witness.inversions, witness.misplaced
    report.dead_letters_planted = len(truth.dead)
    report.dead_letters_missing = len(truth.dead.items() - dead.seen.items())
    report.dead_letters_unexpected = len(dead.seen.items() - truth.dead.items())


def _check_health(stack: Stack, flow: Deployed, report: Report) -> None:
    """At the end the pipeline is whole again, and goes in order."""
    with stack.client() as client:

        def healthy() -> bool:
            stats = client.get(f"/api/v1/flow/{flow.id}/deploy/stats")
            return stats.status_code == 200 and stats.json()["workers_health"]["healthy_workers"] == 1

        until(healthy, what="health at the end")
        gone = client.delete(f"/api/v1/flow/{flow.id}")
        if gone.status_code != 200:
            report.faults.append(f"the configuration can't be deleted: {gone.text}")


def _count(report: Report, strikes: list[Strike], made: Installation) -> None:
    report.strikes = dict(sorted(Counter(strike.name for strike in strikes).items()))
    report.recovery_s = _percentiles([strike for strike in strikes if strike.alone])
    report.overlapping_s = _percentiles([strike for strike in strikes if not strike.alone])
    logs = sorted(made.kafka_logs.glob("kafka.log*"))
    report.broker_fencings = sum(bool(_FENCED.search(line)) for log in logs for line in log.read_bytes().splitlines())


def _percentiles(strikes: list[Strike]) -> dict[str, dict[str, float]]:
    """By victim and deed: how many, and the recovery's median, 99th percentile and maximum, in seconds."""
    by_name: dict[str, list[float]] = {}
    for strike in strikes:
        by_name.setdefault(strike.name, []).append(round(strike.recovery_s, 2))
    return {name: _summary(sorted(values)) for name, values in sorted(by_name.items())}


def _summary(values: list[float]) -> dict[str, float]:
    p50, p99 = (values[min(len(values) - 1, int(len(values) * part))] for part in (0.5, 0.99))
    return {"count": len(values), "p50": p50, "p99": p99, "max": values[-1]}
