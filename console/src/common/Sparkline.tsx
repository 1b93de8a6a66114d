import { memo } from "react";

export const SPARKLINE_WIDTH = 96;
export const SPARKLINE_HEIGHT = 22;
const [WIDTH, HEIGHT] = [SPARKLINE_WIDTH, SPARKLINE_HEIGHT];

/** A line of counts per minute without axes. */
export const Sparkline = memo(function Sparkline({ values, color, label, width = WIDTH }: {
  values: number[];
  color: string;
  label: string;
  width?: number;
}) {
  const most = Math.max(...values, 1);
  const step = width / Math.max(values.length - 1, 1);
  const points = values.map((value, index) =>
    `${(index * step).toFixed(1)},${(HEIGHT - 2 - (value / most) * (HEIGHT - 4)).toFixed(1)}`
  );
  return (
    <svg width={width} height={HEIGHT} role="img" aria-label={label}>
      <polyline
        points={points.join(" ")}
        fill="none"
        stroke={`var(--mantine-color-${color}-text)`}
        strokeWidth={1.25}
        strokeLinejoin="round"
      />
    </svg>
  );
}, (one, other) => one.color === other.color && one.values.join() === other.values.join());
