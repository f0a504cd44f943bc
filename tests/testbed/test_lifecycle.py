"""When a testbed is started, used again or refused; nothing is started here."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.errors import SetupError
from tests.testbed import layout, lifecycle
from tests.testbed.lifecycle import State, check_machine
from tests.testbed.programs import Programs

PROGRAMS = Programs(
    etcd=Path("etcd/v1-a"),
    kubernetes=Path("kubernetes/v1-b"),
    containerd=Path("containerd/v1-c"),
    coredns=Path("coredns/v1-d"),
    kwok=Path("kwok/v1-e"),
)
OWN = State(checkout=str(layout.CHECKOUT), programs=PROGRAMS.fingerprint, image="sha256:1")


def test_without_root_the_error_says_what_else_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(SetupError, match=r"PADDOCK_TEST_KUBECONFIG.*PADDOCK_SKIP=testbed,cluster"):
        check_machine()


def test_a_testbed_of_the_same_checkout_and_programs_is_used_again() -> None:
    assert lifecycle._is_reusable(OWN, PROGRAMS)


def test_a_testbed_of_other_programs_is_started_anew() -> None:
    assert not lifecycle._is_reusable(OWN, replace(PROGRAMS, kwok=Path("kwok/v2-f")))


def test_a_testbed_of_a_checkout_that_is_gone_is_started_anew(tmp_path: Path) -> None:
    found = replace(OWN, checkout=str(tmp_path / "gone"))

    assert not lifecycle._is_reusable(found, PROGRAMS)


def test_pods_of_another_checkout_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replace(OWN, checkout=str(tmp_path))
    monkeypatch.setattr(lifecycle, "_is_busy", lambda programs: True)

    with pytest.raises(SetupError, match="pods run in the testbed of another checkout"):
        lifecycle._is_reusable(found, PROGRAMS)


def test_an_idle_testbed_of_another_checkout_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replace(OWN, checkout=str(tmp_path))
    monkeypatch.setattr(lifecycle, "_is_busy", lambda programs: False)

    assert not lifecycle._is_reusable(found, PROGRAMS)


def test_a_state_that_was_cut_short_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "STATE", tmp_path / "state.json")
    layout.STATE.write_text('{"checkout": ')

    assert lifecycle.read_state() is None
