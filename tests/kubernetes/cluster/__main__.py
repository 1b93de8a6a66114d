"""Runs a command in the enclosure of the tests on Kubernetes.

`python -m tests.kubernetes.cluster COMMAND...` builds the cluster's programs first, if they are missing.
"""

import os
import sys
from collections.abc import Sequence

from tests.kubernetes.cluster import enclosure
from tests.kubernetes.cluster.programs import built, missing


def main(command: Sequence[str]) -> int:
    """Run a command, and return its exit status.

    On a machine that can't run the cluster, say why instead. This fails in CI only.
    """
    if reason := missing():
        print(reason)
        return 1 if os.environ.get("CI") else 0
    built()
    return enclosure.run(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
