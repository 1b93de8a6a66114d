"""A pool of nodes of one chain, with failover from the preferred node to others."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import structlog

from headwater.backoff import Backoff
from headwater.errors import NodeBehind, NodeError, NodeUnavailable
from headwater.ingest.evm.block_fetcher import BlockFetcher
from headwater.ingest.evm.blocks import Block, Header

_T = TypeVar("_T")

LATEST: Final = "latest"
CHECK_S: Final = 15.0
"""The interval of the health checks of all nodes."""
LAG_BLOCKS: Final = 5
"""A node that lags behind a healthy node by more blocks than this is asked only after that node has failed."""
CHECKS_TO_RETURN: Final = 4
"""A preferred node is used again after it has answered this many checks in a row."""
HEAD_TTL_S: Final = 60.0
"""How long the highest head of a tag is returned while the nodes that answer have only lower ones."""
REMEMBERED_BLOCKS: Final = 512
"""The number of fetched blocks that are remembered.

A check of a node compares one of them: the newest one that the node can have.
"""
HASH_ATTEMPTS: Final = 5
HASH_PAUSE_S: Final = 1.0

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class NodeHealth:
    """The health of a node.

    Attributes:
        head: The number of the newest block that the node has; -1 before the first check.
        failures: The number of failed requests in a row.
        backoff_until: The time, by the pool's clock, until which the node gets no requests after failures.
        is_chain_verified: Whether the node was seen to serve the chain of the ingest.
        is_on_another_fork: Whether the node returned another hash for a block than the current node.
        answered_checks: The number of checks in a row that the node has answered, on any fork.
    """

    head: int = -1
    failures: int = 0
    backoff_until: float = 0.0
    is_chain_verified: bool = False
    is_on_another_fork: bool = False
    answered_checks: int = 0
    backoff: Backoff = field(default_factory=lambda: Backoff(1.0, 60.0))

    def on_failure(self, now: float, error: NodeError) -> None:
        """Count a failed request, and set the back-off."""
        self.failures += 1
        self.answered_checks = 0
        self.backoff_until = now + max(self.backoff.next_delay_s(), error.retry_after_s)

    def on_success(self) -> None:
        """Reset the failures and the back-off."""
        self.failures = 0
        self.backoff_until = 0.0
        self.backoff.reset()


@dataclass(slots=True)
class _Node:
    """A node of the pool.

    Attributes:
        name: The number of the node in the pool, and its host without secret parts.
        fetcher: Fetches blocks from the node.
        health: The health of the node.
    """

    name: str
    fetcher: BlockFetcher
    health: NodeHealth = field(default_factory=NodeHealth)


class NodePool:
    """Sends requests to the nodes of a chain, with failover. Thread-safe.

    A request goes to the current node. If this fails, the other nodes are tried in the order of their health. The first
    node that responds becomes the current node, unless the current node only lags (NodeBehind).
    """

    def __init__(
        self,
        fetchers: Sequence[BlockFetcher],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._nodes = [_Node(f"{n} ({fetcher.label})", fetcher) for n, fetcher in enumerate(fetchers, 1)]
        self._current = self._nodes[0]
        self._clock, self._sleep = clock, sleep or fetchers[0].wait
        self._lock = threading.Lock()
        self._chain_id: int | None = None
        self._heads: dict[str, tuple[float, Header]] = {}
        self._recent_blocks: deque[tuple[int, str]] = deque(maxlen=REMEMBERED_BLOCKS)
        self._check_at = 0.0
        self._checks = ThreadPoolExecutor(1, "nodes")
        self._checking: Future[None] | None = None
        self._failovers = 0
        self._taken_counts: Counter[str] = Counter()

    @property
    def range_size(self) -> int:
        """The current number of blocks per request."""
        return self._current.fetcher.range_size

    def take_counts(self) -> Counter[str]:
        """Return what happened since the last call, by a name in `ingest.runner.COUNTS`."""
        fetchers = [node.fetcher for node in self._nodes]
        counts = Counter(
            retries=sum(fetcher.retries for fetcher in fetchers),
            failovers=self._failovers,
            incomplete=sum(fetcher.incomplete for fetcher in fetchers),
        )
        taken, self._taken_counts = self._taken_counts, counts
        return counts - taken

    def close(self) -> None:
        """Close the connections."""
        self._checks.shutdown(wait=False, cancel_futures=True)
        for node in self._nodes:
            node.fetcher.close()

    def chain_id(self, expected: int | None = None) -> int:
        """Return the chain's id (EIP-155): the expected one if any node serves it.

        Raises NodeError.
        """
        other_ids: list[int] = []
        errors: list[NodeError] = []
        for node in self._in_order():
            try:
                chain_id = node.fetcher.chain_id()
            except NodeError as error:
                node.health.on_failure(self._clock(), error)
                errors.append(error)
                continue
            if expected in (None, chain_id):
                self._chain_id = chain_id
                return chain_id
            other_ids.append(chain_id)
        if errors:
            raise errors[0]
        return other_ids[0]

    def set_sprint(self, sprint: int | None) -> None:
        """Set the number of blocks of a sprint, see `completeness.SPRINTS`."""
        for node in self._nodes:
            node.fetcher.sprint = sprint

    def header(self, block: int | str) -> Header | None:
        """Return a header by number, or by a tag such as `latest`. Raises NodeError.

        With several nodes, for HEAD_TTL_S the header of a tag is never lower than an earlier result, even when the
        responding node lags.
        """
        if isinstance(block, int) or len(self._nodes) == 1:
            return self._ask(lambda fetcher: fetcher.header(block))
        self._start_health_check()
        self._leave_lagging_node()
        self._return_to_preferred_node()
        return self._highest(block, self._ask(lambda fetcher: fetcher.header(block)))

    def headers(self, blocks: Sequence[int | str]) -> list[Header | None]:
        """Return the headers of several blocks, all from one node. Raises NodeError."""
        return self._ask(lambda fetcher: fetcher.headers(blocks))

    def blocks(self, first: int, last: int) -> list[Block]:
        """See BlockFetcher.blocks."""
        blocks = self._ask(lambda fetcher: fetcher.blocks(first, last))
        with self._lock:
            self._recent_blocks.extend((block.number, block.hash) for block in blocks[-1:])
        return blocks

    def switch_to_node_with(self, number: int, hash_: str) -> bool:
        """Switch to a node that has this block on its chain.

        Returns False when all nodes have had another block of this number in HASH_ATTEMPTS checks. Raises
        NodeUnavailable when no node has the block, and some nodes have failed or have no block of this number yet.
        """
        for attempt in range(HASH_ATTEMPTS):
            if attempt:
                self._sleep(HASH_PAUSE_S)
            on_other_forks: list[_Node] = []
            for node in self._in_order():
                header = self._try(node, lambda fetcher: fetcher.header(number))
                if isinstance(header, Header) and header.hash == hash_:
                    self._mark_on_another_fork(on_other_forks, number, hash_)
                    self._switch_to(node, f"other nodes have another block {number}")
                    return True
                on_other_forks += [node] if isinstance(header, Header) else []
            if len(on_other_forks) < len(self._nodes):
                raise NodeUnavailable(f"Not all nodes have returned a block {number}; the check is repeated.")
        return False

    def _mark_on_another_fork(self, nodes: Iterable[_Node], number: int, hash_: str) -> None:
        for node in nodes:
            if not node.health.is_on_another_fork:
                log.warning("a node is on another fork than the ingest", node=node.name, block=number, expected=hash_)
            node.health.is_on_another_fork = True

    def _ask(self, call: Callable[[BlockFetcher], _T]) -> _T:
        """Return the result of the first node that responds.

        Raises NodeError when no node responds.
        """
        errors: list[tuple[_Node, NodeError]] = []
        for node in self._in_order():
            result = self._try(node, call)
            if not isinstance(result, NodeError):
                if self._current.health.backoff_until > self._clock():
                    self._switch_to(node, errors[-1][1].detail if errors else "the current node failed")
                return result
            errors.append((node, result))
        if len(errors) == 1:
            raise errors[0][1]
        wait_s = min(error.retry_after_s for _, error in errors)
        raise type(errors[0][1])(" ".join(f"Node {node.name}: {error.detail}" for node, error in errors), wait_s)

    def _try(self, node: _Node, call: Callable[[BlockFetcher], _T]) -> _T | NodeError:
        try:
            if not node.health.is_chain_verified:
                self._verify_chain(node)
            result = call(node.fetcher)
        except NodeBehind as error:  # the node is healthy, and only lags a little
            return error
        except NodeError as error:
            node.health.on_failure(self._clock(), error)
            return error
        node.health.on_success()
        return result

    def _verify_chain(self, node: _Node) -> None:
        """Raise NodeUnavailable when the node does not serve the chain of the ingest."""
        chain_id = node.fetcher.chain_id()
        if self._chain_id not in (None, chain_id):
            detail = f"the node serves chain {chain_id}, but the ingest reads chain {self._chain_id}"
            log.error("a node can't be used", node=node.name, reason=detail)
            raise NodeUnavailable(f"{detail.capitalize()}: remove it from --rpc.")
        self._chain_id, node.health.is_chain_verified = chain_id, True

    def _in_order(self) -> list[_Node]:
        """Return the nodes in the order of use.

        Healthy nodes come first, then nodes on another fork, then nodes in back-off. Among equal nodes the current node
        comes first, then the node with the highest head.
        """
        now = self._clock()

        def rank(node: _Node) -> tuple[bool, bool, bool, int]:
            health = node.health
            return health.backoff_until > now, health.is_on_another_fork, node is not self._current, -health.head

        return sorted(self._nodes, key=rank)

    def _switch_to(self, node: _Node, why: str) -> None:
        with self._lock:
            before, self._current = self._current, node
        if before is not node:
            self._failovers += 1
            log.warning("the ingest uses another node", node=node.name, before=before.name, reason=why)

    def _highest(self, tag: str, header: Header | None) -> Header | None:
        """Return the remembered header of the tag while it is higher and not older than HEAD_TTL_S.

        Otherwise, remember and return the given header.
        """
        now = self._clock()
        known_at, known = self._heads.get(tag, (now, header))
        if (
            known is not None
            and now - known_at < HEAD_TTL_S
            and (header is None or _block_number(header) < _block_number(known))
        ):
            return known
        if header is not None:
            self._heads[tag] = now, header
        return header

    def _leave_lagging_node(self) -> None:
        """Switch to another node when the current node lags behind it."""
        now, head = self._clock(), self._current.health.head
        ahead = [
            node
            for node in self._nodes
            if node.health.head > head + LAG_BLOCKS
            and node.health.backoff_until <= now
            and not node.health.is_on_another_fork
        ]
        if head >= 0 and ahead:
            best = max(ahead, key=lambda node: node.health.head)
            self._switch_to(best, f"its head is block {head}, and another node has {best.health.head}")

    def _return_to_preferred_node(self) -> None:
        """Switch to a preferred node, once the preferred node is healthy again."""
        least_head = self._current.health.head - LAG_BLOCKS
        for node in self._nodes[: self._nodes.index(self._current)]:
            health = node.health
            if (
                health.answered_checks >= CHECKS_TO_RETURN
                and not health.is_on_another_fork
                and health.head >= least_head
            ):
                self._switch_to(node, "a preferred node is healthy again")
                return

    def _start_health_check(self) -> None:
        """Start a background check of all nodes (head, hash of a recent block) when one is due."""
        if self._clock() < self._check_at or not (self._checking is None or self._checking.done()):
            return
        self._check_at = self._clock() + CHECK_S
        self._checking = self._checks.submit(self._check_all)

    def _check_all(self) -> None:
        for node in self._nodes:
            try:
                if node.health.backoff_until <= self._clock():
                    self._try(node, partial(self._check_node, node))
            except Exception as error:  # noqa: BLE001  # the check is repeated, but its error must be logged
                log.error("the check of a node failed", node=node.name, reason=type(error).__name__)

    def _check_node(self, node: _Node, fetcher: BlockFetcher) -> None:
        """Record a node's head, and compare a block's hash.

        The block is the newest fetched one that is not above this head. Its hash must be the hash that was fetched.
        """
        latest = fetcher.header(LATEST)
        if latest is None:
            return
        node.health.head = _block_number(latest)
        node.health.answered_checks += 1
        with self._lock:
            comparable = [(number, hash_) for number, hash_ in self._recent_blocks if number <= node.health.head]
        if not comparable or node is self._current:
            return
        number, hash_ = comparable[-1]
        header = fetcher.header(number)
        if header is not None and header.hash != hash_:
            self._mark_on_another_fork([node], number, hash_)
        elif header is not None:
            node.health.is_on_another_fork = False


def _block_number(header: Header) -> int:
    return int(header.number, 16)
