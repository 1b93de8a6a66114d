"""The extras of the package: optional dependencies that few installations need."""

from importlib.util import find_spec

from headwater.errors import SetupError


def require_extra(extra: str, module: str, feature: str) -> None:
    """Check that an extra is installed, by one of its modules. Raises SetupError, which says how to install it.

    feature: what needs the extra, for the message.
    """
    try:
        found = find_spec(module)
    except ModuleNotFoundError:  # of a parent package
        found = None
    if found is None:
        raise SetupError(
            f"{feature} needs the extra `{extra}`, which is not installed. Install it: "
            f"`.venv/bin/pip install -r requirements/{extra}.txt`, or `pip install 'headwater[{extra}]'`."
        )
