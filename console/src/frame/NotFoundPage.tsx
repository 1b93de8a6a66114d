import { Empty } from "../common/Empty.tsx";
import { LinkAnchor } from "../common/links.tsx";

export function NotFoundPage() {
  return (
    <Empty title="There is no such page">
      <LinkAnchor to="/pipelines">Go to the pipelines</LinkAnchor>
    </Empty>
  );
}
