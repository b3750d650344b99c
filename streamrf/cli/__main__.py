"""`python -m streamrf.cli`; the package has registered the commands by now."""

from streamrf.cli.base import main

main()
