"""Pages of the documentation that have a part written by a program."""


class UnmarkedPageError(Exception):
    """The page has no place for what is to be written."""


def replaced(page: str, mark: str, text: str) -> str:
    """The page with this text between `<!-- mark: begin -->` and `<!-- mark: end -->`."""
    first, last = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise UnmarkedPageError(f"there must be {first} and {last}")
    return f"{before}{first}\n\n{text}\n\n{last}{after}"
