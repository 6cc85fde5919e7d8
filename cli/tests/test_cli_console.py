from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import agentix_console

# Whoever starts the tests in the background may have them ignore interrupts, which every child would inherit.
HEEDED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
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


def test_an_interrupt_while_the_command_is_being_imported_is_no_traceback(tmp_path):
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    script = f"{HEEDED}import sys; sys.path.insert(0, {str(tmp_path)!r}); {SCRIPT}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_at_the_very_end_is_no_traceback():
    script = HEEDED + SCRIPT.replace("sys.exit(c.agentix())", "c.agentix(); import os; os.kill(os.getpid(), 2)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
