import { exact, short } from "./numbers.ts";

/** A number in its short form; the exact one is shown on hover. Without a value, a dash. Lists have hundreds of them. */
export function Figure({ value, unit = "", muted = false }: {
  value: number | null | undefined;
  unit?: string;
  muted?: boolean;
}) {
  if (value === null || value === undefined) return <span className="plain-figure dimmed">–</span>;
  return (
    <span
      className={muted || value === 0 ? "plain-figure dimmed" : "plain-figure"}
      title={`${exact(value)}${unit}`}
    >
      {short(value) + unit}
    </span>
  );
}
