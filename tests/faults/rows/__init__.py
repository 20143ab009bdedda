"""The rows of the matrix, by number: `api_server` and `watches` are good ones to begin with."""

from tests.faults.row import Row
from tests.faults.rows import api_server, rivals, watches

ROWS: dict[int, Row] = {
    row.number: row
    for row in sorted((*api_server.ROWS, *watches.ROWS, *rivals.ROWS), key=lambda row: row.number)
}
# What `make test` runs, on the embedded API server.
SELECTION = (1, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14, 15)
