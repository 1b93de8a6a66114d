"""Writes dead letters to the dead-letter topic.

A dead letter is the source record of a failed record, with headers that say why and where the record failed.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from headwater.engine.in_flight_batch import InFlightBatch
from headwater.engine.rejected_records import RejectedRecords
from headwater.model.dead_letter import (
    ATTEMPTS_HEADER,
    COLUMN_HEADER,
    ERROR_HEADER,
    LINE_HEADER,
    MESSAGE_HEADER,
    REJECTED_REASON,
    STUB_HEADER,
    TIMESTAMP_HEADER,
    TOO_LARGE_REASON,
    TRANSFORM_HEADER,
    header_text,
)
from headwater.model.outputs import MAX_OUTPUT_BYTES, OUTPUT_ID_HEADER, REVISION_HEADER
from headwater.model.record import Failure, Int64Column, RowIndexes, SourceIds, position_ids
from headwater.native import BytesColumn, HeaderColumn
from headwater.sinks.base import OutputWriter
from headwater.sinks.outputs import (
    OutputBatch,
    output_id_column,
    output_timestamps,
    size_error,
)


class DeadLetterWriter:
    """Writes the source record of each failed record to the dead-letter topic.

    The value and the key are unchanged, except that a stub replaces a record that the topic can't take.
    """

    def __init__(self, topic: str, revision: int, source_ids: SourceIds = position_ids) -> None:
        self._topic = topic
        self._source_ids = source_ids
        self._revision = b"%d" % revision

    def send(self, in_flight: InFlightBatch, producer: OutputWriter, rejected: RejectedRecords) -> None:
        """Produce one dead letter for each failed record of the batch."""
        if not in_flight.failed_records:
            return
        rows = in_flight.source_rows()
        failed_rows = RowIndexes("i", [rows[failed.partition, failed.offset] for failed in in_flight.failed_records])
        indexes = Int64Column("q", [failed.output_index for failed in in_flight.failed_records])
        letters = replace(in_flight.input.take(failed_rows), indexes=indexes)
        ids = output_id_column(letters, self._source_ids)
        headers = [
            *_headers([failed.failure for failed in in_flight.failed_records]),
            HeaderColumn(REVISION_HEADER, BytesColumn.of([self._revision] * len(letters))),
            HeaderColumn(OUTPUT_ID_HEADER, ids),
            HeaderColumn(TIMESTAMP_HEADER, BytesColumn.of(b"%d" % timestamp for timestamp in letters.timestamps)),
        ]
        times = output_timestamps(letters.timestamps)
        outputs = OutputBatch(self._topic, letters.values, letters.keys, letters.partitions, times, headers)
        producer.produce(self._with_stubs(outputs, rejected))
        rejected.on_produced(letters, self._topic)

    def _with_stubs(self, outputs: OutputBatch, rejected: RejectedRecords) -> OutputBatch:
        """Return the records with a stub in place of each record that the topic can't take."""
        if not rejected and outputs.values.max_size + outputs.keys.max_size <= MAX_OUTPUT_BYTES:
            return outputs
        values, keys = [*outputs.values], [*outputs.keys]
        reasons: list[bytes | None] = [None] * len(values)
        for row, (value, key) in enumerate(zip(values, keys, strict=True)):
            letter_headers = outputs.headers_of(row)
            is_rejected = rejected.reason(self._topic, dict(letter_headers)[OUTPUT_ID_HEADER]) is not None
            if is_rejected or size_error(value, key, letter_headers) is not None:
                reason = REJECTED_REASON if is_rejected else TOO_LARGE_REASON
                reasons[row] = reason.encode()
                values[row] = stub = _stub(value or b"", key, reason)
                keys[row] = None if is_rejected or size_error(stub, key, letter_headers) is not None else key
        headers = [*outputs.headers, HeaderColumn(STUB_HEADER, BytesColumn.of(reasons))]
        return replace(outputs, values=BytesColumn.of(values), keys=BytesColumn.of(keys), headers=headers)


def _stub(value: bytes, key: bytes | None, reason: str) -> bytes:
    """Return the value of a dead letter that replaces a record which the topic can't take."""
    stub = {
        "headwater": reason,
        "sha256": hashlib.sha256(value).hexdigest(),
        "bytes": len(value),
        "key_bytes": len(key or b""),
    }
    return json.dumps(stub).encode()


def _headers(failures: Sequence[Failure]) -> list[HeaderColumn]:
    columns: dict[str, Sequence[str | int | None]] = {
        ERROR_HEADER: [failure.error for failure in failures],
        MESSAGE_HEADER: [failure.message for failure in failures],
        TRANSFORM_HEADER: [failure.component for failure in failures],
        LINE_HEADER: [failure.line for failure in failures],
        COLUMN_HEADER: [failure.column for failure in failures],
        ATTEMPTS_HEADER: [failure.attempts for failure in failures],
    }
    return [HeaderColumn(name, BytesColumn.of(map(_header_value, values))) for name, values in columns.items()]


def _header_value(value: str | int | None) -> bytes | None:
    return None if value is None else header_text(str(value)).encode()
