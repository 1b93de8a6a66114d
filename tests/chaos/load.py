"""What is fed to pipelines, and what must come of each record: content, not counts.

Records are numbered; record n goes to lane n % lanes: a partition of Kafka, or an ordering key of Pub/Sub. So what must
be at any place of any topic is known beforehand, and a run of any length is checked in constant memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

PARTITIONS = 4
ORDERING_KEYS = 300
"""The fake server gives one message of a key at a time, so that many are needed for some speed."""


@dataclass(frozen=True)
class Layout:
    """Where records are. number: of a record, by its name in `headwater-src`; partition: of a lane's results."""

    lanes: int
    number: Callable[[str], int]
    partition: Callable[[int], int]


def _number_by_offset(name: str) -> int:
    _, partition, offset = name.rsplit("/", 2)
    return int(offset) * PARTITIONS + int(partition)


def ordering_key(lane: int) -> str:
    """The ordering key of a lane."""
    return f"key-{lane}"


LAYOUTS = {
    "kafka": Layout(PARTITIONS, _number_by_offset, lambda lane: lane),
    "pubsub": Layout(
        ORDERING_KEYS,
        lambda name: int(name.removeprefix("m")),  # the fake server numbers messages
        lambda lane: xxhash.xxh3_64_intdigest(ordering_key(lane).encode()) % PARTITIONS,
    ),
}
"""By where the stream is."""

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
STEPS, FACTOR, MODULUS = 4_500, 69_069, 2**32
BUSY = f"""
function process(r) {{{_POISON}
  let x = r.n;
  for (let i = 0; i < {STEPS}; i++) x = (x * {FACTOR} + 1) % {MODULUS};
  return {{ n: r.n, x }};
}}"""
"""About 0.2 ms of CPU per record."""
THROWS = ("throw", "throw", "throw", "loop", "throw", "throw", "crash", "throw", "cut", "throw")
SCRIPT_DEATHS = frozenset(THROWS)


def wallet(n: int) -> str:
    """The address in record n."""
    return f"0x{n % WALLETS:040x}"


def is_member(n: int) -> bool:
    """Whether the wallet of record n is in the sets."""
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


def _worked_on(n: int, _value: bytes) -> list[bytes]:
    """The result of all steps at once: they are affine maps, and so is what they make together."""
    return [b'{"n":%d,"x":%d}' % (n, (_POWER * n + _SUM) % MODULUS)]


_POWER = pow(FACTOR, STEPS, MODULUS)
_SUM = sum(pow(FACTOR, step, MODULUS) for step in range(STEPS)) % MODULUS


@dataclass(frozen=True)
class Kind:
    """A pipeline. outputs: what must come of record n; deaths: the poisons that make it a dead letter."""

    transforms: Sequence[dict[str, Any]]
    outputs: Callable[[int, bytes], list[bytes]]
    deaths: frozenset[str] = frozenset()


def _script(text: str) -> list[dict[str, Any]]:
    return [{"type": "v8", "script": text}]


FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.wallet", "set_values": MEMBER_VALUES}
KINDS = {
    "plain": Kind([], _copied),
    "v8": Kind(_script(SCRIPT), _scripted, SCRIPT_DEATHS),
    "contains": Kind(_script(CONTAINS), _looked_up, SCRIPT_DEATHS),
    "filter": Kind([FILTER], _filtered, frozenset(["cut"])),
    "busy": Kind(_script(BUSY), _worked_on, SCRIPT_DEATHS),
}
SCRIPTED = ("v8", "contains", "busy")


@dataclass(frozen=True)
class Load:
    """The records of a run. One in poison_every is poison (0: none), of the poisons in turn; run_number says which."""

    run_number: int
    poison_every: int
    poisons: Sequence[str] = THROWS

    def poison(self, n: int) -> str:
        """The kind of poison that record n is; empty for an innocent one."""
        if not self.poison_every:
            return ""
        turn, at = divmod(n, self.poison_every)
        return self.poisons[turn % len(self.poisons)] if at == self.run_number % self.poison_every else ""

    def value(self, n: int) -> bytes:
        """Record n as it is fed."""
        poison = self.poison(n)
        text = f'{{"n":{n},"amount":{BIG + n},"wallet":"{wallet(n)}","poison":"{poison}","pad":"{PAD}"'
        return (text if poison == "cut" else text + "}").encode()

    def outputs(self, kind: Kind, n: int) -> list[bytes]:
        """What must be on the sink's topic of record n."""
        return [] if self.poison(n) in kind.deaths else kind.outputs(n, self.value(n))

    def dead_letters(self, kind: Kind, n: int) -> list[bytes]:
        """What must be on the dead-letter topic of record n."""
        return [self.value(n)] if self.poison(n) in kind.deaths else []
