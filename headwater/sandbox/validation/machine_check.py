"""Checks that this machine can run the sandbox."""

import os
import platform
import sys

from headwater.errors import HeadwaterError, SandboxFailed, SetupError
from headwater.sandbox.launcher import landlock
from headwater.sandbox.validation.validate import validate_script


def check_machine(*, jit: bool = False) -> None:
    """Check the platform and the kernel, and run a script in a sandbox.

    Raises SetupError, with advice, when the sandbox can't be set up.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise SetupError(
            "Scripts run in a sandbox that needs Linux on x86-64; "
            f"this machine is {sys.platform} on {platform.machine()}. Run Headwater on Linux on x86-64."
        )
    _check_kernel()
    try:
        warnings = validate_script("function process(record: object) { return record }", "{}", jit=jit).warnings
    except HeadwaterError as error:
        raise SetupError(_advice(error)) from error
    if warnings:
        raise SetupError(f"The sandbox does not run scripts as it should: {warnings[0]}")


def _check_kernel() -> None:
    try:
        landlock.version()
    except OSError as error:
        raise SetupError(
            f"The kernel {os.uname().release} has no Landlock ({error.strerror}), which keeps scripts from files. Use "
            "Linux 5.13 or newer with `landlock` in the boot parameter `lsm=`, and a container profile that allows it."
        ) from error
    try:
        landlock.libraries()
    except FileNotFoundError as error:
        raise SetupError(
            f"The library {error.filename} is not where glibc systems have it. Scripts run on Linux with glibc; "
            "musl (Alpine) is not supported."
        ) from error
    if not landlock.LOADER.exists():
        raise SetupError(f"{landlock.LOADER} is missing: scripts run on Linux with glibc; musl is not supported.")


def _advice(error: HeadwaterError) -> str:
    if not isinstance(error, SandboxFailed):
        return f"The sandbox does not run scripts as it should: {error.detail}"
    if "seccomp" in error.detail:
        return (
            f"{error.detail} The kernel or the container's profile does not let a process filter its own system calls, "
            "or a filter with a listener is in force already. Run Headwater where seccomp user notification is allowed."
        )
    return error.detail
