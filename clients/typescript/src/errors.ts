/**
 * The errors of the client.
 *
 * HeadwaterError
 * ├── Ambiguous                 several pipelines have the name
 * ├── ConnectionFailed          no response arrived
 * │   └── TimedOut              the server did not respond in time
 * ├── UnexpectedResponse        the response is not what the API describes
 * └── RequestFailed             the server refused the request; `.problem` is its document
 *     ├── Unauthenticated       401
 *     ├── NotAllowed            403
 *     │   └── QuotaExceeded     403; `.used`, `.allowed`
 *     ├── NotFound              404
 *     ├── Conflict              409
 *     │   └── Unreadable        409
 *     ├── RevisionChanged       412
 *     ├── Unprocessable         422; `.errors`
 *     │   └── DeployFailed      422; `.reason`
 *     ├── RateLimited           429; `.retryAfter`
 *     ├── Unavailable           503; `.retryAfter`
 *     │   └── DeployPending     503
 *     └── ServerError           another 5xx
 */

import type { Deployment, Fault, Problem } from "./types.ts";

const PROBLEM_TYPE = "urn:headwater:problem:";

/** Base of all errors of the client. */
export class HeadwaterError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Several pipelines have the name. */
export class Ambiguous extends HeadwaterError {
  /**
   * @param text The name.
   * @param ids The ids of the pipelines.
   */
  constructor(readonly text: string, readonly ids: string[]) {
    super(`${ids.length} pipelines have the name "${text}". Use the id or the external id of one.`);
  }
}

/** The server can't be reached, or the connection ended before the response had arrived. */
export class ConnectionFailed extends HeadwaterError {}

/** The server did not respond in time. The request may have been executed. */
export class TimedOut extends ConnectionFailed {}

/** The response is not what the API describes. The URL may belong to another server. */
export class UnexpectedResponse extends HeadwaterError {}

/** The server refused the request. */
export class RequestFailed extends HeadwaterError {
  /**
   * @param problem The problem document of the response.
   * @param retryAfter The seconds after which the server wants the request to be repeated.
   */
  constructor(readonly problem: Problem, readonly retryAfter?: number) {
    super(problem.detail || problem.title);
  }
}

/** The API key is missing, unknown, expired or revoked. */
export class Unauthenticated extends RequestFailed {}

/** The API key lacks a scope, which the message names. */
export class NotAllowed extends RequestFailed {}

/** The request would exceed a quota. */
export class QuotaExceeded extends NotAllowed {
  /** The present usage; null for a quota that all owners share. */
  get used(): number | null {
    return this.problem.used ?? null;
  }

  /** The limit. */
  get allowed(): number | null {
    return this.problem.allowed ?? null;
  }
}

/** The object does not exist, or belongs to another owner. */
export class NotFound extends RequestFailed {}

/** The request is not possible in the present state of the object. */
export class Conflict extends RequestFailed {}

/** The server can't read the stored configuration or deployment, and says what to do. */
export class Unreadable extends Conflict {}

/** Another client has changed the configuration since it was read. Read it again. */
export class RevisionChanged extends RequestFailed {}

/** The request breaks a rule. */
export class Unprocessable extends RequestFailed {
  /** Each fault, with a JSON pointer into the body. */
  get errors(): Fault[] {
    return this.problem.errors ?? [];
  }
}

/** A deploy, resume or rewind has failed, or the revision was rolled back. */
export class DeployFailed extends Unprocessable {
  /** The deployment whose rollout failed or was rolled back; undefined when the request itself has failed. */
  deployment?: Deployment;

  /** Why. */
  get reason(): string {
    return this.problem.detail;
  }
}

/** A limit on requests, open tails or waiting calls is exceeded; the message says which. */
export class RateLimited extends RequestFailed {}

/** The server, or a service that it needs, is unavailable. */
export class Unavailable extends RequestFailed {}

/** A change of a deployment is in progress, such as a deploy, rewind or teardown. */
export class DeployPending extends Unavailable {}

/** The server has failed. Report it with the `request_id` of the problem. */
export class ServerError extends RequestFailed {}

type Kind = new (problem: Problem, retryAfter?: number) => RequestFailed;

const BY_TYPE: Record<string, Kind> = {
  "quota": QuotaExceeded,
  "unreadable": Unreadable,
  "deploy-failed": DeployFailed,
  "deploy-pending": DeployPending,
};
const BY_STATUS: Record<number, Kind> = {
  401: Unauthenticated,
  403: NotAllowed,
  404: NotFound,
  409: Conflict,
  412: RevisionChanged,
  422: Unprocessable,
  429: RateLimited,
  503: Unavailable,
};

/** Returns the error for a response with an error status. */
export function errorOf(status: number, headers: Headers, body: string): RequestFailed {
  const problem = problemOf(status, body);
  const kind = BY_TYPE[problem.type.replace(PROBLEM_TYPE, "")] ?? BY_STATUS[status] ??
    (status >= 500 ? ServerError : RequestFailed);
  const retryAfter = Number.parseFloat(headers.get("Retry-After") ?? "");
  return new kind(problem, Number.isNaN(retryAfter) ? undefined : Math.max(0, retryAfter));
}

/** Returns the problem document; a proxy's own error has none. */
function problemOf(status: number, body: string): Problem {
  const empty = {
    type: "",
    title: `HTTP status ${status}`,
    detail: "",
    instance: "",
    request_id: "",
  };
  try {
    const document = JSON.parse(body);
    if (document && typeof document === "object") return { ...empty, status, ...document };
  } catch {
    // The body is no JSON: its text is the detail.
  }
  return { ...empty, status, detail: body.slice(0, 300).trim() };
}
