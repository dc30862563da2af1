"""Which Faiss is installed, said before it matters."""

from __future__ import annotations

import pytest

from dance.search import flavour


def installed(monkeypatch: pytest.MonkeyPatch, *names: str, importable: bool = True) -> None:
    monkeypatch.setattr(flavour, "_version", lambda name: "1.9" if name in names else None)
    monkeypatch.setattr(flavour, "find_spec", lambda name: object() if importable else None)


def test_one_build_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu12"):
        installed(monkeypatch, name)
        assert flavour.check_faiss() == f"{name} 1.9"


def test_a_build_that_pip_does_not_know_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    assert "another origin" in flavour.check_faiss()


def test_none_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, importable=False)
    with pytest.raises(ValueError, match=r"pip install 'dance-retrieval\[cpu\]'"):
        flavour.check_faiss()


def test_both_name_what_to_remove(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "faiss-cpu", "faiss-gpu")
    with pytest.raises(ValueError, match="pip uninstall -y faiss-cpu faiss-gpu"):
        flavour.check_faiss()


def test_the_build_that_is_here_is_found() -> None:
    assert flavour.check_faiss().startswith("faiss")
