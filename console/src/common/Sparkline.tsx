import { memo } from "react";

const WIDTH = 48;
const HEIGHT = 22;
const MARGIN = 2;

/** The paths of counts that are in use. A row that is scrolled into sight again finds its path. */
const paths = new WeakMap<number[], string>();

/** A line of counts per minute without axes. */
export const Sparkline = memo(function Sparkline({ values, color, label }: {
  values: number[];
  color: string;
  label: string;
}) {
  return (
    <svg
      className={`plain-sparkline ${color}`}
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={label}
    >
      <path d={pathOf(values)} />
    </svg>
  );
});

function pathOf(values: number[]): string {
  let path = paths.get(values);
  if (path === undefined) {
    const most = Math.max(...values, 1);
    const step = WIDTH / Math.max(values.length - 1, 1);
    const points = values.map((value, index) =>
      `${tenth(index * step)} ${tenth(HEIGHT - MARGIN - (value / most) * (HEIGHT - 2 * MARGIN))}`
    );
    path = points.length ? `M${points.join("L")}` : "";
    paths.set(values, path);
  }
  return path;
}

function tenth(value: number): number {
  return Math.round(value * 10) / 10;
}
