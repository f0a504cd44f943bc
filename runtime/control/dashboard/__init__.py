"""The dashboard: plain pages that the server renders, without a script; a list, and one page a run.

Shows what the API answers and uses its services, with a cookie in place of the bearer header.
"""
