"""The JSON of the HTTP API, as pydantic models; one module a subject, no logic but translation."""
