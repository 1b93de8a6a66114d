"""Faults and warnings that the checks of a configuration find."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.errors import Fault, InvalidInput


@dataclass(slots=True)
class Findings:
    """The faults, the warnings and the new sets that the checks of a request have found so far.

    All JSON pointers refer to the request body.

    Attributes:
        initial_values: The initial values of new sets, by the uid of the transform.
        new_filter_pointers: The pointers of the transforms that get a new set.
    """

    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)
    initial_values: dict[str, list[str]] = field(default_factory=dict)
    new_filter_pointers: list[str] = field(default_factory=list)

    def add_fault(self, pointer: str, detail: str) -> None:
        """Add a fault."""
        self.faults.append(Fault(pointer, detail))

    def add_warning(self, pointer: str, detail: str) -> None:
        """Add a warning."""
        self.warnings.append(Fault(pointer, detail))

    def raise_faults(self) -> None:
        """Raise InvalidInput with all faults, if there are any."""
        if self.faults:
            raise InvalidInput("The configuration is not valid.", self.faults)


def with_prefix(prefix: str, faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults of a part of the request body as faults of the body.

    Args:
        prefix: The JSON pointer of the part.
        faults: The faults, with pointers that are relative to the part.
    """
    return [Fault(prefix + fault.pointer, fault.detail) for fault in faults]
