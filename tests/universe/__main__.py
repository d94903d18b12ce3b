"""`python -m tests.universe NUMBER`: see `universe.campaign`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from universe.campaign import main

if __name__ == "__main__":
    sys.exit(main())
