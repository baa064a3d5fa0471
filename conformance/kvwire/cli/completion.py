"""``kvwire completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_KVWIRE_COMPLETE"
"""What the script sets when it asks for completions: click's name for a program called kvwire."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes commands and options.

    \b
    eval "$(kvwire completion bash)"                                   in ~/.bashrc
    eval "$(kvwire completion zsh)"                                    in ~/.zshrc, behind compinit
    kvwire completion fish > ~/.config/fish/completions/kvwire.fish
    """  # noqa: D301 - click reads the \b
    found = get_completion_class(shell)
    assert found is not None  # click has each of SHELLS
    click.echo(found(context.find_root().command, {}, "kvwire", VARIABLE).source())
