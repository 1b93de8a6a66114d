"""Serves Prometheus metrics."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from headwater.app.wsgi_server import serve
from headwater.errors import SetupError


@contextmanager
def serve_metrics(port: int, collector: Collector, setting: str, host: str = "127.0.0.1") -> Iterator[None]:
    """Serve metrics at http://<host>:<port>/metrics during the block.

    Raises SetupError when the port is in use.

    Args:
        port: The port; 0 serves nothing.
        collector: Collects the metrics.
        setting: Where the user sets the port, for the message of the error.
        host: The address to listen on.
    """
    if not port:
        yield
        return
    registry = CollectorRegistry()
    registry.register(collector)
    with ExitStack() as stack:
        try:
            stack.enter_context(serve(host, port, make_wsgi_app(registry)))
        except OSError as error:
            reason = error.strerror or error
            raise SetupError(
                f"Metrics can't be served on {host}:{port} ({reason}). Choose another port with {setting}."
            ) from error
        yield
