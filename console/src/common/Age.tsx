import { duration } from "./numbers.ts";
import { useOfNow } from "./use_now.ts";

/** The age of a time; the time in UTC is shown on hover. Lists have hundreds of them. */
export function Age({ time, suffix = " ago" }: { time: string; suffix?: string }) {
  const age = useOfNow((now) => duration(Math.max(0, now - Date.parse(time))));
  return (
    <time className="plain-figure" dateTime={time} title={time}>
      {age + suffix}
    </time>
  );
}
