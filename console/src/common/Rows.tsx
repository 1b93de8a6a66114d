import { Skeleton, Stack } from "@mantine/core";

/** The shape of a table that is loading. */
export function Rows({ count = 6 }: { count?: number }) {
  return (
    <Stack gap={8} aria-label="Loading" role="status">
      {Array.from({ length: count }, (_, index) => <Skeleton key={index} height={28} />)}
    </Stack>
  );
}
