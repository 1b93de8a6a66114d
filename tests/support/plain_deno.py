"""Runs scripts in plain Deno with a simple implementation of `flow.contains`."""

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
const outputs = RECORDS.map((record) => {
  try {
    const result = process(record);
    const outputs = result === null || result === undefined ? [] : Array.isArray(result) ? result : [result];
    return outputs.map((output) => JSON.stringify(output));
  } catch (error) { return [error.name]; }
});
console.log(JSON.stringify(outputs));
"""


def plain_deno(
    script: str, records: Sequence[Mapping[str, Any]], members: Mapping[str, Sequence[str]], directory: Path
) -> list[list[str]]:
    """Run a script on records in order.

    Return for each record its outputs as JSON, or the name of its error.
    """
    program = directory / "program.js"
    constants = f"const MEMBERS = {json.dumps(members)}, RECORDS = {json.dumps(records)};"
    load = f"const process = (0, eval)({json.dumps(script + chr(10) + ';process')});"
    program.write_text(f"{constants}\n{_FLOW}\n{load}\n{_RUN}")
    command = [deno.find_deno_bin(), "run", "--no-prompt", "--no-config", "--no-lock", "--quiet", str(program)]
    outputs: list[list[str]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return outputs
