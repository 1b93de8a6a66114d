/** The key of shortcuts as a keyboard of this system shows it. */
export const MOD_KEY = /Mac|iPhone|iPad/.test(navigator.userAgent) ? "⌘" : "Ctrl ";
