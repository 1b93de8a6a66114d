"""Every shared object that is not the script's own is frozen while records are processed."""

import pytest

from headwater.sandbox import Sandbox
from tests.support.sandbox import lines, result, run

WALK = """
  const made = [[].values(), ''[Symbol.iterator](), new Map().keys(), new Set().keys(), ''.matchAll(/a/g),
    [].values().map((x) => x), Iterator.from({ next() {} }), new Intl.Segmenter().segment(''), function* () {},
    async () => {}, async function* () {}, new TextEncoder(), new TextDecoder(), new Error('x')];
  const error = Object.getOwnPropertyDescriptor(globalThis, 'Error');
  const open = [['get Error', error.get], ['set Error', error.set], ['flow', flow]];
  try { atob('%') } catch (e) { open.push(['DOMException', e.constructor]) }
  for (const one of made) open.push([Object.prototype.toString.call(one), Object.getPrototypeOf(one)]);
  for (const key of Reflect.ownKeys(globalThis)) {
    if (key !== 'process' && key !== 'globalThis') open.push([String(key), globalThis[key]]);
  }
  const seen = new Set(), soft = [];
  while (open.length) {
    const [path, value] = open.pop();
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) continue;
    seen.add(value);
    if (!Object.isFrozen(value)) soft.push(path);
    for (const key of Reflect.ownKeys(value)) {
      const found = Reflect.getOwnPropertyDescriptor(value, key);
      for (const part of ['value', 'get', 'set']) open.push([`${path}.${String(key)}.${part}`, found[part]]);
    }
    open.push([path + '.__proto__', Reflect.getPrototypeOf(value)]);
  }
  return { objects: seen.size, soft };
"""


def test_every_built_in_object_is_frozen(shared_sandbox: Sandbox) -> None:
    walked = result(shared_sandbox, WALK)
    assert walked["objects"] > 900
    assert walked["soft"] == []


@pytest.mark.parametrize(
    "built_in",
    [
        "Error.prepareStackTrace",
        "Object.getOwnPropertyDescriptor(Object.prototype, 'toString').set",
        "Object.getOwnPropertyDescriptor(TypeError.prototype, 'name').get",
        "Object.getOwnPropertyDescriptor(globalThis, 'Error').get",
        "TextDecoder.prototype.decode",
        "console.table",
    ],
)
def test_no_value_can_be_stored_on_a_built_in(shared_sandbox: Sandbox, built_in: str) -> None:
    script = f"""function process() {{
      const built = {built_in}, places = [built, built.prototype ?? built];
      const before = places.map((place) => place.kept ?? 0);
      for (const place of places) try {{ place.kept = 1 }} catch {{}}
      return {{ before }};
    }}"""
    assert run(shared_sandbox, script, lines({}, {})).outputs == [b'{"before":[0,0]}', b'{"before":[0,0]}']
