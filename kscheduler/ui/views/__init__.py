"""Views: a module each, a function that makes the content of one page from what was read."""
