"""Rules about what nobody may bring in: credentials, since a file is stored and shown as written.

They bind where a config enters, and not a run that was accepted before: its config cannot be
changed, and what is written in it is stored already.
"""

import re
from collections.abc import Iterator

from runtime.config.rl import RLConfig
from runtime.config.rules.rule import broken, rule
from runtime.config.rules.safety import PROTECTED_ENV
from runtime.config.tables import env_tables, header_tables, key_variables, urls
from runtime.credentials import address_credential, is_credential, is_credential_header
from runtime.errors import Problem
from runtime.secret_rules import is_reserved

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@rule("env_vars", "trainer", "orchestrator", "inference")
def variables_hold_no_credentials(config: RLConfig) -> Iterator[Problem]:
    """A secret comes with -e; a variable in the file is stored as written."""
    for table in env_tables(config):
        for name, value in table.values.items():
            if name in PROTECTED_ENV or is_reserved(name):
                continue  # refused whatever it holds
            if is_credential(name, value):
                yield broken(
                    (*table.loc, name),
                    f"{name} is a secret, and the file is stored and shown as written",
                    fix=f"remove it, change the key, and pass it with -e {name}",
                )


@rule("trainer", "orchestrator")
def key_variables_are_names(config: RLConfig) -> Iterator[Problem]:
    """The name of a key's variable is not the key."""
    for loc, name in key_variables(config):
        if not _NAME.fullmatch(name):  # not repeated: it may be the key itself
            yield broken(
                loc,
                "is not an environment variable name; a key written here is stored and shown",
                fix="if it is a key, change it; pass the new one with -e NAME and write NAME here",
            )


@rule("orchestrator")
def headers_hold_no_credentials(config: RLConfig) -> Iterator[Problem]:
    """A key goes to an endpoint from a variable; a header in the file is stored as written."""
    for table in header_tables(config):
        for name, value in table.values.items():
            if is_credential_header(name, value):
                yield broken(
                    (*table.loc, name),
                    f"{name[:60]} holds a credential, and the file is stored and shown as written",
                    fix="remove it, change the key, pass the new one with -e and name its variable "
                    f"in {table.secrets_key}",
                )


@rule("trainer", "orchestrator")
def addresses_hold_no_credentials(config: RLConfig) -> Iterator[Problem]:
    """Neither the user of an address nor its query is a key."""
    for loc, url in urls(config):
        try:
            credential = address_credential(url)
        except ValueError:
            continue  # refused as no address
        if credential is not None:
            yield broken(
                loc,
                f"holds {credential}, and the file is stored and shown as written",
                fix="remove it, change the key, pass it with -e and name its variable in "
                "api_key_var",
            )


RULES = (
    variables_hold_no_credentials,
    key_variables_are_names,
    headers_hold_no_credentials,
    addresses_hold_no_credentials,
)
