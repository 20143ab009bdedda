"""The board: a sandbox on a whole terminal, with keys to look closer and to play along.

The scheduler's cache, queue and decisions are read where they are (`cluster`), told in a line each
(`sentences`), and laid out as lines of text (`frame`, `pages`); the terminal gets the lines that
have changed and gives the keys (`terminal`, `keys`). Keys that change the cluster do so through the
sandbox's API server, as kubectl would. Open `board` first.

Pictures are drawn on the event loop, at most four a second unless a key is pressed, and none while
nothing changes; each costs as much as the terminal has lines. Textual would bring widgets, a second
dependency and its own loop; a board of three lists needs none of them.
"""
