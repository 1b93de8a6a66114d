"""Runs users' JavaScript in a sandboxed child process.

docs/sandbox.md explains the sandbox and its limits.
"""

from headwater.sandbox.sandbox import Sandbox
from headwater.sandbox.validation.validate import check, validate, validation_sandbox

__all__ = ["Sandbox", "check", "validate", "validation_sandbox"]
