"""Runs other programs (peers) that do the work of a pipeline.

The peers are hand-written Python, Kafka Streams, Quix Streams and Bento.

Each peer gets the settings of a worker: lz4, acks=all, batches, 20 ms of linger, commits after delivery, and two
processes or threads. The first use downloads what a peer needs into the cache directory. A peer that cannot run on
this machine is skipped, and a message says why.

Kafka Streams looks values up in a Java HashSet, the other peers in a plain Redis set. The scripts of Kafka Streams run
in GraalJS's interpreter, since an OpenJDK has no Graal compiler; Headwater's scripts are interpreted too, unless
`--jit` is given.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import redis
import typer

from benches._copies import CONSUMER, MANUAL_COMMIT, PRODUCER
from benches._stream import CACHE_DIR, PARTITIONS
from benches._workload import SCRIPT, members
from headwater.brokers.embedded import cache
from headwater.model.access import KafkaAccess

HERE = Path(__file__).parent
JAVA_PEER = HERE / "peers" / "StreamsPeer.java"
POM = HERE / "peers" / "pom.xml"
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies"
QUIX = "quixstreams==3.28.1"
ORJSON = "orjson==3.13.0"
FETCH_TIMEOUT_S = 900.0
PLAIN_SET, MEMBERS_FILE, SCRIPT_FILE = "peers-plain", "members.txt", "script.js"
BENTO_WORKS = "copy", "filter", "script", "filter, script"
BENTO_SCRIPT = """
root = this.without("_created_at", "_updated_at")
root.value = this.raw_amount_str.number() / ("1e" + this.token.decimals.string()).number()
"""


class MissingError(Exception):
    """A peer cannot run on this machine. The message says why."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a peer.

    Attributes:
        folder: A directory with MEMBERS_FILE and SCRIPT_FILE, to which the peer may write its own files.
    """

    access: KafkaAccess
    source: str
    target: str
    redis_url: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Peer:
    """A program that does one kind of a pipeline's work.

    Attributes:
        work: The name of the pipeline whose work the peer does.
        exact: Whether integers beyond 2^53 keep their digits, and copies their bytes.
        commands: Returns the command line of each process of a run.
    """

    work: str
    exact: bool
    commands: Callable[[Job], list[list[str]]]


def available(works: Sequence[str]) -> dict[str, Peer]:
    """Return the peers for these works that run on this machine, by name.

    Print which others are missing.
    """
    found: dict[str, Peer] = {}
    for name, family in {"python": _python, "streams": _streams, "quix": _quix, "bento": _bento}.items():
        try:
            found |= {f"{name}{suffix}: {peer.work}": peer for suffix, peer in family() if peer.work in works}
        except MissingError as error:
            typer.echo(f"No peers called {name}: {error}")
    return found


def prepare(folder: Path, redis_url: str) -> None:
    """Write the members and the script to files, and the members to a plain Redis set."""
    values = members()
    (folder / MEMBERS_FILE).write_text("\n".join(values))
    (folder / SCRIPT_FILE).write_text(SCRIPT)
    with closing(redis.Redis.from_url(redis_url)) as client:
        for at in range(0, len(values), 10_000):
            client.sadd(PLAIN_SET, *values[at : at + 10_000])


Family = Iterator[tuple[str, Peer]]


def _python() -> Family:
    own = [f"confluent-kafka=={version('confluent-kafka')}", f"redis[hiredis]=={version('redis')}"]
    python = environment("python", [*own, ORJSON])
    _fetch([str(python), "-c", "import confluent_kafka, orjson, redis"])
    for work in ("filter", "script", "filter, script"):
        yield "", Peer(work, exact="script" not in work, commands=partial(_python_commands, python, work, "orjson"))
    yield ", json", Peer("script", exact=True, commands=partial(_python_commands, python, "script", "json"))


def _python_commands(python: Path, work: str, parser: str, job: Job) -> list[list[str]]:
    group = MANUAL_COMMIT | {"group.id": f"peer-{job.target}"}
    fields: dict[str, Any] = {
        "consumer": _librdkafka(job.access) | CONSUMER | group,
        "producer": _librdkafka(job.access) | PRODUCER,
        "source": job.source,
        "target": job.target,
        "work": work,
        "parser": parser,
        "redis_url": job.redis_url,
        "set": PLAIN_SET,
    }
    halves = [list(range(half, PARTITIONS, 2)) for half in range(2)]
    return [[str(python), str(HERE / "_peer_python.py"), json.dumps(fields | {"partitions": half})] for half in halves]


def _librdkafka(access: KafkaAccess) -> dict[str, Any]:
    return {
        "bootstrap.servers": access.bootstrap_servers,
        "security.protocol": access.security_protocol,
        "sasl.mechanism": access.sasl_mechanism,
        "sasl.username": access.username,
        "sasl.password": access.password,
    }


def _quix() -> Family:
    python = environment("quix", [QUIX])
    _fetch([str(python), "-c", "import quixstreams"])
    yield "", Peer("script", exact=False, commands=partial(_quix_commands, python))


def _quix_commands(python: Path, job: Job) -> list[list[str]]:
    fields = {
        "connection": {name.replace(".", "_"): value for name, value in _librdkafka(job.access).items()},
        "consumer": CONSUMER,
        "producer": PRODUCER,
        "group": f"peer-{job.target}",
        "source": job.source,
        "target": job.target,
    }
    states = [str(job.folder / f"quix-{job.target}-{number}") for number in range(2)]
    return [[str(python), str(HERE / "_peer_quix.py"), json.dumps(fields | {"state": state})] for state in states]


def environment(name: str, requirements: Sequence[str]) -> Path:
    """Return the Python interpreter of a cached virtual environment with these packages."""
    tag = hashlib.sha256(" ".join([sys.version, *requirements]).encode()).hexdigest()[:12]
    folder = CACHE_DIR.expanduser() / f"peer-{name}-{tag}"
    return cache.ensure(folder, partial(_install, requirements)) / "bin" / "python"


def _install(requirements: Sequence[str], folder: Path) -> None:
    _fetch([sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _fetch([*pip, *requirements])


def _streams() -> Family:
    java, javac = shutil.which("java"), shutil.which("javac")
    if java is None or javac is None:
        raise MissingError("there is no Java with a compiler (`java`, `javac`) on the PATH.")
    jars = cache.ensure(_java_folder("jars", POM), _jars)
    classes = cache.ensure(_java_folder("classes", POM, JAVA_PEER), partial(_compile, javac, jars))
    command = ["env", "-u", "JAVA_TOOL_OPTIONS", java, "-Xmx1g", "-cp", f"{classes}:{jars}/*", JAVA_PEER.stem]
    for work in ("copy", "filter", "script", "filter, script"):
        yield "", Peer(work, exact="script" not in work, commands=partial(_streams_commands, command, work))


def _java_folder(kind: str, *sources: Path) -> Path:
    tag = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    return CACHE_DIR.expanduser() / f"peer-streams-{kind}-{tag}"


def _jars(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingError("Apache Maven (`mvn`), which downloads Kafka Streams once, is not on the PATH.")
    _fetch([maven, "-B", "-q", "-C", "-Dstyle.color=never", "-f", str(POM), GOAL, f"-Djars={folder}"])


def _compile(javac: str, jars: Path, folder: Path) -> None:
    _fetch([javac, "-cp", f"{jars}/*", "-d", str(folder), str(JAVA_PEER)])


def _streams_commands(command: Sequence[str], work: str, job: Job) -> list[list[str]]:
    settings = _streams_settings(job)
    if "filter" in work:
        settings["members"] = str(job.folder / MEMBERS_FILE)
    if "script" in work:
        settings["script"] = str(job.folder / SCRIPT_FILE)
    path = job.folder / f"streams-{job.target}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return [[*command, str(path)]]


def _streams_settings(job: Job) -> dict[str, str | int]:
    access, serde = job.access, "org.apache.kafka.common.serialization.Serdes$ByteArraySerde"
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "source": job.source,
        "target": job.target,
        "application.id": f"peer-{job.target}",
        "bootstrap.servers": access.bootstrap_servers,
        "security.protocol": access.security_protocol,
        "sasl.mechanism": access.sasl_mechanism,
        "sasl.jaas.config": f'{login} required username="{access.username}" password="{access.password}";',
        "num.stream.threads": 2,
        "commit.interval.ms": 1000,
        "state.dir": str(job.folder / f"streams-{job.target}"),
        "default.key.serde": serde,
        "default.value.serde": serde,
        "consumer.auto.offset.reset": "earliest",
        "consumer.max.poll.records": 5000,
        "consumer.fetch.max.wait.ms": 50,
        "consumer.max.partition.fetch.bytes": 4 << 20,
        "producer.acks": "all",
        "producer.compression.type": "lz4",
        "producer.linger.ms": 20,
        "producer.batch.size": 262_144,
        "producer.buffer.memory": 64 << 20,
    }


def _bento() -> Family:
    binary = os.environ.get("BENTO")
    if binary is None:
        raise MissingError("the environment variable BENTO does not name its binary.")
    _lint(binary)
    for work in BENTO_WORKS:
        yield "", Peer(work, exact=work == "copy", commands=partial(_bento_commands, binary, work))


def _lint(binary: str) -> None:
    """Raise MissingError if this version of Bento does not know the settings."""
    with tempfile.TemporaryDirectory() as name:
        job = Job(KafkaAccess(bootstrap_servers="127.0.0.1:9"), "in", "out", "redis://127.0.0.1:9", Path(name))
        for work in BENTO_WORKS:
            _fetch([binary, "lint", _bento_commands(binary, work, job)[0][-1]])


def _bento_commands(binary: str, work: str, job: Job) -> list[list[str]]:
    path = job.folder / f"bento-{job.target}-{work}.yaml"  # JSON is YAML
    path.write_text(json.dumps(_bento_config(work, job)))
    return [[binary, "-c", str(path)]]


def _bento_config(work: str, job: Job) -> dict[str, Any]:
    access, looks_up = job.access, "filter" in work
    login = {"mechanism": access.sasl_mechanism, "username": access.username, "password": access.password}
    kafka = {"seed_brokers": access.bootstrap_servers.split(","), "sasl": [login]}
    reader = {
        "topics": [job.source],
        "consumer_group": f"peer-{job.target}",
        "checkpoint_limit": 200_000,
        "fetch_max_wait": "500ms",
        "fetch_max_partition_bytes": "4MiB",
        "batching": {"count": 1000 if looks_up else 5000, "period": "20ms"},
    }
    writer = {"topic": job.target, "compression": "lz4", "max_in_flight": 64, "max_buffered_records": 200_000}
    return {
        "http": {"enabled": False},
        "logger": {"level": "ERROR"},
        "input": {"kafka_franz": kafka | reader},
        "pipeline": {"threads": 4 if looks_up else 2, "processors": _bento_processors(work, job.redis_url)},
        "output": {"kafka_franz": kafka | writer},
    }


def _bento_processors(work: str, redis_url: str) -> list[dict[str, Any]]:
    """Return Bento's processors.

    The first message of a batch looks up the values of the whole batch.
    """
    processors: list[dict[str, Any]] = []
    if "filter" in work:
        arguments = f'root = ["{PLAIN_SET}"].concat(this)'
        lookup = {"redis": {"url": redis_url, "command": "smismember", "args_mapping": arguments}}
        request = 'root = if batch_index() > 0 { deleted() } else { json("to_address").from_all() }'
        branch = {"request_map": request, "processors": [lookup], "result_map": "meta hits = this"}
        chosen = 'let hits = metadata("hits").from(0)\nroot = if $hits.index(batch_index()) != 1 { deleted() }'
        processors += [{"branch": branch}, {"mapping": chosen}]
    if "script" in work:
        processors.append({"mapping": BENTO_SCRIPT})
    return processors


def _fetch(command: Sequence[str]) -> None:
    """Run a command that prepares a peer.

    Raise MissingError with the end of the output if the command fails.
    """
    result = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if result.returncode != 0:
        output = result.stdout + result.stderr
        error = re.search(r"(?i)\berror\]?:? (\S.*)", output)
        raise MissingError(f"{Path(command[0]).name} failed: {error[1] if error else output.strip()[-300:]}")
