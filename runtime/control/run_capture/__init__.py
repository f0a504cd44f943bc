"""The parts of `runtime.control.capture`: what is captured of a run, and how a file is written."""
