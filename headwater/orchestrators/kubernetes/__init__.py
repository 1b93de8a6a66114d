"""Runs workers as Pods of Kubernetes."""

from headwater.orchestrators.kubernetes.orchestrator import KubernetesOrchestrator

__all__ = ["KubernetesOrchestrator"]
