"""Public checkpoints, random weights in their layouts, against a forward pass written here on its own.

Nothing of ``dance`` makes a checkpoint or a reference vector: transformers' models and plain torch do.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoTokenizer,
    BertModel,
)

from dance.config import Model
from dance.encoder import convert
from dance.encoder.outline import check
from dance.encoder.texts import TextEncoder
from tests.public import (
    DOCUMENTS,
    LIMITS,
    LONG,
    QUERIES,
    first_state,
    pick,
    roberta_vectors,
    same,
    score_alike,
    taken_in,
    tokens,
    write_ance,
    write_base,
    write_dpr,
)


@pytest.fixture
def ance(tmp_path: Path) -> Path:
    return write_ance(tmp_path)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_base(tmp_path)


@pytest.fixture
def dpr(tmp_path: Path, base: Path) -> Path:
    return write_dpr(tmp_path, base)


@pytest.mark.parametrize(("layout", "normed", "unit"), [("ance", True, False), ("dance", False, True)])
def test_ance_firstp_and_dance_score_as_published(
    tmp_path: Path, ance: Path, layout: str, normed: bool, unit: bool
) -> None:
    """DANCE's asymmetry: documents skip the LayerNorm, queries do not."""
    ours = taken_in(ance, layout, tmp_path / "ours")
    queries = roberta_vectors(ance, [tokens(ance, text, 16) for text in QUERIES], True, unit)
    documents = roberta_vectors(ance, [tokens(ance, text, 32) for text in LONG], normed, unit)
    same(ours.queries(QUERIES), queries)
    same(ours.documents(LONG), documents)
    score_alike(ours.scores(QUERIES, LONG), queries @ documents.T)


WEB = [(f"http {title}\n{title} list", text) for title, text in LONG]


@pytest.mark.parametrize("template", ["joined", "spelt"])
def test_encoders_of_documents_read_url_title_and_body_as_one_text(tmp_path: Path, ance: Path, template: str) -> None:
    """As PassagePreprocessingFn of ANCE's code: of 2020, with letters, and later, with the separator token."""
    ours = taken_in(ance, "ance", tmp_path / "ours", document_template=template)
    assert ours.encoder.settings.document_template == template
    inputs = []
    for title, text in WEB:
        parts = [*title.split("\n"), text]
        if template == "spelt":
            inputs.append(tokens(ance, "<sep>".join(parts), 32))
        else:
            ids = [i for part in parts for i in [2, *tokens(ance, part, 500)[1:-1]]]
            inputs.append([0, *ids[1:31], 2])
    same(ours.documents(WEB), roberta_vectors(ance, inputs, True, False))
    model = Model(path=str(tmp_path / "ours"), head=24, query_max_tokens=16, document_max_tokens=32)
    with pytest.raises(ValueError, match=f"set model.document_template={template}"):
        check(model)


@pytest.mark.parametrize("typed", [True, False])
def test_dpr_s_base_of_its_time_has_a_vocabulary_alone(tmp_path: Path, dpr: Path, base: Path, typed: bool) -> None:
    vocabulary = sorted(AutoTokenizer.from_pretrained(base).get_vocab().items(), key=lambda item: item[1])
    expected = taken_in(dpr, "dpr", tmp_path / "expected", path=str(base)).documents(LONG)
    (base / "vocab.txt").write_text("\n".join(word for word, _ in vocabulary) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (base / name).unlink()
    if not typed:
        config = json.loads((base / "config.json").read_text())
        (base / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "model_type"}))
    ours = taken_in(dpr, "dpr", tmp_path / "ours", path=str(base))
    assert not ours.encoder.tokenizer.uses_token_types
    same(ours.documents(LONG), expected)
    with pytest.raises(ValueError, match=r"model\.document_template follows from layout="):
        convert.take_in(dpr, "dpr", {"path": str(base), "document_template": "joined"}, tmp_path / "joined")


def test_ance_maxp_scores_the_best_chunk(tmp_path: Path, ance: Path) -> None:
    ours = taken_in(ance, "ance", tmp_path / "ours", chunks="4", chunking="raw", document_max_tokens="20")
    whole = [tokens(ance, text, 80) for text in [*DOCUMENTS, *LONG]]
    cut = [[ids[at : at + 20] for at in range(0, len(ids), 20)] for ids in whole]
    assert {1, 4} <= {len(chunks) for chunks in cut}
    vectors, owners = ours.document_chunks([*DOCUMENTS, *LONG])
    same(vectors, roberta_vectors(ance, [ids for chunks in cut for ids in chunks], True, False))
    assert owners.tolist() == [row for row, chunks in enumerate(cut) for _ in chunks]
    queries = roberta_vectors(ance, [tokens(ance, text, 16) for text in QUERIES], True, False)
    per_document = [queries @ roberta_vectors(ance, chunks, True, False).T for chunks in cut]
    best = np.stack([scores.max(axis=1) for scores in per_document], axis=1)  # [queries, documents]
    score_alike(ours.scores(QUERIES, [*DOCUMENTS, *LONG]), best)
    with pytest.raises(ValueError, match=r"document_chunks\(\), or scores\(\)"):
        ours.documents(DOCUMENTS)


