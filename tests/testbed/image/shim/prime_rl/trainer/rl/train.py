"""What torchrun starts in the testbed's image: the embedded engine's trainer."""

import sys

from runtime.rl.trainer import main

if __name__ == "__main__":
    sys.exit(main())
