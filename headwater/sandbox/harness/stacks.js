// Limits error stacks to the script's own frames, and hides V8's call sites from the script, because they are objects of
// the outer realm.
//
// To format a stack, V8 calls `globalThis.Error.prepareStackTrace`. So `globalThis.Error` is an accessor that can't be
// redefined, and any object that a script assigns to it first gets this file's `prepareStackTrace`.
((helpers) => {
  'use strict';
  const { freeze, hidden, NativeString, FROZEN } = helpers;
  const NativeTypeError = TypeError, { defineProperty, isFrozen } = Object, NativeError = Error, SCRIPT = 'script.js', HARNESS = 'harness.js';

  const textOf = (error, key, otherwise) => {
    try {
      const value = error[key];
      return value === undefined ? otherwise : NativeString(value);
    } catch { return otherwise; }
  };
  const headOf = (error) => {
    const name = textOf(error, 'name', 'Error'), message = textOf(error, 'message', '');
    return name + (name !== '' && message !== '' ? ': ' : '') + message;
  };
  // Built-in functions have no file. The first frame of the outer realm (its file is a data: URL) is below all frames of
  // the script. Near a stack overflow any call may throw, even an error of the outer realm: catch all of them here.
  const prepareStackTrace = (error, sites) => {
    let text = '';
    try {
      text = headOf(error);
      for (let i = 0; i < sites.length; i++) {
        const file = sites[i].getFileName();
        if (file === SCRIPT) text += '\n    at ' + sites[i].toString();
        else if (typeof file === 'string' && file !== HARNESS) break;
      }
    } catch { /* return the text so far */ }
    return text;
  };
  // All four attributes are given: with fewer, a Proxy could claim to have the property without having it.
  const pin = (error) => defineProperty(error, 'prepareStackTrace', {
    __proto__: null, value: prepareStackTrace, writable: false, enumerable: false, configurable: false,
  });
  pin(NativeError);
  freeze(prepareStackTrace);
  hidden(NativeError, 'stackTraceLimit', 10);

  let current = NativeError;
  const get = () => current;
  const set = (value) => {
    if (isFrozen(NativeError)) throw new NativeTypeError(FROZEN);
    if (typeof value === 'function' || (typeof value === 'object' && value !== null)) pin(value);
    current = value;
  };
  defineProperty(globalThis, 'Error', { __proto__: null, get: freeze(get), set: freeze(set), enumerable: false, configurable: false });
  helpers.headOf = headOf;
});
