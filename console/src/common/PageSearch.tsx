import { CloseButton, TextInput } from "@mantine/core";
import { Search } from "lucide-react";

/** The field that the key `/` reaches. */
export const PAGE_SEARCH = "page-search";

/** The search of a page. */
export function PageSearch({ label, placeholder, text, change }: {
  label: string;
  placeholder: string;
  text: string;
  change: (text: string) => void;
}) {
  return (
    <TextInput
      id={PAGE_SEARCH}
      aria-label={label}
      placeholder={placeholder}
      leftSection={<Search size={14} />}
      rightSection={text && <CloseButton size="xs" aria-label="Clear" onClick={() => change("")} />}
      value={text}
      onChange={(event) => change(event.currentTarget.value)}
      w={220}
    />
  );
}
