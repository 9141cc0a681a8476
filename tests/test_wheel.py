"""The wheel is whole, and somebody else's package is built and tested on it alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "cost_ledger"
PACKAGES = ("dsh_session", "dsh_compact", "dsh_projections")
UV: Final = os.environ.get("UV") or shutil.which("uv")  # uv names itself to what it runs

pytestmark = pytest.mark.skipif(UV is None, reason="uv, which builds wheels, is neither in UV nor on the PATH")


def uv(*arguments: str | Path) -> None:
    """Run uv on what it has at hand, and on the network only where that does not do."""
    for offline in (["--offline"], []):
        command = [str(UV), *map(str, arguments), "--quiet", *offline]
        done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - all of it is ours
        if done.returncode == 0:
            return
    raise AssertionError(done.stderr)


def run(python: Path, *arguments: str, cwd: Path) -> str:
    """Run an environment's Python on its own: it sees no folder of ours and no variable that names one."""
    command = [str(python), "-I", *arguments]
    done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)  # noqa: S603 - all of it is ours
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this project."""
    return build(ROOT, tmp_path_factory.mktemp("wheel"))


def build(project: Path, into: Path) -> Path:
    uv("build", "--wheel", "--out-dir", into, project)
    (built,) = into.glob("*.whl")
    return built


def test_the_wheel_is_whole(wheel: Path) -> None:
    """All three packages are there and typed, with the demo's session and the license, and nothing else is."""
    names = ZipFile(wheel).namelist()

    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    data = {*(f"{package}/py.typed" for package in PACKAGES), "dsh_projections/demo.jsonl"}
    assert sources | data == {name for name in names if ".dist-info/" not in name}
    assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]


def test_a_package_of_somebody_else_passes_its_tests_on_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """The example package installs beside the wheel in an environment with nothing else, and its tests pass there."""
    environment, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
    python = environment / "bin" / "python"

    uv("venv", "--python", sys.executable, environment)
    ledger = build(EXAMPLE, tmp_path)
    uv("pip", "install", "--python", python, f"dsh-session[testing] @ {wheel.as_uri()}", ledger, "pytest>=8.3")
    shutil.copytree(EXAMPLE / "tests", elsewhere)

    find = "from importlib.util import find_spec; import sys; print(*(find_spec(name).origin for name in sys.argv[1:]))"
    origins = run(python, "-c", find, *PACKAGES, "session_cost_ledger", cwd=elsewhere).split()
    assert [origin for origin in origins if not origin.startswith(str(environment / "lib"))] == []
    assert " passed" in run(python, "-m", "pytest", "-q", "-W", "error", cwd=elsewhere)
