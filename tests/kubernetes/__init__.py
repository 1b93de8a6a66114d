"""Tests on a real Kubernetes cluster; `make test-kubernetes` runs them."""
