import { ErrorNotice } from "../common/ErrorNotice.tsx";

/** What a page shows that could not be drawn. */
export function RouteError({ error }: { error: unknown }) {
  const shown = error instanceof Error ? error : new Error(String(error));
  return <ErrorNotice error={shown} retry={() => location.reload()} />;
}
