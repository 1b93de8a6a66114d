"""Several nodes of one chain as one: the first healthy one is asked, the others when it fails or falls behind."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import structlog

from headwater.children import Backoff
from headwater.errors import NodeBehind, NodeUnavailable
from headwater.ingest.evm.blocks import Block, Header
from headwater.ingest.evm.fetch import Fetcher

_T = TypeVar("_T")

LATEST: Final = "latest"
CHECK_S: Final = 15.0
"""How often all nodes are checked."""
LAG_BLOCKS: Final = 5
"""A node that is so many blocks behind another one is not used while the other one is healthy."""
CHECKS_TO_RETURN: Final = 4
"""A node that comes before the one in use is used again after so many good checks in a row."""
HEAD_KEPT_S: Final = 60.0
"""How long the highest head is kept when no node has it any more."""
SERVED_BLOCKS: Final = 512
"""Blocks whose hashes the other nodes are compared with."""
HASH_TRIES: Final = 5
HASH_PAUSE_S: Final = 1.0

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class EndpointHealth:
    """The health of a node.

    Attributes:
        head: The number of the newest block that the node has; -1 before the first check.
        failures: How many requests failed in a row.
        rest_until: When the node is asked again after failures, by the pool's clock.
        is_checked: Whether the node is known to be of the ingest's chain.
        disagrees: Whether the node gave another hash for a block than the node in use.
        good_checks: How many checks in a row the node passed.
    """

    head: int = -1
    failures: int = 0
    rest_until: float = 0.0
    is_checked: bool = False
    disagrees: bool = False
    good_checks: int = 0
    backoff: Backoff = field(default_factory=lambda: Backoff(1.0, 60.0))

    def failed(self, now: float, error: NodeUnavailable) -> None:
        """A request failed."""
        self.failures += 1
        self.good_checks = 0
        self.rest_until = now + max(self.backoff.next_s(), error.retry_after_s)

    def succeeded(self) -> None:
        """A request was answered."""
        self.failures = 0
        self.rest_until = 0.0
        self.backoff.reset()


@dataclass(slots=True)
class _Node:
    """A node of the pool. name: its number among the nodes, and its host where that is no secret."""

    name: str
    fetcher: Fetcher
    health: EndpointHealth = field(default_factory=EndpointHealth)


class NodePool:
    """Asks one node after the other. Used by several threads.

    A request goes to the node in use, which is the first that works; when it fails, the others get it in the order of
    their health. The node that answers is the one in use from then on.
    """

    def __init__(
        self,
        fetchers: Sequence[Fetcher],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._nodes = [_Node(f"{n} ({each.label})", each) for n, each in enumerate(fetchers, 1)]
        self._current = self._nodes[0]
        self._clock, self._sleep = clock, sleep or fetchers[0].wait
        self._lock = threading.Lock()
        self._chain_id: int | None = None
        self._heads: dict[str, tuple[float, Header]] = {}
        self._served: deque[tuple[int, str]] = deque(maxlen=SERVED_BLOCKS)
        self._check_at = 0.0
        self._checks = ThreadPoolExecutor(1, "nodes")
        self._checking: Future[None] | None = None
        self.failovers = 0

    @property
    def span(self) -> int:
        """How many blocks to ask for at once now."""
        return self._current.fetcher.span

    @property
    def retries(self) -> int:
        """How many requests were retries."""
        return sum(node.fetcher.retries for node in self._nodes)

    @property
    def incomplete(self) -> int:
        """How many answers lacked something of a block."""
        return sum(node.fetcher.incomplete for node in self._nodes)

    def close(self) -> None:
        """Close the connections."""
        self._checks.shutdown(wait=False, cancel_futures=True)
        for node in self._nodes:
            node.fetcher.close()

    def chain_id(self, expected: int | None = None) -> int:
        """The chain's id (EIP-155): the expected one as soon as a node has it. Raises NodeUnavailable."""
        found: list[int] = []
        errors: list[NodeUnavailable] = []
        for node in self._in_order():
            try:
                chain_id = node.fetcher.chain_id()
            except NodeUnavailable as error:
                node.health.failed(self._clock(), error)
                errors.append(error)
                continue
            if expected in (None, chain_id):
                self._chain_id = chain_id
                return chain_id
            found.append(chain_id)
        if errors:
            raise errors[0]
        return found[0]

    def expect_sprint(self, sprint: int | None) -> None:
        """Set the chain's sprint, see `completeness.SPRINTS`."""
        for node in self._nodes:
            node.fetcher.sprint = sprint

    def header(self, block: int | str) -> Header | None:
        """By number, or by a tag like `latest`, which never goes back for long. Raises NodeUnavailable."""
        if isinstance(block, int) or len(self._nodes) == 1:
            return self._ask(lambda fetcher: fetcher.header(block))
        self._check_others()
        self._leave_lagging_node()
        self._return_to_preferred_node()
        return self._highest(block, self._ask(lambda fetcher: fetcher.header(block)))

    def headers(self, blocks: Sequence[int | str]) -> list[Header | None]:
        """The headers of several blocks, all from one node. Raises NodeUnavailable."""
        return self._ask(lambda fetcher: fetcher.headers(blocks))

    def blocks(self, first: int, last: int) -> list[Block]:
        """See Fetcher.blocks."""
        found = self._ask(lambda fetcher: fetcher.blocks(first, last))
        with self._lock:
            self._served.extend((block.number, block.hash) for block in found[-1:])
        return found

    def has_block(self, number: int, hash_: str) -> bool:
        """Whether a node has this block on its chain. False when all of them have another one, for some time.

        Raises NodeUnavailable when no node has it and not all could be asked.
        """
        for attempt in range(HASH_TRIES):
            if attempt:
                self._sleep(HASH_PAUSE_S)
            others: list[_Node] = []
            for node in self._in_order():
                header = self._try(node, lambda fetcher: fetcher.header(number))
                if isinstance(header, Header) and header.hash == hash_:
                    self._disagree(others, number, hash_)
                    self._use(node, f"others have another block {number}")
                    return True
                others += [node] if isinstance(header, Header) else []
            if len(others) < len(self._nodes):
                raise NodeUnavailable(f"Not all nodes tell which block {number} they have.")
        return False

    def _disagree(self, nodes: Iterable[_Node], number: int, hash_: str) -> None:
        for node in nodes:
            if not node.health.disagrees:
                log.warning("a node has another block than the ingest", node=node.name, block=number, expected=hash_)
            node.health.disagrees = True

    def _ask(self, call: Callable[[Fetcher], _T]) -> _T:
        """The answer of the first node that has one. Raises NodeUnavailable when none has."""
        errors: list[tuple[_Node, NodeUnavailable]] = []
        for node in self._in_order():
            answer = self._try(node, call)
            if not isinstance(answer, NodeUnavailable):
                if self._current.health.rest_until > self._clock():
                    self._use(node, errors[-1][1].detail if errors else "the one in use failed")
                return answer
            errors.append((node, answer))
        if len(errors) == 1:
            raise errors[0][1]
        wait_s = min(error.retry_after_s for _, error in errors)
        raise type(errors[0][1])(" ".join(f"Node {node.name}: {error.detail}" for node, error in errors), wait_s)

    def _try(self, node: _Node, call: Callable[[Fetcher], _T]) -> _T | NodeUnavailable:
        try:
            if not node.health.is_checked:
                self._check_chain(node)
            answer = call(node.fetcher)
        except NodeBehind as error:  # the node is healthy, and only a little behind the others
            return error
        except NodeUnavailable as error:
            node.health.failed(self._clock(), error)
            return error
        node.health.succeeded()
        return answer

    def _check_chain(self, node: _Node) -> None:
        """Raises NodeUnavailable when the node is of another chain than the ingest."""
        found = node.fetcher.chain_id()
        if self._chain_id not in (None, found):
            detail = f"the node is of the chain with the id {found}, and the ingest reads {self._chain_id}"
            log.error("a node can't be used", node=node.name, reason=detail)
            raise NodeUnavailable(f"{detail.capitalize()}: take it out of --rpc.")
        self._chain_id, node.health.is_checked = found, True

    def _in_order(self) -> list[_Node]:
        """The nodes to ask: the one in use, then those that are healthy; those that failed lately come last."""
        now = self._clock()

        def rank(node: _Node) -> tuple[bool, bool, bool, int]:
            health = node.health
            return health.rest_until > now, health.disagrees, node is not self._current, -health.head

        return sorted(self._nodes, key=rank)

    def _use(self, node: _Node, why: str) -> None:
        with self._lock:
            before, self._current = self._current, node
        if before is not node:
            self.failovers += 1
            log.warning("the ingest uses another node", node=node.name, before=before.name, reason=why)

    def _highest(self, tag: str, found: Header | None) -> Header | None:
        now = self._clock()
        known_at, known = self._heads.get(tag, (now, found))
        if known is not None and now - known_at < HEAD_KEPT_S and (found is None or _number(found) < _number(known)):
            return known
        if found is not None:
            self._heads[tag] = now, found
        return found

    def _leave_lagging_node(self) -> None:
        """Use another node when the one in use is blocks behind it."""
        now, head = self._clock(), self._current.health.head
        ahead = [
            node
            for node in self._nodes
            if node.health.head > head + LAG_BLOCKS and node.health.rest_until <= now and not node.health.disagrees
        ]
        if head >= 0 and ahead:
            best = max(ahead, key=lambda node: node.health.head)
            self._use(best, f"its head is block {head}, and another node has {best.health.head}")

    def _return_to_preferred_node(self) -> None:
        """Use a node that comes before the one in use, once it is healthy again."""
        least_head = self._current.health.head - LAG_BLOCKS
        for node in self._nodes[: self._nodes.index(self._current)]:
            health = node.health
            if health.good_checks >= CHECKS_TO_RETURN and not health.disagrees and health.head >= least_head:
                self._use(node, "a node that comes before it is healthy again")
                return

    def _check_others(self) -> None:
        """Look at the heads of all nodes and at a block's hash, beside the work."""
        if self._clock() < self._check_at or not (self._checking is None or self._checking.done()):
            return
        self._check_at = self._clock() + CHECK_S
        self._checking = self._checks.submit(self._check)

    def _check(self) -> None:
        for node in self._nodes:
            try:
                if node.health.rest_until <= self._clock():
                    self._try(node, partial(self._compare, node))
            except Exception as error:  # noqa: BLE001  # the check is repeated; its fault must not stay unseen
                log.error("the check of a node failed", node=node.name, reason=type(error).__name__)

    def _compare(self, node: _Node, fetcher: Fetcher) -> None:
        """Take note of a node's head, and of its hash of the newest block that was read."""
        latest = fetcher.header(LATEST)
        if latest is None:
            return
        node.health.head = _number(latest)
        node.health.good_checks += 1
        with self._lock:
            served = [each for each in self._served if each[0] <= node.health.head]
        if not served or node is self._current:
            return
        number, hash_ = served[-1]
        header = fetcher.header(number)
        if header is not None and header.hash != hash_:
            self._disagree([node], number, hash_)
        elif header is not None:
            node.health.disagrees = False


def _number(header: Header) -> int:
    return int(header.number, 16)
