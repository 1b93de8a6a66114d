"""Scripts in a Deno of their own, with a true `flow.contains`."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import deno

_FLOW = """
const contains = (name, values) => {
  if (!(name in MEMBERS)) throw Object.assign(new Error(name), {name: 'UnknownDataset'});
  return values.some((value) => MEMBERS[name].includes(String(value).toLowerCase()));
};
globalThis.flow = {contains};
"""
_RUN = """
const made = RECORDS.map((record) => {
  try {
    const result = process(record);
    const outputs = result === null || result === undefined ? [] : Array.isArray(result) ? result : [result];
    return outputs.map((output) => JSON.stringify(output));
  } catch (error) { return [error.name]; }
});
console.log(JSON.stringify(made));
"""


def plain_deno(
    script: str, records: Sequence[Mapping[str, Any]], members: Mapping[str, Sequence[str]], directory: Path
) -> list[list[str]]:
    """Per record its outputs as JSON texts, or the name of its error, of records that run in order."""
    program = directory / "program.js"
    given = f"const MEMBERS = {json.dumps(members)}, RECORDS = {json.dumps(records)};"
    load = f"const process = (0, eval)({json.dumps(script + chr(10) + ';process')});"
    program.write_text(f"{given}\n{_FLOW}\n{load}\n{_RUN}")
    command = [deno.find_deno_bin(), "run", "--no-prompt", "--no-config", "--no-lock", "--quiet", str(program)]
    made: list[list[str]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return made
