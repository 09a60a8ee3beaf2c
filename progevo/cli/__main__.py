"""python -m progevo.cli"""

from progevo.cli.group import main

main()
