"""Runs the daemon from an installed checkout: python cmd/kscheduler."""

from kscheduler.cli import main

main()
