/** Numbers and ages as people read them. */

const UNITS: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** Formats are kept, since a new one costs more than many numbers. */
const EXACT = new Intl.NumberFormat("en-US", { maximumFractionDigits: 3 });
const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const SIX_DIGITS = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 });

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
  return EXACT.format(value);
}

/** Returns `1,234.56` or `1.235e-10`: a price with 6 significant digits, or more in front of the point. */
export function usd(value: number): string {
  if (value !== 0 && (Math.abs(value) < 1e-7 || Math.abs(value) >= 1e12)) {
    return value.toExponential(3);
  }
  return (Math.abs(value) < 1e5 ? SIX_DIGITS : WHOLE).format(value);
}

/** Returns `+1.25 %`. */
export function percent(value: number): string {
  const text = Math.abs(value) < 1000 ? value.toFixed(2) : short(value);
  return `${value > 0 ? "+" : ""}${text} %`;
}

/** Returns `0x420000…000006`: an address or a hash without its middle. */
export function middle(text: string): string {
  return text.length > 20 ? `${text.slice(0, 8)}…${text.slice(-6)}` : text;
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
