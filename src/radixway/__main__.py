"""`python -m radixway` is the `radixway` command."""

from radixway.cli import main

main()
