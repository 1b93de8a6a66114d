"""The records that are fed to pipelines, and the outputs expected from each record.

Records are numbered. Record n goes to lane n % lanes; a lane is a Kafka partition or a Pub/Sub ordering key. So the
content of every topic at every offset is known in advance, and a run of any length is checked in constant memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

PARTITIONS = 4
ORDERING_KEYS = 300
"""The fake server delivers one message per key at a time, so a useful rate needs many keys."""


@dataclass(frozen=True)
class Layout:
    """Where the records of a stream are.

    Attributes:
        lanes: The number of lanes.
        number: Returns the number of a record from its name in the header `headwater-src`.
        partition: Returns the output partition of a lane.
    """

    lanes: int
    number: Callable[[str], int]
    partition: Callable[[int], int]


def _number_by_offset(name: str) -> int:
    _, partition, offset = name.rsplit("/", 2)
    return int(offset) * PARTITIONS + int(partition)


def ordering_key(lane: int) -> str:
    """Return the ordering key of a lane."""
    return f"key-{lane}"


LAYOUTS = {
    "kafka": Layout(PARTITIONS, _number_by_offset, lambda lane: lane),
    "pubsub": Layout(
        ORDERING_KEYS,
        lambda name: int(name.removeprefix("m")),  # the fake server numbers messages
        lambda lane: xxhash.xxh3_64_intdigest(ordering_key(lane).encode()) % PARTITIONS,
    ),
}
"""The layouts by source."""

WALLETS = 3_000
MEMBERS_EVERY = 3
DATASET = "chaos"
BIG = 2**200
PAD = "x" * 100
DROPPED_EVERY, DOUBLED_EVERY = 5, 7

_POISON = """
  if (r.poison === 'throw') throw new TypeError('planted');
  if (r.poison === 'loop') for (;;);
  if (r.poison === 'crash') return { text: 'a'.repeat(2 ** 29 - 24) };"""
SCRIPT = f"""
function process(r) {{{_POISON}
  if (r.n % {DROPPED_EVERY} === 0) return null;
  const one = {{ n: r.n, doubled: BigInt(r.amount) * 2n }};
  return r.n % {DOUBLED_EVERY} === 0 ? [one, {{ n: r.n, second: true }}] : one;
}}"""
CONTAINS = f"""
function process(r) {{{_POISON}
  return {{ n: r.n, member: flow.contains('{DATASET}', [r.wallet, 'nobody']) }};
}}"""
BUSY_STEPS, LIGHT_STEPS, FACTOR, MODULUS = 4_500, 1_200, 69_069, 2**32


def _computing(steps: int) -> str:
    return f"""
function process(r) {{{_POISON}
  let x = r.n;
  for (let i = 0; i < {steps}; i++) x = (x * {FACTOR} + 1) % {MODULUS};
  return {{ n: r.n, x }};
}}"""


BUSY, LIGHT = _computing(BUSY_STEPS), _computing(LIGHT_STEPS)
"""Scripts with about 0.2 and 0.05 ms of CPU per record."""
POISONS = ("throw", "throw", "throw", "loop", "throw", "throw", "crash", "throw", "cut", "throw")
SCRIPT_POISONS = frozenset(POISONS)


def wallet(n: int) -> str:
    """Return the address in record n."""
    return f"0x{n % WALLETS:040x}"


def is_member(n: int) -> bool:
    """Return whether the wallet of record n is in the sets."""
    return n % WALLETS % MEMBERS_EVERY == 0


MEMBER_VALUES = [wallet(n) for n in range(WALLETS) if is_member(n)]


def _copied(_n: int, value: bytes) -> list[bytes]:
    return [value]


def _scripted(n: int, _value: bytes) -> list[bytes]:
    if n % DROPPED_EVERY == 0:
        return []
    one = b'{"n":%d,"doubled":%d}' % (n, 2 * (BIG + n))
    return [one, b'{"n":%d,"second":true}' % n] if n % DOUBLED_EVERY == 0 else [one]


def _looked_up(n: int, _value: bytes) -> list[bytes]:
    return [b'{"n":%d,"member":%s}' % (n, b"true" if is_member(n) else b"false")]


def _filtered(n: int, value: bytes) -> list[bytes]:
    return [value] if is_member(n) else []


def _computed(steps: int) -> Callable[[int, bytes], list[bytes]]:
    """Return a function that computes all steps of a script at once.

    Each step is an affine map, and so is their composition.
    """
    power = pow(FACTOR, steps, MODULUS)
    total = sum(pow(FACTOR, step, MODULUS) for step in range(steps)) % MODULUS
    return lambda n, _value: [b'{"n":%d,"x":%d}' % (n, (power * n + total) % MODULUS)]


@dataclass(frozen=True)
class PipelineKind:
    """A kind of pipeline.

    Attributes:
        transforms: The transforms of its configuration.
        outputs: Returns the expected outputs for record n and its value.
        poisons: The kinds of poison that this pipeline turns into dead letters.
    """

    transforms: Sequence[dict[str, Any]]
    outputs: Callable[[int, bytes], list[bytes]]
    poisons: frozenset[str] = frozenset()


def _script(text: str) -> list[dict[str, Any]]:
    return [{"type": "v8", "script": text}]


FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.wallet", "set_values": MEMBER_VALUES}
KINDS = {
    "plain": PipelineKind([], _copied),
    "v8": PipelineKind(_script(SCRIPT), _scripted, SCRIPT_POISONS),
    "contains": PipelineKind(_script(CONTAINS), _looked_up, SCRIPT_POISONS),
    "filter": PipelineKind([FILTER], _filtered, frozenset(["cut"])),
    "busy": PipelineKind(_script(BUSY), _computed(BUSY_STEPS), SCRIPT_POISONS),
    "light": PipelineKind(_script(LIGHT), _computed(LIGHT_STEPS), SCRIPT_POISONS),
}
SCRIPTED = ("v8", "contains", "busy", "light")


@dataclass(frozen=True)
class Load:
    """The records of a run.

    Attributes:
        run_number: The seed, which decides which records are poison.
        poison_every: One of so many records is poison; 0 means none.
        poisons: The kinds of poison, which are used in turn.
    """

    run_number: int
    poison_every: int
    poisons: Sequence[str] = POISONS

    def poison(self, n: int) -> str:
        """Return the kind of poison in record n, or an empty string."""
        if not self.poison_every:
            return ""
        turn, at = divmod(n, self.poison_every)
        return self.poisons[turn % len(self.poisons)] if at == self.run_number % self.poison_every else ""

    def value(self, n: int) -> bytes:
        """Return the value of record n."""
        poison = self.poison(n)
        text = f'{{"n":{n},"amount":{BIG + n},"wallet":"{wallet(n)}","poison":"{poison}","pad":"{PAD}"'
        return (text if poison == "cut" else text + "}").encode()

    def outputs(self, kind: PipelineKind, n: int) -> list[bytes]:
        """Return the outputs expected on the sink's topic for record n."""
        return [] if self.poison(n) in kind.poisons else kind.outputs(n, self.value(n))

    def dead_letters(self, kind: PipelineKind, n: int) -> list[bytes]:
        """Return the values expected on the dead-letter topic for record n."""
        return [self.value(n)] if self.poison(n) in kind.poisons else []
