"""`python -m progevo` is the command `progevo`."""

from progevo.cli import main

main()
