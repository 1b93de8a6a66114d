"""The extras of the package: optional dependencies that few installations need."""

from importlib.util import find_spec

from headwater.errors import SetupError


def require_extra(extra: str, module: str, feature: str) -> None:
    """Check that an extra is installed. Raises SetupError, which says how to install it.

    Args:
        extra: The name of the extra.
        module: A module that is installed together with the extra.
        feature: What needs the extra, for the message.
    """
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # the parent package of the module is not installed
        spec = None
    if spec is None:
        raise SetupError(
            f"{feature} needs the extra `{extra}`, which is not installed. Install it: "
            f"`.venv/bin/pip install -r requirements/{extra}.txt`, or `pip install 'headwater[{extra}]'`."
        )
