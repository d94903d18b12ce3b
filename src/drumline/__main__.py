"""`python -m drumline` is the `drumline` command.

`-m` puts the current directory first on the search path, which the command `drumline` does not. It
is taken off again, so that a file beside a run folder is not imported in the place of a package.
"""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    from drumline.cli import main

    main()
