"""Runs users' JavaScript in a sandboxed child process.

docs/sandbox.md explains the sandbox and its limits.
"""

from headwater.sandbox.sandbox import Sandbox
from headwater.sandbox.validation.machine_check import check_machine
from headwater.sandbox.validation.validate import trial_sandbox, validate_script

__all__ = ["Sandbox", "check_machine", "trial_sandbox", "validate_script"]
