import { short } from "../../common/numbers.ts";

/** A line between two boxes: its width grows with the logarithm of the rate. */
export function Edge({ from: [x1, y1], to: [x2, y2], rate }: {
  from: [number, number];
  to: [number, number];
  rate: number | undefined;
}) {
  const middle = (x1 + x2) / 2;
  const [x, y] = y1 === y2 ? [middle, y1] : [(x1 + 2 * x2) / 3, y2];
  const width = rate ? Math.min(8, 1 + 1.5 * Math.log10(1 + rate)) : 1;
  return (
    <g>
      <path
        d={`M ${x1} ${y1} C ${middle} ${y1}, ${middle} ${y2}, ${x2} ${y2}`}
        fill="none"
        stroke={rate ? "var(--mantine-color-water-text)" : "var(--mantine-color-default-border)"}
        strokeWidth={width}
        {...(rate === undefined ? { strokeDasharray: "4 4" } : {})}
      />
      {rate !== undefined && (
        <text
          x={x}
          y={y - width / 2 - 5}
          textAnchor="middle"
          fontSize={12}
          fill="var(--mantine-color-text)"
        >
          {short(rate)}/s
        </text>
      )}
    </g>
  );
}
