/** Numbers and ages as people read them. */

const UNITS: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** Returns `12.4 k` for 12,431. */
export function short(value: number): string {
  const [size, unit] = UNITS.find(([limit]) => Math.abs(value) >= limit) ?? [1, ""];
  const scaled = value / size;
  const digits = unit === ""
    ? (Number.isInteger(scaled) || scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2)
    : scaled >= 100
    ? 0
    : 1;
  return scaled.toFixed(digits) + (unit && ` ${unit}`);
}

/** Returns `12,431`. */
export function exact(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 3 });
}

/** Returns `350 ms`, `3 s`, `5 min`, `2 h` or `4 d`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 90) {
    return `${seconds < 10 ? seconds.toFixed(1).replace(".0", "") : Math.round(seconds)} s`;
  }
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** Returns the average per second of the last whole minutes of a series of counts per minute. */
export function recentRate(counts: number[], minutes = 5): number {
  const whole = counts.slice(-minutes - 1, -1);
  return whole.length ? sum(whole) / whole.length / 60 : 0;
}

export function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
