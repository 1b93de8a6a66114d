"""The entry point of a worker process.

It prevents the import of optional modules that workers do not use. It also blocks SIGTERM and SIGINT, so that they stay
pending until the worker has handlers for them. Otherwise a signal during the start would kill a local worker, and Linux
would discard it for the first process of a container.
"""

import signal
import sys

from headwater.app.stop_signals import STOP_SIGNALS

signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)

for name in ("rich", "opentelemetry.sdk"):
    # structlog and redis-py import these modules when they are installed. A None in sys.modules makes the import fail,
    # so they count as not installed. This saves each worker 6 MB.
    sys.modules[name] = None  # type: ignore[assignment]

from headwater.app.build_worker import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
