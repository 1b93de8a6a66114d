import { useSyncExternalStore } from "react";

const EVERY_MS = 1000;
let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, EVERY_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** Returns the time in milliseconds, once a second; all components share one timer. */
export function useNow(): number {
  return useOfNow((time) => time);
}

/** Returns a value that depends on the time. The component is drawn again only when the value changes. */
export function useOfNow<Value>(valueOf: (now: number) => Value): Value {
  return useSyncExternalStore(subscribe, () => valueOf(now));
}
