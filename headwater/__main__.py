"""The entry point of `python -m headwater`.

It has only the commands of the server. The command `headwater`, which is in `headwater_client`, also has the client's.
"""

from headwater.cli.application import app


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
