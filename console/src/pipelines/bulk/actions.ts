import type { Flow } from "headwater-client";
import { type LucideIcon, Pause, Play, Rocket, Square } from "lucide-react";

/** What can be done with several pipelines at once. */
export interface BulkAction {
  /** The word of its button, and of its confirmation in lower case. */
  word: string;
  done: string;
  text: string;
  Icon: LucideIcon;
  color?: string;
  work: (flow: Flow) => Promise<unknown>;
}

export const BULK_ACTIONS: BulkAction[] = [
  {
    word: "Deploy",
    done: "Deployed",
    text: "The newest revision of each pipeline is deployed. A paused pipeline runs again.",
    Icon: Rocket,
    work: (flow) => flow.deploy(),
  },
  {
    word: "Pause",
    done: "Paused",
    text: "The workers end after a commit. Topics, credentials, values and positions stay.",
    Icon: Pause,
    work: (flow) => flow.pause(),
  },
  {
    word: "Resume",
    done: "Runs again",
    text: "Each pipeline continues where it was paused.",
    Icon: Play,
    work: (flow) => flow.resume(),
  },
  {
    word: "Tear down",
    done: "Torn down",
    text:
      "Workers, topics and credentials are removed, and readers lose what they have not read. Configurations and the values of filters stay.",
    Icon: Square,
    color: "red",
    work: (flow) => flow.teardown(),
  },
];
