from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import agentix_console

SCRIPT = "import sys; sys.argv = ['agentix', '--version']; import agentix_console as c; sys.exit(c.agentix())"


def test_a_foreign_package_that_hides_the_namespace_is_named(tmp_path):
    (tmp_path / "agentix").mkdir()
    (tmp_path / "agentix/__init__.py").write_text("")
    console = Path(agentix_console.__file__).parent.parent
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(console)!r}]; {SCRIPT}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{tmp_path}/agentix/__init__.py hides the packages" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_namespace_itself_is_no_obstacle():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
