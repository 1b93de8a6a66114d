"""Runs users' JavaScript in a sandboxed child process.

docs/sandbox.md explains the sandbox and its limits. The words of this package:

- segment: records of a batch that the parent sends to the child together, in one frame.
- realm: a JavaScript global environment of its own, with one loaded script.
- `flow.contains(dataset, values)`: the only function of the object `flow`, which looks values up in a dataset.
- lookup request: the values of a segment that the child asks the parent to look up.
- assumed answer: `flow.contains` returns false for a value whose answer is not known yet. A record that got a wrong
  assumed answer runs again. The output of a record is final when none of its assumed answers was wrong.
- pass: one run of those records of a segment that have no final output yet. A pass ends with a lookup request or the
  results.
- blocking script: a script that can call `flow.contains` and may keep state. It must not get assumed answers, so it
  blocks in each call of `flow.contains` until the answer is known (see analysed_script.py).
- dry run: a run of a segment in a second realm, only to find the values that the script looks up.
"""

from headwater.sandbox.sandbox import Sandbox
from headwater.sandbox.validation.machine_check import check_machine
from headwater.sandbox.validation.validate import trial_sandbox, validate_script

__all__ = ["Sandbox", "check_machine", "trial_sandbox", "validate_script"]