@pytest.mark.parametrize("bare", [False, True])
def test_dpr_has_a_tower_for_either_side_and_no_segments(tmp_path: Path, dpr: Path, base: Path, bare: bool) -> None:
    """ANCE's for OpenQA is such a file too, or its state dict alone."""
    weights = torch.load(dpr, weights_only=True)["model_dict"]
    if bare:
        torch.save(weights, dpr)
    ours = taken_in(dpr, "dpr", tmp_path / "ours", path=str(base))
    found = {"question_model.": (QUERIES, 16, ours.queries), "ctx_model.": (LONG, 32, ours.documents)}
    for prefix, (texts, limit, encode) in found.items():
        model = BertModel(AutoConfig.from_pretrained(base))
        model.load_state_dict({key: value for key, value in pick(weights, prefix).items() if "_ids" not in key})
        states = [first_state(model, tokens(base, text, limit)).numpy() for text in texts]
        same(encode(texts), np.stack(states))  # type: ignore[operator]
    assert (tmp_path / "ours" / "query" / "model.safetensors").is_file()


@pytest.mark.parametrize("layout", ["ance", "dance"])
def test_roberta_layouts_come_back_as_they_were(tmp_path: Path, ance: Path, layout: str) -> None:
    taken_in(ance, layout, tmp_path / "ours")
    convert.give_out(tmp_path / "ours", layout, tmp_path / "back")
    before, after = (torch.load(f / "pytorch_model.bin", weights_only=True) for f in (ance, tmp_path / "back"))
    unused = {name for name in before if "pooler" in name or "position_ids" in name or "classifier" in name}
    assert after.keys() == before.keys() - unused
    assert all(torch.equal(value, before[name]) for name, value in after.items())
    again = taken_in(tmp_path / "back", layout, tmp_path / "again")  # config and tokenizer too
    same(again.documents(LONG), TextEncoder.open(tmp_path / "ours", precision="fp32").documents(LONG))


def test_dpr_comes_back_as_it_was(tmp_path: Path, dpr: Path, base: Path) -> None:
    taken_in(dpr, "dpr", tmp_path / "ours", path=str(base))
    convert.give_out(tmp_path / "ours", "dpr", tmp_path / "back.cp")
    before, after = (torch.load(path, weights_only=True) for path in (dpr, tmp_path / "back.cp"))
    assert before.keys() == after.keys()
    before, after = before["model_dict"], after["model_dict"]
    assert after.keys() == {name for name in before if "position_ids" not in name}
    assert all(after[name].shape == before[name].shape for name in after)
    assert all(torch.equal(after[name], before[name]) for name in after if "pooler" not in name)


def test_safetensors_serve_as_well_as_a_pickle(tmp_path: Path, ance: Path) -> None:
    weights = torch.load(ance / "pytorch_model.bin", weights_only=True)
    save_file({name: value.contiguous() for name, value in weights.items()}, ance / "model.safetensors")
    expected = roberta_vectors(ance, [tokens(ance, text, 16) for text in QUERIES], True, False)
    (ance / "pytorch_model.bin").unlink()
    same(taken_in(ance, "ance", tmp_path / "ours").queries(QUERIES), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm.bias": None}, r"lacks weights: norm\.bias \(1 in all\)"),
        ({"roberta.encoder.layer.1.output.dense.bias": None}, r"lacks weights: roberta\.encoder\.layer\.1"),
        ({"encode_proj.weight": torch.zeros(2)}, r"has weights without a place: encode_proj\.weight"),
        ({"embeddingHead.bias": torch.zeros(9)}, r"of another shape: embeddingHead\.bias"),
        ({"embeddingHead.weight": None}, r"no embeddingHead\.weight .*is layout= the right one"),
    ],
)
def test_t05_weights_missing_or_without_a_place_are_named(
    tmp_path: Path, ance: Path, change: dict[str, Tensor | None], message: str
) -> None:
    weights = torch.load(ance / "pytorch_model.bin", weights_only=True) | change
    torch.save({name: value for name, value in weights.items() if value is not None}, ance / "pytorch_model.bin")
    with pytest.raises(ValueError, match=message):
        convert.take_in(ance, "ance", LIMITS, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


class Runs:
    """A pickle that would run something."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("it ran",)


def test_a_pickle_of_more_than_tensors_is_not_run(
    tmp_path: Path, ance: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"model_dict": {}, "args": Runs()}, ance / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"not tensors alone.*save its state dict alone"):
        convert.take_in(ance, "ance", LIMITS, tmp_path / "ours")
    assert "it ran" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("layout", "given", "message"),
    [
        ("bert", {}, "layout=bert: there are ance, dance, dpr"),
        ("ance", {"head": "3"}, r"model\.head follows from layout="),
        ("ance", {"chunks": "none"}, r"model\.\*: Expected `int`"),
        ("ance", {"document_max_tokens": "512"}, r"has positions for 32 tokens"),
        ("dpr", {}, r"is of roberta, the layout is bert's: set model\.path"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(
    tmp_path: Path, ance: Path, layout: str, given: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        convert.take_in(ance, layout, LIMITS | given, tmp_path / "ours")


def test_an_encoder_is_not_given_out_as_what_it_is_not(tmp_path: Path, ance: Path) -> None:
    taken_in(ance, "dance", tmp_path / "ours")
    with pytest.raises(ValueError, match=r"it has model\.normalize=True, model\.document_norm=False"):
        convert.give_out(tmp_path / "ours", "ance", tmp_path / "back")
    with pytest.raises(ValueError, match="a roberta backbone"):
        convert.give_out(tmp_path / "ours", "dpr", tmp_path / "back")
    with pytest.raises(ValueError, match="is there already"):
        convert.give_out(tmp_path / "ours", "dance", ance)
