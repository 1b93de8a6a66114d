import {
  ConnectionFailed,
  RateLimited,
  RequestFailed,
  ServerError,
  TimedOut,
  Unavailable,
} from "headwater-client";

/** Whether the same request may succeed later. */
export function isTemporary(error: unknown): boolean {
  return error instanceof ConnectionFailed || error instanceof Unavailable ||
    error instanceof RateLimited || error instanceof ServerError;
}

/** Returns what is wrong, in words for people. */
export function textOf(error: Error): string {
  if (error instanceof TimedOut) return "The service did not answer in time.";
  if (error instanceof ConnectionFailed) return "There is no connection to the service.";
  if (error instanceof RequestFailed && !error.problem.type) {
    return `Something between this page and the service has answered with ${error.problem.title}.`;
  }
  return error.message;
}
