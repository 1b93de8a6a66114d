"""Runs users' JavaScript in a locked child process. See docs/sandbox.md for the lock and its limits."""

from headwater.sandbox.supervisor import Sandbox
from headwater.sandbox.validation import check, validate

__all__ = ["Sandbox", "check", "validate"]
