// Finds the built-in class of an object by its internal slots, which a script can't fake.
((helpers) => {
  'use strict';
  const { uncurry, slice } = helpers;
  const { getOwnPropertyDescriptor: descriptor, getPrototypeOf } = Reflect, { isView } = ArrayBuffer;
  const getter = (prototype, key) => uncurry(descriptor(prototype, key).get);
  const tagOf = uncurry(Object.prototype.toString), Typed = getPrototypeOf(Uint8Array.prototype);
  const typedName = getter(Typed, Symbol.toStringTag), lengthOf = getter(Typed, 'length');
  // Each getter throws a TypeError unless its argument is an instance of that built-in class.
  const probes = {
    __proto__: null, Map: getter(Map.prototype, 'size'), Set: getter(Set.prototype, 'size'),
    ArrayBuffer: getter(ArrayBuffer.prototype, 'byteLength'), RegExp: getter(RegExp.prototype, 'source'),
    Date: uncurry(Date.prototype.getTime), Boolean: uncurry(Boolean.prototype.valueOf), Number: uncurry(Number.prototype.valueOf),
    String: uncurry(String.prototype.valueOf), BigInt: uncurry(BigInt.prototype.valueOf), Symbol: uncurry(Symbol.prototype.valueOf),
  };
  const tag = (value) => {
    try { return slice(tagOf(value), 8, -1); } catch { return 'Object'; }
  };
  // Returns the name of the built-in class; '' for a plain object, an instance of a script's class, an array or an error.
  const kindOf = (value) => {
    if (isView(value)) return typedName(value) ?? 'DataView';
    const name = tag(value), probe = probes[name];
    if (probe === undefined) return '';
    try { probe(value); } catch { return ''; }
    return name;
  };
  Object.assign(helpers, { getter, tag, kindOf, typedName, lengthOf });
});
