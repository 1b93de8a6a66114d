"""Converts ACLs to the ACL bindings of the Kafka client."""

from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from headwater.brokers.base import Acl

_PRINCIPAL: Final = "User:"


def acl_bindings(acls: Iterable[Acl]) -> list[AclBinding]:
    """Return the bindings of these ACLs, one for each operation, without repeats."""
    return list(dict.fromkeys(_binding(acl, operation) for acl in acls for operation in acl.operations))


def _binding(acl: Acl, operation: str) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if acl.prefixed else ResourcePatternType.LITERAL
    return AclBinding(
        ResourceType[acl.resource.upper()],
        acl.name,
        pattern,
        _PRINCIPAL + acl.user,
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


def filter_of_binding(binding: AclBinding) -> AclBindingFilter:
    """Return the filter that matches exactly this ACL."""
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )


def filter_of_user(user: str | None) -> AclBindingFilter:
    """Return the filter that matches the ACLs of a user; None matches the ACLs of all users."""
    anything: Any = None  # None is a wildcard, which confluent-kafka's type hints leave out
    principal = anything if user is None else _PRINCIPAL + user
    return AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        principal,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def topics_by_user(bindings: Iterable[AclBinding]) -> dict[str, frozenset[str]]:
    """Return by user the topics that the user's ACLs name, possibly none."""
    names: dict[str, set[str]] = {}
    for binding in bindings:
        topics = names.setdefault(binding.principal.removeprefix(_PRINCIPAL), set())
        if binding.restype is ResourceType.TOPIC:
            topics.add(binding.name)
    return {user: frozenset(topics) for user, topics in names.items()}
