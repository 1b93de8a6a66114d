"""`python -m headwater_client.cli`, which is the command `headwater`."""

from headwater_client.cli.main import main

if __name__ == "__main__":
    main()
