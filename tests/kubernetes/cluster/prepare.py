"""Builds the programs and the image of the tests on Kubernetes ahead of them.

Other work has priority: `setsid python -m tests.kubernetes.cluster.prepare` runs in a session of its own, whose
priority it lowers.
"""

import sys

from headwater.children import lower_priority
from tests.kubernetes.cluster.__main__ import main

LOWEST_PRIORITY = 19

if __name__ == "__main__":
    lower_priority(LOWEST_PRIORITY)
    sys.exit(main([sys.executable, "-m", "tests.kubernetes.cluster.image_builds"]))
