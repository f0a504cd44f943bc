"""The client of a paddock server: its API over HTTP, as `runtime.commands.remote` calls it.

It knows neither the control plane's code nor the engine's: a laptop that dispatches needs neither.
"""
