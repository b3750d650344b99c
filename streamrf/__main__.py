"""`python -m streamrf`, the same as the command `streamrf`."""

from streamrf.cli import main

main()
