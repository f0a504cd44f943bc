"""Search in the logs of runs: live files and captured frames, a gigabyte in about a second."""
