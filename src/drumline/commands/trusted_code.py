"""Trust that a command line gives to the code that a run folder names."""

from drumline.api.foreign_code import CodeTrust
from drumline.commands.command_line import CommandLine


def trust_of(line: CommandLine, *, trust_code: bool) -> CodeTrust:
    """Return the trust that a command line gives."""
    return CodeTrust(trust_code, line.again("--trust-code"))
