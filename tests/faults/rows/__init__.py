"""The rows of the matrix, by number: `api_server` and `watches` are good ones to begin with."""

from tests.faults.row import Row
from tests.faults.rows import (
    api_server,
    clocks,
    credentials,
    crowds,
    kills,
    leases,
    memory,
    outputs,
    plugins,
    restarts,
    rivals,
    watches,
)

MODULES = (
    api_server,
    watches,
    leases,
    clocks,
    kills,
    restarts,
    credentials,
    plugins,
    crowds,
    outputs,
    memory,
    rivals,
)
ROWS: dict[int, Row] = {
    row.number: row
    for row in sorted((row for one in MODULES for row in one.ROWS), key=lambda row: row.number)
}
# What `make test` runs, on the embedded API server.
SELECTION = (1, 4, 6, 7, 8, 9, 10, 13, 14, 15, 20)
