import { Empty } from "../common/Empty.tsx";

/** What a tab shows that needs a deployment. */
export function NotDeployed({ what }: { what: string }) {
  return (
    <Empty title="Not deployed">
      A pipeline has {what} from its first deploy on, until it is torn down.
    </Empty>
  );
}
