"""Builds, starts and stops a Kubernetes cluster in network namespaces of its own."""
