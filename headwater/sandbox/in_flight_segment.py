"""A segment that the child processes, and the state of its conversation with the parent."""

from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass

from headwater.sandbox.lookups import LookupRequest, LookupResult
from headwater.sandbox.script_batch import DRY_RUN_FLAG, ScriptBatch, Segment


@dataclass(slots=True, eq=False)
class InFlightSegment:
    """A segment that was sent to the child and is not finished.

    A pass of the child runs those records of the segment that have no final output yet. It ends with a lookup request
    or the results. After the lookup, a further pass follows.

    Attributes:
        script_batch: The batch of the segment.
        segment: The segment.
        limit_ms: The time after which V8 interrupts a pass.
        has_dry_run: Whether the child begins with a dry run of the segment.
        runs_in_own_realm: Whether the segment runs in the script's own realm, not in its realm for dry runs.
        pass_began_s: The clock when the last pass began, moved forward by the time for which the script has been
            blocked since. The parent's deadline for a kill counts from here. V8's own timer (`limit_ms`) counts from
            the real beginning of the pass.
        cpu_before_s: The child's CPU time at the beginning of the last pass.
        traced: The index in the segment of the running record, from the last TRACE frame.
        results: The payload of RESULTS, until SUMMARY arrives.
        lookup_requests: The number of LOOKUP_REQUEST frames, which the child sends between passes.
        sync_lookup_requests: The number of SYNC_LOOKUP_REQUEST frames, for whose answers the script blocked.
        request: The lookup request that has no response yet.
        sync_request_payload: The payload of the SYNC_LOOKUP_REQUEST frame for whose answer the script blocks.
        blocked_at_s: The clock when the script began to block.
        lookup: The lookup that is running.
    """

    script_batch: ScriptBatch
    segment: Segment
    limit_ms: int
    _: KW_ONLY
    has_dry_run: bool = False
    runs_in_own_realm: bool = True
    pass_began_s: float = 0.0
    cpu_before_s: float = 0.0
    traced: int | None = None
    results: bytes = b""
    lookup_requests: int = 0
    sync_lookup_requests: int = 0
    request: LookupRequest | None = None
    sync_request_payload: bytes = b""
    blocked_at_s: float = 0.0
    lookup: Future[LookupResult] | None = None

    @property
    def script_number(self) -> int:
        """The number of the script that runs."""
        return self.script_batch.script_number

    @property
    def limit_s(self) -> float:
        """The time after which V8 interrupts a pass, in seconds."""
        return self.limit_ms / 1000

    def binary_header(self, realm_number: int) -> bytes:
        """Return the first part of the payload of a SEGMENT frame."""
        flags = self.segment.mode.flag | self.script_batch.flags | self.has_dry_run * DRY_RUN_FLAG
        return realm_number.to_bytes(2, "little") + bytes([flags]) + self.limit_ms.to_bytes(2, "little")
