"""Reads the events of a Hyperliquid node from the files that the node writes."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import structlog

from headwater.errors import NodeUnavailable
from headwater.ingest.base import Step
from headwater.ingest.hyperliquid.block_merger import FOLDERS, BlockMerger, FolderBlocks, groups_for
from headwater.ingest.hyperliquid.conversion import Converter, Kind
from headwater.ingest.hyperliquid.folder_reader import FolderReader
from headwater.ingest.hyperliquid.options import ENTITIES, Entity, HyperliquidOptions
from headwater.ingest.hyperliquid.position import (
    BlockProgress,
    FolderPosition,
    NodePosition,
    SeenBlocks,
    read_node_position,
)
from headwater.wait_log import WaitLog

log = structlog.get_logger(__name__)

SCAN_INTERVAL_S: Final = 1.0
POLL_INTERVAL_S: Final = 0.05
IDLE_YIELD_S: Final = 1.0


class NodeFilesReader:
    """Implements ingest.base.ChainReader for the folder to which a node writes.

    Args:
        options: The options of the ingest.
        now: The clock, in seconds since 1970.
        idle_yield_s: The time without a new block after which `steps` yields None, and the time for which a merger
            waits for further lines of a block.
    """

    def __init__(
        self, options: HyperliquidOptions, now: Callable[[], float] = time.time, idle_yield_s: float = IDLE_YIELD_S
    ) -> None:
        assert options.node_data is not None
        self._name = options.name
        self._folder = options.node_data
        self._entities: Sequence[Entity] = options.entities or ENTITIES
        self._from_start = options.from_start
        self._now = now
        self._idle_yield_s = idle_yield_s

    @property
    def streams(self) -> Sequence[str]:
        return self._entities

    def steps(self, position: bytes | None) -> Iterator[Step | None]:
        """Implement ChainReader.steps.

        Raises NodeUnavailable while the folder does not exist or can't be read.
        """
        if not self._folder.is_dir():
            raise NodeUnavailable(f"The folder {self._folder}, to which the node writes its data, does not exist.")
        stored = read_node_position(position, self._name)
        node = _NodeReader(
            root=self._folder,
            entities=frozenset(self._entities),
            stored=stored,
            now=self._now,
            idle_yield_s=self._idle_yield_s,
        )
        try:
            if position is None and not self._from_start:
                node.skip_to_end()
                log.info(
                    "the first start skips existing files; to read them, start an ingest with --from-start and another "
                    "--name",
                    folder=str(self._folder),
                )
            if position is None:
                yield Step([], node.position(), 0)
            yield from node.steps()
        except OSError as error:
            raise NodeUnavailable(f"The node's files can't be read: {error}.") from error
        finally:
            node.close()

    def close(self) -> None:
        """Implement ChainReader.close. `steps` leaves nothing open."""


class _NodeReader:
    """Reads all folders of a node that contain events of the requested entities."""

    def __init__(
        self,
        *,
        root: Path,
        entities: frozenset[Entity],
        stored: NodePosition,
        now: Callable[[], float],
        idle_yield_s: float,
    ) -> None:
        self._root = root
        self._wait_log = WaitLog(
            "the ingest waits for the node to create a data folder; start the node with its --write-* options"
        )
        self._idle_yield_s = idle_yield_s
        self._scanned_at = 0.0
        groups = groups_for(entities)
        kinds = [kind for group in groups for kind in group]
        self._coverage = {kind: stored.coverage(kind) for kind in kinds}
        self._seen = {kind: SeenBlocks(stored.seen.get(kind) or ()) for kind in kinds}
        self._converter = Converter(entities, stored.unmatched_fills)
        self._folders = {
            kind: [
                FolderBlocks(
                    spec=spec,
                    reader=FolderReader(root / spec.name, stored.folders.get(spec.name) or FolderPosition(), now),
                    last_taken=stored.last_blocks.get(spec.name) or BlockProgress(),
                    newest_ms=self._coverage[kind].newest_of(spec.rank),
                    quiet_s=idle_yield_s,
                )
                for spec in FOLDERS[kind]
            ]
            for kind in kinds
        }
        self._mergers = [self._merger(group) for group in groups]

    def _merger(self, kinds: Sequence[Kind]) -> BlockMerger:
        folders = [folder for kind in kinds for folder in self._folders[kind]]
        return BlockMerger(folders, self._coverage, self._seen, self._converter)

    @property
    def _all_folders(self) -> Iterator[FolderBlocks]:
        return (folder for folders in self._folders.values() for folder in folders)

    def skip_to_end(self) -> None:
        """Skip all existing lines."""
        for folder in self._all_folders:
            folder.reader.skip_to_end()

    def position(self) -> bytes:
        """Return the current position, encoded for storage."""
        readers = {folder.spec.name: folder.reader.position for folder in self._all_folders}
        last_blocks = {folder.spec.name: folder.last_taken for folder in self._all_folders}
        return msgspec.json.encode(
            NodePosition(
                {name: position for name, position in readers.items() if position.floor or position.files},
                {name: progress for name, progress in last_blocks.items() if progress.key},
                {kind: coverage.spans for kind, coverage in self._coverage.items() if coverage.spans},
                seen={kind: seen.ranges for kind, seen in self._seen.items() if seen.ranges},
                unmatched_fills=self._converter.unmatched_fills,
            )
        )

    def steps(self) -> Iterator[Step | None]:
        """Yield steps with new records of each group.

        Yields None when the node wrote nothing for a while.
        """
        quiet_since = time.monotonic()
        while True:
            self._scan()
            is_quiet = True
            for merger in self._mergers:
                if step := self._step(merger):
                    is_quiet = False
                    yield step
            if not is_quiet:
                quiet_since = time.monotonic()
                continue
            if time.monotonic() - quiet_since >= self._idle_yield_s:
                quiet_since = time.monotonic()
                yield None
            time.sleep(POLL_INTERVAL_S)

    def _scan(self) -> None:
        if time.monotonic() - self._scanned_at >= SCAN_INTERVAL_S:
            self._scanned_at = time.monotonic()
            for folder in self._all_folders:
                folder.reader.scan()
            if not any(folder.reader.directory.is_dir() for folder in self._all_folders):
                names = [folder.spec.name for folder in self._all_folders]
                self._wait_log.log_if_due(node_data=str(self._root), one_of=names)

    def _step(self, merger: BlockMerger) -> Step | None:
        batch = merger.read()
        loss_count = self._log_losses()
        if batch is None:
            return Step([], self.position(), 0, gaps=loss_count) if loss_count else None
        return Step(batch.records, self.position(), batch.newest_ms, batch.skipped, loss_count + batch.gaps)

    def _log_losses(self) -> int:
        """Log and clear the losses since the last call. Returns the number of losses."""
        count = 0
        for folder in self._all_folders:
            for path, reason in folder.reader.losses:
                log.warning("lines are lost", file=f"{folder.spec.name}/{path}", reason=reason)
                count += 1
            folder.reader.losses.clear()
        return count

    def close(self) -> None:
        """Close all files."""
        for folder in self._all_folders:
            folder.reader.close()
