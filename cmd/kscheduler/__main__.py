"""Runs kscheduler from an installed checkout: python cmd/kscheduler."""

from kscheduler.cli import program

program()
