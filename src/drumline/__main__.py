"""`python -m drumline` is the `drumline` command."""

from drumline.cli import main

if __name__ == "__main__":
    main()
