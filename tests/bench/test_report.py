from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.bench import tables
from tests.bench.chart import chart
from tests.bench.contestants import FLOOR, OURS, THEIRS
from tests.bench.report import README, ROOT, SHORT_MARK, in_short, main
from tests.bench.results import STEADY, STOCK_LIMITS, Case, Results, Run
from tests.bench.sample import measured
from tests.bench.summary import standings
from tests.kit.pages import replaced

STEADY_CASE = Case("mixed", 5000, 2000, STEADY, "half")
LINES = [
    measured(THEIRS, 300),
    measured(OURS, 900),
    measured(FLOOR, 1400),
    measured(THEIRS, 80, Case("affinity <zone> & more", 5000, 3000)),
    measured(THEIRS, 150, STEADY_CASE),
    measured(OURS, 150, STEADY_CASE),
    measured(THEIRS, 50, Case("plain", 5000, 1000, STOCK_LIMITS)),
]
RUN = Run(
    at="2026-01-02T03:04:05Z",
    processor="Abacus",
    cores=2,
    memory_gigabytes=24.0,
    system="Linux 6",
    python="3.11.7",
    commit="abc1234",
    versions={OURS: "Kubernetes v1.37.0", "etcd": "etcd Version: 3.7.3"},
    load=0.5,
)


@pytest.mark.parametrize("lines", [LINES, LINES[:1], []], ids=["all", "one", "none"])
def test_the_chart_is_well_formed(lines):
    root = ElementTree.fromstring(chart(standings(lines)))
    assert root.tag.endswith("svg")


def test_a_bar_is_as_long_as_its_number():
    root = ElementTree.fromstring(chart(standings(LINES[:2])))
    bars = {
        bar.get("fill"): float(bar.get("width"))
        for bar in root.iter("{http://www.w3.org/2000/svg}rect")
    }
    ours, theirs = (bars[color] for color in ("#2563eb", "#9aa5b1"))
    assert ours == pytest.approx(3 * theirs, rel=0.01)


def test_rows_have_as_many_cells_as_columns():
    for sheet in tables.sheets(standings(LINES)):
        assert {len(row) for row in sheet.rows} == {len(sheet.columns)}
        Console(quiet=True).print(tables.for_terminal(sheet))


def test_numbers_of_a_page_come_from_the_file(tmp_path):
    results = Results(tmp_path / "results.jsonl")
    for line in (RUN, *LINES):
        results.add(line)
    page = tmp_path / "page.md"
    page.write_text("# Title\n<!-- measured: begin -->\n<!-- measured: end -->\n")
    readme = tmp_path / "README.md"
    readme.write_text("# Title\n<!-- speed: begin -->\n<!-- speed: end -->\n")
    done = CliRunner().invoke(
        main, [str(tmp_path / "results.jsonl"), f"--page={page}", f"--readme={readme}"]
    )
    assert done.exit_code == 0, done.output
    assert "| plain pods, 5,000 nodes | 300 | 900 | 3.0 |" in readme.read_text()
    text = page.read_text()
    assert "| plain | 5,000 | 3,000 | 300 | 900 | 3.00 | 1,400 | 0.64 |" in text
    assert "Abacus" in text
    assert "kscheduler v1.37.0, etcd 3.7.3" in text
    assert "| plain, 5,000 nodes | ≥ 2.0 times | 3.00 (0.64 of the floor) | reached |" in text
    assert "![pods per second](results.svg)" in text
    assert (tmp_path / "results.svg").exists()


def test_the_readme_tells_what_the_file_has():
    results = Results(ROOT / "docs" / "performance" / "results.jsonl")
    readme = README.read_text()
    assert replaced(readme, SHORT_MARK, in_short(results)) == readme
