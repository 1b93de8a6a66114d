"""The feed of an EVM chain: its final blocks into the normal streams, its head into the zerolag ones."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import structlog

from headwater.errors import IngestStopped, NodeUnavailable
from headwater.ingest.base import Step
from headwater.ingest.evm.completeness import SPRINTS
from headwater.ingest.evm.decode import Decoder
from headwater.ingest.evm.fetch import Fetcher
from headwater.ingest.evm.final import FinalBlocks
from headwater.ingest.evm.head import SUFFIX, HeadBlocks
from headwater.ingest.evm.head_notifier import HeadNotifier
from headwater.ingest.evm.options import CHAIN_IDS, EvmOptions
from headwater.ingest.evm.pool import NodePool
from headwater.ingest.evm.position import Position, decode
from headwater.ingest.evm.records import ENTITIES, Converter, Token
from headwater.ingest.evm.rpc import RpcClient
from headwater.ingest.evm.steps import ReadBack, Work, step_of
from headwater.ingest.jsonrpc import ATTEMPTS

STOP_S = 1.0
"""The longest time after which the loop looks whether it must stop."""
ATTEMPTS_OF_MANY = 2
"""How often a request is sent to a node while others may answer it."""

Progress = Callable[[int], None]
"""Gets the number of the last block whose step is stored."""

log = structlog.get_logger(__name__)


class EvmFeed:
    """Implements ingest.base.Feed.

    zerolag: The entities that have a zerolag stream. tokens: The known tokens by address. stop: Ends the feed's waits.
    """

    def __init__(
        self,
        options: EvmOptions,
        decoder: Decoder,
        tokens: Mapping[str, Token],
        zerolag: Collection[str],
        read_back: ReadBack,
        stop: Event,
    ) -> None:
        self._options = options
        self._converter = Converter(options.chain, decoder, tokens)
        self._zerolag = zerolag
        self._read_back = read_back
        self._stop = stop
        self._nodes: NodePool | None = None
        self.progress: Progress = lambda _: None

    @property
    def streams(self) -> Sequence[str]:
        return [*ENTITIES, *(entity + SUFFIX for entity in self._zerolag)]

    def steps(self, position: bytes | None) -> Iterator[Step | None]:
        """See Feed. The health of the nodes is kept when this raises NodeUnavailable."""
        options = self._options
        nodes = self._nodes = self._nodes or self._open_nodes()
        notifier = HeadNotifier(options.ws.get_secret_value() if options.ws else None, options.poll_s)
        pool = ThreadPoolExecutor(options.parallel, "fetch")
        is_waiting = False
        try:
            work = Work(options, nodes, self._converter, self._begin(nodes, position))
            head = HeadBlocks(work, self._zerolag, self._read_back) if self._zerolag else None
            final = FinalBlocks(work, pool)
            yield from begun(work, final, head)
            yield from self._loop(work, notifier, final.steps(), head)
        except NodeUnavailable:
            is_waiting = True
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            notifier.close()
            if not is_waiting or self._stop.is_set():
                nodes.close()
                self._nodes = None

    def _open_nodes(self) -> NodePool:
        options = self._options
        attempts = ATTEMPTS if len(options.rpc) == 1 else ATTEMPTS_OF_MANY
        clients = [
            RpcClient(url.get_secret_value(), self._stop, rate=options.rate, attempts=attempts) for url in options.rpc
        ]
        return NodePool([Fetcher(client, options.fetch) for client in clients])

    def _begin(self, nodes: NodePool, position: bytes | None) -> Position:
        known = CHAIN_IDS.get(self._options.chain)
        chain_id = nodes.chain_id(known)
        nodes.expect_sprint(SPRINTS.get(chain_id))
        if known is not None and known != chain_id:
            raise IngestStopped(
                f"The node is of the chain with the id {chain_id}, and {self._options.chain} has {known}: "
                "use a node of that chain."
            )
        if position is None:
            return Position(chain_id)
        if self._options.from_block is not None:
            log.info("the ingest goes on where it stopped; from_block is of its first start alone")
        return decode(position, self._options.name, chain_id)

    def _loop(
        self, work: Work, notifier: HeadNotifier, final: Iterator[Step | None], head: HeadBlocks | None
    ) -> Iterator[Step | None]:
        look, failures = True, 0
        while True:
            moved = False
            for step in head.steps() if head is not None and look else ():
                moved = True
                yield step
            try:
                final_step = next(final)
            except StopIteration:
                return
            yield final_step
            if final_step is not None and work.position.final is not None:
                self.progress(work.position.final.number)
            work.counts["subscription_failures"] += notifier.failures - failures
            failures = notifier.failures
            look = notifier.wait(0.0)
            while not (look or moved or final_step):
                look = notifier.wait(STOP_S)
                yield None


def begun(work: Work, final: FinalBlocks, head: HeadBlocks | None) -> Iterator[Step]:
    """At a first start, a step without records: from then on it is settled where the ingest began."""
    before = work.position
    final.begin()
    if head is not None:
        head.begin()
    if work.position != before:
        yield step_of(work, [], [])
