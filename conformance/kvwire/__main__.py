"""``python -m kvwire``."""

from kvwire.cli import entry

if __name__ == "__main__":
    entry()
