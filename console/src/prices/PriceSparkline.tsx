import { Text } from "@mantine/core";

import { useHistory } from "./use_tokens.ts";

const WIDTH = 96;
const HEIGHT = 22;
const MARGIN = 3;

/** The prices of a token over the last 25 hours as a line without axes, from the lowest to the highest. */
export function PriceSparkline({ chain, address }: { chain: string; address: string }) {
  const { data: points, isPending } = useHistory(chain, address);
  if (isPending) return null;
  if (!points || points.length < 2) return <Text size="sm" c="dimmed">–</Text>;
  const times = points.map(({ timestamp }) => Date.parse(timestamp));
  const prices = points.map(({ price }) => price);
  const [low, high] = [Math.min(...prices), Math.max(...prices)];
  const [first, last] = [times[0]!, times.at(-1)!];
  const place = (value: number, from: number, to: number, size: number) =>
    (to > from ? (value - from) / (to - from) : 0.5) * (size - 2 * MARGIN) + MARGIN;
  const line = prices.map((price, index) =>
    `${place(times[index]!, first, last, WIDTH).toFixed(1)},${
      (HEIGHT - place(price, low, high, HEIGHT)).toFixed(1)
    }`
  );
  return (
    <svg
      width={WIDTH}
      height={HEIGHT}
      display="block"
      role="img"
      aria-label="Prices of the last day"
    >
      <polyline
        points={line.join(" ")}
        fill="none"
        stroke="var(--mantine-color-water-text)"
        strokeWidth={1.25}
        strokeLinejoin="round"
      />
    </svg>
  );
}
