"""Flags of commands that ask, and what they are called."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from kscheduler.api.explanation import UNSCHEDULABLE, PlacementReviewStatus, ReviewedPlacement
from kscheduler.cli import kscheduler
from kscheduler.cli.explain import explain
from kscheduler.cli.what_if import answered, what_if


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["explain"], "Missing argument 'POD'"),
        (["why-not", "p"], "Missing argument 'NODE'"),
        (["explain", "p", "--attempt=0"], "0 is not in the range x>=1"),
        (["explain", "p", "-o", "xml"], "'xml' is not one of"),
        (["explain", "p", "--request-timeout=soon"], "say 30s or 2m"),
        (["explain", "p", f"--request-timeout={'9' * 5000}"], "say 30s or 2m"),
        (["explain", "p", "--request-timeout=²"], "say 30s or 2m"),
        (["what-if", "--drain=n", "--add-nodes=²"], "is not COUNT or COUNT=NODE"),
        (["what-if", "--drain=n", "--add-nodes=0"], "is not COUNT or COUNT=NODE"),
        (["explain", "p", "--request-timeout=-1s"], "must not be negative"),
        (
            ["explain", "p", "--aggregated", "--server=s:1"],
            "--aggregated and --server are two ways",
        ),
        (["explain", "p", "--aggregated", "--lease=a/b"], "--aggregated and --lease are two ways"),
        (["explain", "p", "--lease=a/b", "--server=s:1"], "--lease and --server are two ways"),
        (
            ["explain", "p", "--certificate-authority=f", "--insecure-skip-tls-verify"],
            "exclude each other",
        ),
        (["pending", "p", "-A"], "POD stands alone"),
        (["what-if"], "say what is to be placed"),
        (["what-if", "--drain=n", "--replicas=0"], "0 is not in the range x>=1"),
    ],
)
def test_flags_that_make_no_sense_are_refused_with_exit_code_2(args, complaint):
    result = CliRunner().invoke(kscheduler, args, prog_name="kscheduler")
    assert result.exit_code == 2
    assert complaint in result.stderr


@pytest.mark.parametrize(
    ("command", "name"), [(explain, "kubectl why"), (what_if, "kubectl whatif")]
)
def test_help_speaks_of_the_command_by_the_name_it_was_called_by(command, name):
    text = CliRunner().invoke(command, ["--help"], prog_name=name).stdout
    assert text.startswith(f"Usage: {name} ")
    assert f"      {name} -" in text or f"      {name} web-0" in text
    assert "{me}" not in text
    assert "kscheduler explain" not in text


def test_a_review_is_a_whole_question(tmp_path):
    file = tmp_path / "review.yaml"
    file.write_text("{apiVersion: kscheduler.dev/v1alpha1, kind: PlacementReview, spec: {}}")
    result = CliRunner().invoke(what_if, ["-f", str(file), "--drain=n1"])
    assert result.exit_code == 2
    assert "PlacementReview is a whole question" in result.stderr


def test_a_file_without_objects_is_told(tmp_path):
    (tmp_path / "empty.yaml").write_text("")
    result = CliRunner().invoke(what_if, ["-f", str(tmp_path / "empty.yaml")])
    assert result.exit_code == 2
    assert "there are no objects in it" in result.stderr


def test_the_programs_help_loads_no_command():
    """Commands that ask import a client, which takes longer than all of the help."""
    code = (
        "import sys; from kscheduler.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'aiohttp', 'kscheduler.cli.asking') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("\n[]\n")
    assert "why-not POD NODE" in ran.stdout


def test_the_refusal_of_a_drained_pod_is_told_once():
    why = "0/2 nodes are available: 2 Insufficient cpu."
    placement = ReviewedPlacement("default", "p", "", UNSCHEDULABLE, f"drained from n1; {why}")
    status = PlacementReviewStatus(
        placements=(placement,), message=f"default/p: {why} 1 pod of drained nodes is alone."
    )
    blocks = [block for block in answered(status, (), wide=False, everything=False) if block]
    assert why in blocks[-2]
    assert blocks[-1] == "1 pod of drained nodes is alone."
