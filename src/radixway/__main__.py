"""The `radixway` command, also as `python -m radixway`."""

import os
import signal


def main() -> None:
    """Run the command. Until a server drains at Ctrl-C, it ends the process without a word."""
    # No KeyboardInterrupt: in the middle of an import it comes out as errors of all kinds.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from radixway import cli

    cli.main()


if __name__ == "__main__":
    main()
