const PREFIX = "#code=";

/** The one-time code of the link that opened the page; empty without one. It is taken out of the address at once. */
export const code = location.hash.startsWith(PREFIX) ? location.hash.slice(PREFIX.length) : "";

if (code) history.replaceState(null, "", "/console/");
