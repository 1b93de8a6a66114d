/** The nonce of this page, which the policy of the server asks of every style that a script adds. */
export const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ??
  "";

// Libraries that add styles for locked scrolling read the nonce from this name.
Object.assign(globalThis, { __webpack_nonce__: nonce });
