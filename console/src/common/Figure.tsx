import type { CSSProperties } from "react";

import { exact, short } from "./numbers.ts";

const STYLE: CSSProperties = { fontSize: "var(--mantine-font-size-sm)" };
const DIMMED: CSSProperties = { ...STYLE, color: "var(--mantine-color-dimmed)" };

/** A number in its short form; the exact one is shown on hover. Without a value, a dash. Lists have hundreds of them. */
export function Figure({ value, unit = "", muted = false }: {
  value: number | null | undefined;
  unit?: string;
  muted?: boolean;
}) {
  if (value === null || value === undefined) return <span style={DIMMED}>–</span>;
  return (
    <span style={muted || value === 0 ? DIMMED : STYLE} title={`${exact(value)}${unit}`}>
      {short(value)}
      {unit}
    </span>
  );
}
