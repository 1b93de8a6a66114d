"""Reads an EVM chain for the final and the zerolag streams.

Final blocks go to the final streams, and head blocks go to the zerolag streams.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import structlog

from headwater.errors import IngestStopped, NodeError
from headwater.ingest.base import Step
from headwater.ingest.evm.block_fetcher import BlockFetcher
from headwater.ingest.evm.completeness import SPRINTS
from headwater.ingest.evm.decode import Decoder
from headwater.ingest.evm.final_blocks import FinalBlocks
from headwater.ingest.evm.head_blocks import ZEROLAG_SUFFIX, HeadBlocks
from headwater.ingest.evm.head_notifier import HeadNotifier
from headwater.ingest.evm.ingest_state import IngestState, ReadWrittenRecords, make_step
from headwater.ingest.evm.node_pool import NodePool
from headwater.ingest.evm.options import EvmOptions
from headwater.ingest.evm.position import Position, read_evm_position
from headwater.ingest.evm.records import ENTITIES, Converter
from headwater.ingest.evm.rpc_client import RpcClient
from headwater.ingest.jsonrpc import MAX_ATTEMPTS
from headwater.model.listed_token import TokenListEntry
from headwater.model.stream import find_chain

STOP_POLL_S = 1.0
"""The interval at which the loop checks whether it must stop."""
ATTEMPTS_WITH_FALLBACKS = 2
"""The maximum number of attempts of a request to one node when there are other nodes."""

ReportProgress = Callable[[int], None]
"""Is called with the number of the last final block whose step is stored."""

log = structlog.get_logger(__name__)


class EvmReader:
    """Implements ingest.base.ChainReader for an EVM chain.

    Args:
        options: The options of the ingest.
        decoder: Decodes logs for the stream `decoded_log`.
        tokens: The known tokens, by address.
        zerolag: The entities that have a zerolag stream.
        read_written_records: Reads the records that this ingest wrote to the zerolag streams.
        stop: Cancels the waits of the reader.
    """

    def __init__(
        self,
        *,
        options: EvmOptions,
        decoder: Decoder,
        tokens: Mapping[str, TokenListEntry],
        zerolag: Collection[str],
        read_written_records: ReadWrittenRecords,
        stop: Event,
    ) -> None:
        self._options = options
        self._converter = Converter(options.chain, decoder, tokens)
        self._zerolag = zerolag
        self._read_written_records = read_written_records
        self._stop = stop
        self._nodes: NodePool | None = None
        self.report_progress: ReportProgress = lambda _: None

    @property
    def streams(self) -> Sequence[str]:
        return [*ENTITIES, *(entity + ZEROLAG_SUFFIX for entity in self._zerolag)]

    def steps(self, position: bytes | None) -> Iterator[Step | None]:
        """Implement ChainReader.steps.

        After NodeError the next call uses the same node pool, which remembers the nodes' health.
        """
        options = self._options
        nodes = self._nodes = self._nodes or self._open_nodes()
        notifier = HeadNotifier(options.ws.get_secret_value() if options.ws else None, options.poll_s)
        pool = ThreadPoolExecutor(options.parallel, "fetch")
        will_retry = False
        try:
            state = IngestState(
                options=options, nodes=nodes, converter=self._converter, position=self._load_position(nodes, position)
            )
            head_blocks = HeadBlocks(state, self._zerolag, self._read_written_records) if self._zerolag else None
            final_blocks = FinalBlocks(state, pool)
            yield from first_step(state, final_blocks, head_blocks)
            yield from self._loop(state, notifier, final_blocks.steps(), head_blocks)
        except NodeError:
            will_retry = True
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            notifier.close()
            if not will_retry:
                self.close()

    def close(self) -> None:
        """Implement ChainReader.close."""
        if self._nodes is not None:
            self._nodes.close()
            self._nodes = None

    def _open_nodes(self) -> NodePool:
        options = self._options
        attempts = MAX_ATTEMPTS if len(options.rpc) == 1 else ATTEMPTS_WITH_FALLBACKS
        clients = [
            RpcClient(url.get_secret_value(), self._stop, rate=options.rate, attempts=attempts) for url in options.rpc
        ]
        return NodePool([BlockFetcher(client, options.fetch) for client in clients])

    def _load_position(self, nodes: NodePool, position: bytes | None) -> Position:
        chain = find_chain(self._options.chain)
        known = chain.chain_id if chain else None
        chain_id = nodes.chain_id(known)
        nodes.set_sprint(SPRINTS.get(chain_id))
        if known is not None and known != chain_id:
            raise IngestStopped(
                f"The node serves chain {chain_id}, but {self._options.chain} is chain {known}: "
                "use a node of that chain."
            )
        if position is None:
            return Position(chain_id)
        if self._options.from_block is not None:
            log.info("the ingest resumes at its stored position; from_block applies only to the first start")
        return read_evm_position(position, self._options.name, chain_id)

    def _loop(
        self, state: IngestState, notifier: HeadNotifier, final_steps: Iterator[Step | None], head: HeadBlocks | None
    ) -> Iterator[Step | None]:
        """Yield the steps of each round.

        A round has all steps of the head when the head is to be read, and then one step of the final blocks. A round
        without a step is followed by a wait for a new head, or until the next poll is due.
        """
        should_read_head, counted_failures = True, 0
        while True:
            has_head_step = False
            if head is not None and should_read_head:
                for step in head.steps():
                    has_head_step = True
                    yield step
            try:
                final_step = next(final_steps)
            except StopIteration:
                return
            yield final_step
            if final_step is not None and state.position.final is not None:
                self.report_progress(state.position.final.number)
            state.counts["subscription_failures"] += notifier.failures - counted_failures
            counted_failures = notifier.failures
            should_read_head = notifier.wait(0.0)
            if not has_head_step and final_step is None:
                while not should_read_head:
                    should_read_head = notifier.wait(STOP_POLL_S)
                    yield None


def first_step(state: IngestState, final_blocks: FinalBlocks, head_blocks: HeadBlocks | None) -> Iterator[Step]:
    """Yield a step without records at the first start, so that the start position is stored."""
    before = state.position
    final_blocks.set_start()
    if head_blocks is not None:
        head_blocks.set_start()
    if state.position != before:
        yield make_step(state, [], [])
