"""Turns the signals that stop a process into an event."""

import signal
import threading
from typing import Final

STOP_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM})


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set from now on, instead of ending the process.

    If these signals are blocked, they are unblocked. A signal that arrived while it was blocked sets the event.
    """
    stop = threading.Event()
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: stop.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    return stop
