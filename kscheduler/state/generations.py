"""A number for every change, never the same twice, whichever table or fork changed."""

from itertools import count

next_generation = count(1).__next__
