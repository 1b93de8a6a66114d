// Makes a value of a description, and says what became of a structured clone of it.
const make = ([kind, ...parts], open) => {
  const inner = (value) => { open.push(value); return value };
  switch (kind) {
    case 'value': return parts[0];
    case 'special': return { undefined: undefined, nan: NaN, zero: -0, big: 2n ** 70n, infinity: -Infinity }[parts[0]];
    case 'up': return open[parts[0] % open.length];
    case 'array': { const made = inner([]); parts.forEach((part, i) => { made[i * 2] = make(part, open) }); return made }
    case 'named array': return Object.defineProperty(Object.assign(inner([1]), { x: 3 }), 'map', { value: 2, enumerable: true });
    case 'object': { const made = inner({}); for (const [key, part] of parts) Object.defineProperty(made, key,
      { value: make(part, open), enumerable: key !== 'hidden', writable: true, configurable: true }); return made }
    case 'map': { const made = inner(new Map()); for (const [key, part] of parts) made.set(key, make(part, open)).set(make(part, open), 1);
      return made }
    case 'set': { const made = inner(new Set()); for (const part of parts) made.add(make(part, open)); return made }
    case 'date': return inner(new Date(parts[0]));
    case 'regexp': return inner(new RegExp('a.b', parts[0]));
    case 'wrapped': return inner(Object([5, 'text', true, 7n][parts[0]]));
    case 'error': { const [name, message, cause] = parts; return inner(Object.assign(new globalThis[name](message, cause ? { cause } : {}), { extra: 1 })) }
    case 'class': return inner(new (class Own { a = 1; get b() { return 2 } })());
    case 'getter': return inner({ get a() { return [1] } });
    case 'bytes': return inner(new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]).buffer);
    case 'view': { const buffer = make(['bytes'], open); return inner(parts[0] === 'DataView' ? new DataView(buffer, 8, 3) : new globalThis[parts[0]](buffer, 8, 1)) }
    case 'refused': return inner([() => 1, Symbol('s'), Object(Symbol('s')), new WeakMap(), new WeakSet(), Promise.resolve(), (function* () {})(),
      new Map().keys(), Math.max, class {}][parts[0]]);
  }
};
const described = (value, seen) => {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value !== 'object' || value === null) return typeof value === 'bigint' ? value + 'n' : Object.is(value, -0) ? '-0' : String(value);
  if (seen.includes(value)) return '#' + seen.indexOf(value);
  seen.push(value);
  const tag = Object.prototype.toString.call(value), own = Object.getPrototypeOf(value)?.constructor?.name;
  const inside = value instanceof Map ? [...value].flat() : value instanceof Set ? [...value]
    : value instanceof Error ? [value.name, value.message, value.cause, Object.hasOwn(value, 'message')]
    : ArrayBuffer.isView(value) ? [value.byteOffset, value.byteLength, value.buffer]
    : value instanceof ArrayBuffer ? [...new Uint8Array(value)] : value instanceof Date ? [value.getTime()]
    : value instanceof RegExp ? [String(value), value.lastIndex] : Array.isArray(value) ? [value.length] : [typeof value.valueOf(), String(value)];
  const members = ArrayBuffer.isView(value) ? [] : Object.entries(value).map(([key, member]) => key + '=' + described(member, seen));
  return tag + own + '(' + inside.map((one) => described(one, seen)) + '|' + members + ')';
};
function process({ spec }) {
  const value = make(spec, [null]);
  try {
    const copy = structuredClone(value), before = described(value, []), made = described(copy, []);
    return { made, apart: typeof value !== 'object' || value === null || copy !== value, before };
  } catch (error) { return { error: error.name, code: error.code, is: error instanceof Error } }
}
