import { useEffect, useState } from "react";

const DELAY_MS = 300;

/** Whether something has lasted for 300 ms: what is faster shows no loading state. */
export function useDelayed(lasts: boolean): boolean {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    if (!lasts) return setShown(false);
    const timer = setTimeout(() => setShown(true), DELAY_MS);
    return () => clearTimeout(timer);
  }, [lasts]);
  return isShown;
}
