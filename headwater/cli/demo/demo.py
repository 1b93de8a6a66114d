"""The steps of the demo: what a user types, and a check of what comes out."""

import contextlib
import itertools
import json
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from headwater.cli.demo import prices
from headwater.cli.demo.folder import FILTER_PIPELINE, PROJECT, VALUES_FILE, write_pipelines
from headwater.cli.demo.installation import Installation, running
from headwater.cli.demo.results import Results, percentiles, reading
from headwater.cli.demo.shell import Shell
from headwater.cli.demo.streams import DemoStream
from headwater.errors import SetupError
from headwater.settings import Settings

READ_WITHIN_S = 60.0
COMMAND_WITHIN_S = 120.0
STEADY_RATE = 2000
STEADY_SHARE = 0.8
"""At most this share of the records is written at the steady rate, until the commands of the demo have ended.

The others are written in one burst.
"""
STEADY_AT_LEAST_S = 8.0
MEASURED_S = 3.0
ENDLESS_RATE = 100
ENDLESS_TRADES_RATE = 2
DROPPED_EVERY = 10
"""With `--keep`, only one in this many of the records that the pipeline drops is written."""
FAILING_EVERY = 500
"""With `--keep`, one in this many of the written records has no amounts, so that a script that reads them fails."""

WriteRecords = Callable[[Path, str, str, Iterator[bytes], float], int]
"""Writes records: (data directory, chain, entity, lines, records a second) → number of records written."""


