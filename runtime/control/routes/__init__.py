"""The routes of the HTTP API, thin: who may ask, one call of a service, its answer as a model."""
