"""Scripts that the analysis calls stateless do not change their top-level objects.

They run in plain Deno here.
"""

import json
import subprocess
from pathlib import Path

import deno
import pytest

from headwater.sandbox.analysis.state import may_keep_state
from headwater.sandbox.analysis.tree import parse
from tests.support.generated_scripts import Generator

RUN = """
const flow = {contains: () => true};
const dump = (value, depth = 0) => {
  if (typeof value !== 'object' || value === null || depth > 6) return String(value);
  const parts = value instanceof Map || value instanceof Set ? [...value] : [];
  const members = Reflect.ownKeys(value).map((key) => [String(key), dump(value[key], depth + 1)]);
  return JSON.stringify([members, parts.map((part) => dump(part, depth + 1))]);
};
const changed = [];
for (const [number, script] of SCRIPTS.entries()) {
  const [process, state] = new Function('flow', `${script}; return [process, () => [C0, C1]];`)(flow);
  const before = dump(state());
  for (let id = 0; id < 3; id++) try { process({id, list: [[1], {n: 1}], o: {a: [], n: 1}, x: id % 2}); } catch {}
  if (dump(state()) !== before) changed.push(number);
}
console.log(JSON.stringify(changed));
"""


@pytest.mark.parametrize("count", [2_000, pytest.param(40_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_stateless_scripts_change_nothing(tmp_path: Path, count: int) -> None:
    made = [Generator(seed).script() for seed in range(count)]
    scripts = [script for script in made if not may_keep_state(parse(script))]
    assert len(scripts) > count / 20
    program = tmp_path / "program.js"
    program.write_text(f"const SCRIPTS = {json.dumps(scripts)};\n{RUN}")
    command = [deno.find_deno_bin(), "run", "--no-prompt", "--no-config", "--no-lock", "--quiet", str(program)]
    changed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert [scripts[number] for number in changed] == []
