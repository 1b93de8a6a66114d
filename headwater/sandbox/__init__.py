"""Runs users' JavaScript in a locked child process. See docs/sandbox.md for the lock and its limits."""

from headwater.sandbox.supervisor import Sandbox
from headwater.sandbox.validation import check, sandbox_for_a_check, validate

__all__ = ["Sandbox", "check", "sandbox_for_a_check", "validate"]
