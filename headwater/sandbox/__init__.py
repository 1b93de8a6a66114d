"""Runs users' JavaScript in a sandboxed child process.

docs/sandbox.md explains the sandbox and its limits. The words of this package:

- segment: a part of a batch, which the child runs at once.
- realm: a JavaScript global environment of its own, with one loaded script.
- `flow.contains(dataset, values)`: the only function of the object `flow`, which looks values up in a dataset.
- lookup request: the values of a segment that the child asks the parent to look up.
- pass: one run of the records of a segment whose output is not final. A pass ends with a lookup request or the results.
- dry run: a run of a segment in a second realm, only to find the values that the script looks up.
"""

from headwater.sandbox.sandbox import Sandbox
from headwater.sandbox.validation.machine_check import check_machine
from headwater.sandbox.validation.validate import trial_sandbox, validate_script

__all__ = ["Sandbox", "check_machine", "trial_sandbox", "validate_script"]
