"""Lets `python -m kscheduler` do what the command does."""

from kscheduler.cli import program

program()
