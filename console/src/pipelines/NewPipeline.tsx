import { Button, Menu } from "@mantine/core";
import { Plus } from "lucide-react";

import { TEMPLATES } from "./templates.ts";
import { useCreate } from "./use_create.ts";

/** Begins a draft from a template. */
export function NewPipeline() {
  const create = useCreate();
  return (
    <Menu position="bottom-end" width={320}>
      <Menu.Target>
        <Button leftSection={<Plus size={14} />} loading={create.isPending}>New pipeline</Button>
      </Menu.Target>
      <Menu.Dropdown>
        {TEMPLATES.map((template) => (
          <Menu.Item
            key={template.title}
            onClick={() => create.mutate(template)}
          >
            {template.title}: {template.text}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
