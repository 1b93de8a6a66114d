"""What is fed to a pipeline, and what must come of each record: content, not counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

WALLETS = 3_000
MEMBERS = 1_000
DATASET = "chaos"
BIG = 2**200
PAD = "x" * 100
DROPPED_EVERY, DOUBLED_EVERY = 5, 7

SCRIPT = f"""
function process(r) {{
  if (r.poison === 'throw') throw new TypeError('planted');
  if (r.poison === 'loop') for (;;);
  if (r.poison === 'crash') return {{ text: 'a'.repeat(2 ** 29 - 24) }};
  if (r.n % {DROPPED_EVERY} === 0) return null;
  const one = {{ n: r.n, doubled: BigInt(r.amount) * 2n }};
  return r.n % {DOUBLED_EVERY} === 0 ? [one, {{ n: r.n, second: true }}] : one;
}}"""
CONTAINS = f"""
function process(r) {{
  if (r.poison === 'throw') throw new TypeError('planted');
  if (r.poison === 'loop') for (;;) flow.contains('{DATASET}', [r.wallet]);
  if (r.poison === 'crash') return {{ text: 'a'.repeat(2 ** 29 - 24) }};
  return {{ n: r.n, member: flow.contains('{DATASET}', [r.wallet, 'nobody']) }};
}}"""
POISONS = ("throw", "throw", "throw", "loop", "throw", "throw", "crash", "throw", "loop", "throw")
NOT_JSON = ("cut", "cut")


def wallet(number: int) -> str:
    """An address; those below MEMBERS are in the sets."""
    return f"0x{number % WALLETS:040x}"


MEMBER_VALUES = [wallet(number) for number in range(MEMBERS)]


def _copied(_n: int, value: bytes) -> list[bytes]:
    return [value]


def _scripted(n: int, _value: bytes) -> list[bytes]:
    if n % DROPPED_EVERY == 0:
        return []
    one = b'{"n":%d,"doubled":%d}' % (n, 2 * (BIG + n))
    return [one, b'{"n":%d,"second":true}' % n] if n % DOUBLED_EVERY == 0 else [one]


def _looked_up(n: int, _value: bytes) -> list[bytes]:
    return [b'{"n":%d,"member":%s}' % (n, b"true" if n % WALLETS < MEMBERS else b"false")]


def _filtered(n: int, value: bytes) -> list[bytes]:
    return [value] if n % WALLETS < MEMBERS else []


@dataclass(frozen=True)
class Kind:
    """A pipeline. outputs: what must come of the record n; poisons: what is planted, in turn."""

    transforms: Sequence[dict[str, Any]]
    outputs: Callable[[int, bytes], list[bytes]]
    poisons: Sequence[str] = ()


KINDS = {
    "plain": Kind([], _copied),
    "v8": Kind([{"type": "v8", "script": SCRIPT}], _scripted, POISONS),
    "contains": Kind([{"type": "v8", "script": CONTAINS}], _looked_up, POISONS),
    "filter": Kind(
        [{"type": "redis_set_filter", "filter_expr": "root = this.wallet", "set_values": MEMBER_VALUES}],
        _filtered,
        NOT_JSON,
    ),
}


@dataclass(frozen=True)
class Load:
    """The numbered records of a run. One in poison_every is poison; run_number says which."""

    kind: Kind
    run_number: int
    poison_every: int
    _shift: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_shift", self.run_number % self.poison_every)

    def poison(self, n: int) -> str:
        """The kind of poison that the record n is; empty for an innocent one."""
        turn, at = divmod(n, self.poison_every)
        return self.kind.poisons[turn % len(self.kind.poisons)] if self.kind.poisons and at == self._shift else ""

    def value(self, n: int) -> bytes:
        """The record n as it is fed."""
        poison = self.poison(n)
        text = f'{{"n":{n},"amount":{BIG + n},"wallet":"{wallet(n)}","poison":"{poison}","pad":"{PAD}"'
        return (text if poison == "cut" else text + "}").encode()

    def outputs(self, value: bytes) -> list[bytes] | None:
        """What must come of a record that was fed; None when it must be a dead letter."""
        n = int(value[5 : value.index(b",")])
        assert value == self.value(n), "the stream holds a record that was not fed"
        return None if self.poison(n) else self.kind.outputs(n, value)
