"""Where a worker's process begins: it does without what its libraries load for other programs."""

import sys

for name in ("rich", "opentelemetry.sdk"):
    # structlog and redis-py load these only because other parts of the package need them. A module that is None counts
    # as not installed; before anything else is imported, that spares each worker 6 MB.
    sys.modules[name] = None  # type: ignore[assignment]

from headwater.app.worker import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
