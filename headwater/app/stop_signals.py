"""Turns the signals that stop a process into an event."""

import signal
import threading


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set from now on, instead of ending the process."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
