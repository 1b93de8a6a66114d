import { type ComponentType, lazy, type LazyExoticComponent } from "react";

const AGAIN_MS = 2_000;
const UPDATED = "The console was updated on the server. Load the page again.";

/** Loads a part of the console when it is shown first, and waits while the service does not answer. */
export function lazyPart<Props>(
  load: () => Promise<{ default: ComponentType<Props> }>,
): LazyExoticComponent<ComponentType<Props>> {
  return lazy(async () => {
    for (;;) {
      try {
        return await load();
      } catch (error) {
        if (await answers()) return await load().catch(() => throwUpdated(error));
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
  });
}

async function answers(): Promise<boolean> {
  return await fetch("/healthz").then(({ ok }) => ok, () => false);
}

function throwUpdated(cause: unknown): never {
  throw new Error(UPDATED, { cause });
}
