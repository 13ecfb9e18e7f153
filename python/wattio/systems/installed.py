"""Programs that are in no package: built by somebody, and found below a folder of their own.

Their libraries may lie there, too, where no loader looks: they are told to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

NO_PACKAGE = ""
"""What stands for a program's package where there is none."""


def _absolute(folder: str) -> str:
    if not folder.startswith("/") or "\0" in folder:
        raise ValueError(f'"{folder}" must be absolute, as in "/opt/orangefs"')
    return folder


Absolute = Annotated[str, AfterValidator(_absolute)]
"""A folder of a machine, such as that which something was installed below."""


@dataclass(frozen=True)
class Installation:
    """Programs below a folder, or on PATH where there is none: by name, with their subfolder.

    Libraries lie in `lib` beside `bin` and `sbin`.
    """

    prefix: str | None
    folders: Mapping[str, str]

    def program(self, name: str) -> str:
        """A program's file, or its name."""
        return name if self.prefix is None else str(Path(self.prefix, self.folders[name], name))

    def needed(self) -> dict[str, str]:
        """What has to be there, for `Node.need`."""
        return {self.program(name): NO_PACKAGE for name in self.folders}

    def command(self, name: str, *arguments: str, **variables: object) -> tuple[str, ...]:
        """A command of one of the programs, with variables of its environment."""
        told = {**self._loader(), **variables}
        words = [f"{variable}={value}" for variable, value in told.items()]
        start = ("env", *words) if words else ()
        return (*start, self.program(name), *arguments)

    def _loader(self) -> dict[str, str]:
        """Where libraries lie; `$LIB` is the loader's word for `lib64` or `lib/<machine>`."""
        if self.prefix is None:
            return {}
        return {"LD_LIBRARY_PATH": f"{self.prefix}/lib:{self.prefix}/$LIB"}
