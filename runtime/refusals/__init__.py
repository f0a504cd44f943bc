"""The reasons that refuse a run: one function each, pure; put together by `runtime.admission`."""
