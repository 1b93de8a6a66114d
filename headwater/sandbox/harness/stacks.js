// Makes the stacks of errors show the script's own frames, and keeps the engine's call sites from the script: they are
// objects of the outer realm.
//
// For the text of a stack the engine calls `prepareStackTrace` of what the global object has as `Error`. So that property
// can't be redefined, and whatever a script assigns to it gets our `prepareStackTrace` before it is there.
((realm) => {
  'use strict';
  const { freeze, hidden, Text, FROZEN } = realm;
  const Wrong = TypeError, { defineProperty, isFrozen } = Object, Native = Error, SCRIPT = 'script.js', HARNESS = 'harness.js';

  const textOf = (error, key, otherwise) => {
    try {
      const value = error[key];
      return value === undefined ? otherwise : Text(value);
    } catch { return otherwise; }
  };
  const headOf = (error) => {
    const name = textOf(error, 'name', 'Error'), message = textOf(error, 'message', '');
    return name + (name !== '' && message !== '' ? ': ' : '') + message;
  };
  // Functions of the engine have no file. Below the first frame of the outer realm, whose file names are long, there is no
  // frame of the script.
  // At the end of the stack any call may fail, with an error of the outer realm too: none gets out.
  const prepareStackTrace = (error, sites) => {
    let text = '';
    try {
      text = headOf(error);
      for (let i = 0; i < sites.length; i++) {
        const file = sites[i].getFileName();
        if (file === SCRIPT) text += '\n    at ' + sites[i].toString();
        else if (typeof file === 'string' && file !== HARNESS) break;
      }
    } catch { /* what there is so far is a stack */ }
    return text;
  };
  // Every attribute is named: else a proxy may say that the property is there when it is not.
  const pin = (error) => defineProperty(error, 'prepareStackTrace', {
    __proto__: null, value: prepareStackTrace, writable: false, enumerable: false, configurable: false,
  });
  pin(Native);
  freeze(prepareStackTrace);
  hidden(Native, 'stackTraceLimit', 10);

  let current = Native;
  const get = () => current;
  const set = (value) => {
    if (isFrozen(Native)) throw new Wrong(FROZEN);
    if (typeof value === 'function' || (typeof value === 'object' && value !== null)) pin(value);
    current = value;
  };
  defineProperty(globalThis, 'Error', { __proto__: null, get: freeze(get), set: freeze(set), enumerable: false, configurable: false });
  realm.headOf = headOf;
});
