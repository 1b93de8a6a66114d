"""`python -m headwater` and the `headwater` command."""

from headwater.cli.application import app


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