class Demo:
    """Runs the demo.

    Args:
        stream: The records to write, and the pipeline that filters them.
        settings: The settings of the embedded Kafka.
        write: Writes records to a stream.
        console: Where the demo prints.
        keep: Whether everything continues to run until SIGINT or SIGTERM.
    """

    def __init__(
        self, stream: DemoStream, settings: Settings, write: WriteRecords, console: Console, *, keep: bool
    ) -> None:
        self._stream = stream
        self._settings = settings
        self._write = write
        self._console = console
        self._keep = keep
        self._sent = 0
        self._steady_end = int(len(stream.lines) * STEADY_SHARE)
        self._steady_rate = min(STEADY_RATE, self._steady_end / STEADY_AT_LEAST_S)

    def run(self) -> int:
        """Run all steps. Returns the exit status: 0 when all results are as expected, otherwise 1."""
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with tempfile.TemporaryDirectory(prefix="headwater-demo-") as name:
            folder = Path(name)
            data_dir = folder / ".headwater"
            write_pipelines(folder / "pipelines", self._stream)
            started = time.monotonic()
            with running(data_dir, self._settings) as installation:
                self._say(f"1. Kafka, Valkey, API and controller have started in {time.monotonic() - started:.1f} s.")
                shell = Shell(folder, installation.port, self._console)
                is_correct = self._run_steps(installation, shell, data_dir)
                if self._keep:
                    self._keep_running(installation, shell, folder)
        return 0 if is_correct else 1

    def _run_steps(self, installation: Installation, shell: Shell, data_dir: Path) -> bool:
        """Run the steps between the start and the end. Returns whether all results are as expected."""
        self._say("2. A pipeline is a file. This one is in a folder with another one, which makes prices:")
        self._run(shell, f"cat pipelines/{FILTER_PIPELINE}.yaml")
        self._say("3. What the folder would change on the server, and the change:")
        self._run(shell, "headwater plan pipelines")
        self._run(shell, "headwater apply pipelines")
        [flow] = installation.get("/api/v1/flow", external_id=f"{PROJECT}/{FILTER_PIPELINE}")
        sink = installation.get(f"/api/v1/flow/{flow['id']}/deploy")["sinks"][0]
        with reading(sink) as results:
            is_correct = self._write_and_read(shell, results, data_dir)
        return self._prices(installation, shell, data_dir) and is_correct

    def _write_and_read(self, shell: Shell, results: Results, data_dir: Path) -> bool:
        """Write the records, change the filter meanwhile, and read the results.

        Returns whether the results are correct.
        """
        rate = f"{self._steady_rate:,.0f}"
        self._say(f"4. Records are written to the stream at {rate} a second. The outputs of the pipeline:")
        with self._writing(data_dir, self._steady_end, self._steady_rate) as writing:
            tail = f"headwater flows tail {FILTER_PIPELINE}"
            self._run(shell, f"{tail} --limit 3", results, writing)
            self._say("5. One more address is watched as soon as it is in the file and applied:")
            self._run(shell, f"echo {self._stream.added_value} >> pipelines/{VALUES_FILE}", results)
            self._run(shell, "headwater plan pipelines", results)
            self._run(shell, "headwater apply pipelines", results)
            first_after_change = self._sent + 1  # the writing thread may count one more record at this moment
            self._run(shell, f"{tail} | grep --max-count 1 {self._stream.added_value}", results, writing)
            latencies = results.read_while(lambda: not writing.done(), MEASURED_S)
        required, optional = self._stream.expected(first_after_change)
        self._say("6. From the writing of a record to its reading with the credentials of the pipeline:")
        self._say(f"   steady: {percentiles(latencies)}.")
        self._burst(data_dir, results, required)
        missing, unexpected = results.differences(required, optional)
        self._say(
            f"   Compared with a computation without Headwater: {len(required):,} of {len(self._stream.lines):,} "
            f"records should be delivered; {missing:,} are missing, {unexpected:,} are unexpected.\n"
        )
        return missing == unexpected == 0

    def _burst(self, data_dir: Path, results: Results, required: list[str]) -> None:
        """Write all other records as fast as possible, and read all required results."""
        count = len(self._stream.lines) - self._sent
        started = time.monotonic()
        with self._writing(data_dir, len(self._stream.lines), 0) as writing:
            writing.result()
            written = time.monotonic()
            results.read_all(required, READ_WITHIN_S)
        ended = time.monotonic()
        self._say(
            f"   burst of {count:,} records: written at {count / (written - started):,.0f} a second, through the "
            f"pipeline at {count / (ended - started):,.0f} a second."
        )

    def _prices(self, installation: Installation, shell: Shell, data_dir: Path) -> bool:
        """Write trades, and show the price that the second pipeline makes of them.

        Returns whether it is correct.
        """
        prices.write_trades(self._write, data_dir)
        statistics = prices.poll_statistics(installation.client)
        self._say("7. The other pipeline has made a price of four trades of this token:")
        self._run(shell, f"headwater prices get {prices.CHAIN} {prices.WETH}")
        if not prices.is_correct(statistics):
            self._say(f"   The prices are not correct: {statistics}")
            return False
        return True

    def _keep_running(self, installation: Installation, shell: Shell, folder: Path) -> None:
        """Write records until SIGINT or SIGTERM. Raises SetupError when Headwater ends before."""
        data_dir = folder / ".headwater"
        self._say(
            f"8. From now on, {ENDLESS_RATE} records a second are written. Ctrl-C ends the demo. Open the console:"
        )
        self._write(data_dir, prices.CHAIN, prices.ENTITY, prices.past_trades(), 0)
        stream, lines = self._stream, _with_failing(self._endless_lines())
        with (
            contextlib.suppress(KeyboardInterrupt),
            self._in_background(data_dir, stream.chain, stream.entity, lines, ENDLESS_RATE),
            self._in_background(data_dir, prices.CHAIN, prices.ENTITY, prices.live_trades(), ENDLESS_TRADES_RATE),
        ):
            self._run(shell, "headwater keys sign-in-link")
            self._say("   or with the command line:")
            self._say(f"   $ cd {folder}; export HEADWATER_URL={installation.url} HEADWATER_PORT={installation.port}")
            while (status := installation.process.poll()) is None:
                time.sleep(0.2)
            raise SetupError(f"Headwater has ended with status {status}.")

    def _endless_lines(self) -> Iterator[bytes]:
        """Yield the stream's records again and again, with the present time.

        Most records that the pipeline drops are left out, so that more results appear.
        """
        stream, watched = self._stream, set(self._stream.watched)
        for number, line in enumerate(itertools.cycle(stream.lines)):
            record: dict[str, Any] = json.loads(line)
            if number % DROPPED_EVERY == 0 or stream.expected_output(record, watched) is not None:
                if "block_timestamp" in record:
                    record["block_timestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
                yield json.dumps(record).encode()

    @contextlib.contextmanager
    def _writing(self, data_dir: Path, end: int, rate: float) -> Iterator[Future[int]]:
        """Write the next records of the stream, up to the number `end`.

        They are counted in `_sent`.
        """

        def counted() -> Iterator[bytes]:
            for line in itertools.islice(self._stream.lines, self._sent, end):
                self._sent += 1
                yield line

        with self._in_background(data_dir, self._stream.chain, self._stream.entity, counted(), rate) as writing:
            yield writing

    @contextlib.contextmanager
    def _in_background(
        self, data_dir: Path, chain: str, entity: str, lines: Iterator[bytes], rate: float
    ) -> Iterator[Future[int]]:
        """Write lines to a stream in a thread, until they end or the block ends."""
        stop = threading.Event()

        def unstopped() -> Iterator[bytes]:
            while not stop.is_set() and (line := next(lines, None)) is not None:
                yield line

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(self._write, data_dir, chain, entity, unstopped(), rate)
            try:
                yield writing
            finally:
                stop.set()
            writing.result()

    def _run(
        self, shell: Shell, command: str, results: Results | None = None, while_writing: Future[int] | None = None
    ) -> None:
        """Run a command to its end, and read results meanwhile.

        A command that shows live records is stopped when no more records are written. Raises SetupError when the
        command fails.
        """
        with shell.started(command) as process:
            if results is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(COMMAND_WITHIN_S)
            else:
                is_done = while_writing.done if while_writing else lambda: False
                results.read_while(lambda: process.poll() is None and not is_done(), COMMAND_WITHIN_S)
            status = process.poll()
        if status or (status is None and while_writing is None):
            raise SetupError(f"`{command}` has failed.")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _with_failing(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines, some of them without amounts."""
    for number, line in enumerate(lines, 1):
        yield _without_amounts(line) if number % FAILING_EVERY == 0 else line


def _without_amounts(line: bytes) -> bytes:
    record: dict[str, Any] = json.loads(line)
    return json.dumps({name: None if "amount" in name else value for name, value in record.items()}).encode()
