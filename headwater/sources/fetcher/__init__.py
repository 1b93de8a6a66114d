"""Reads partitions of one topic ahead of the engine: a lane per broker fetches, a scout finds the brokers.

A partition is read in order from where it was told to, and never jumps: where it can't go on, it stops and says so.
"""

from headwater.sources.fetcher.fetcher import Fetcher as Fetcher
from headwater.sources.fetcher.shelf import Stop as Stop
