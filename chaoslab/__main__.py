"""`python -m chaoslab`: the same as the `chaoslab` command."""

from chaoslab.cli import main

if __name__ == "__main__":
    main()
