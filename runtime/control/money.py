"""Dollars as text: amounts are integers of micro-dollars everywhere else.

For people, in messages, pages and tables; nothing reads these texts back.
"""

from runtime.control.values import MICROUSD_PER_USD

_MICROUSD_PER_CENT = MICROUSD_PER_USD // 100


def exact_usd(microusd: int) -> str:
    """Return an amount as dollars, exact, with two decimals at least: $99.50, $0.000001."""
    whole, rest = divmod(abs(microusd), MICROUSD_PER_USD)
    decimals = f"{rest:06d}"
    kept = decimals[:2] + decimals[2:].rstrip("0")
    return f"{_sign(microusd)}${whole:,}.{kept}"


def usd(microusd: int) -> str:
    """Return an amount as dollars and cents, rounded towards zero: $1,299.50."""
    whole, cents = divmod(abs(microusd) // _MICROUSD_PER_CENT, 100)
    sign = _sign(microusd) if whole or cents else ""
    return f"{sign}${whole:,}.{cents:02d}"


def _sign(microusd: int) -> str:
    return "-" if microusd < 0 else ""
