"""`wattio completion`: what lets a shell complete the words of this command."""

from __future__ import annotations

import sys
from typing import Literal

from cyclopts import App

app = App(
    name="completion",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio completion bash > ~/.local/share/bash-completion/completions/wattio
wattio completion zsh > ~/.zfunc/_wattio
wattio completion fish > ~/.config/fish/completions/wattio.fish
```

The Debian packages include these scripts. For the other programs: `wattiod completions bash`,
`wattio-target completions bash`.""",
)


@app.default
def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print a script with which a shell completes commands, options and values.

    Parameters
    ----------
    shell
        The shell that is to read it.
    """
    from wattio.cli import build

    sys.stdout.write(build().generate_completion(shell=shell))
    return 0
