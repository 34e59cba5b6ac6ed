"""`python -m localpv` is the same as `localpv`."""

from localpv.cli.main import main

main()
