"""What a run has written, for the API and the dashboard; the same before and after teardown."""
