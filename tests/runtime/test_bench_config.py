"""The benchmark of reading and planning: it runs, and keeps its limit with room to spare."""

import json

import pytest

from bench import config


def test_a_file_takes_a_fifth_of_prime_rls_time_at_most(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = config.main(["--rounds", "1", "--limit", "2", "--json"])

    result = json.loads(capsys.readouterr().out)
    assert len(result["files"]) == 2
    assert result["median_share"] == result["median_s"] / config.FLOOR_FILE_S
    assert code == int(max(result["import_share"], result["median_share"]) > config.MAX_SHARE)
