"""`python -m chaoslab`: the same as the `chaoslab` command."""

from chaoslab.cli.main import main

if __name__ == "__main__":
    main()
