"""The Transformer against hand-computed numbers, against PyTorch's own layers, and against what must not matter."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pmd_lite.model import cache, layers
from pmd_lite.model.layers import attend, drop, positions_table
from pmd_lite.model.transformer import Transformer

PAD, BOS, EOS, VOCAB = 0, 2, 3, 23


def build(seed: int = 0, **options: object) -> Transformer:
    """A small float64 model; all its weights and biases are random, so that no term can hide behind a zero or a one."""
    torch.manual_seed(seed)
    sizes: dict[str, object] = {"d_model": 16, "heads": 2, "ffn": 24, "dropout": 0.0, "max_len": 40}
    model = Transformer(VOCAB, **{**sizes, **options}).double()  # type: ignore[arg-type]
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=0.5, std=0.5)
    return model


def batch(lengths: list[int], seed: int = 0) -> Tensor:
    """Random ids [batch, longest], padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(EOS + 1, VOCAB, (len(lengths), max(lengths)), generator=generator)
    return ids * (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


# ------------------------------------------------------------------------------------------------- small parts


def test_positions_are_sines_then_cosines() -> None:
    # d_model = 4: the two rates are 1 and 10000^(-2/4) = 0.01 radians a position.
    by_hand = [
        [0.0, 0.0, 1.0, 1.0],
        [math.sin(1), math.sin(0.01), math.cos(1), math.cos(0.01)],
        [math.sin(2), math.sin(0.02), math.cos(2), math.cos(0.02)],
    ]
    torch.testing.assert_close(positions_table(3, 4), torch.tensor(by_hand))


@pytest.fixture(params=["fused", "plain"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to compute attention."""
    monkeypatch.setattr(layers, "_plain_is_faster", lambda q: request.param == "plain")
    return str(request.param)


def test_attention_by_hand(route: str) -> None:
    # d_head = 4, so scores are halved: q.k / 2 is 0 for the first key and ln 3 for the second: weights 1/4 and 3/4.
    q = torch.tensor([[1.0, 0, 0, 0], [1.0, 0, 0, 0]])[None, None]
    k = torch.tensor([[0.0, 5, 0, 0], [2 * math.log(3), 0, 7, 0]])[None, None]
    v = torch.tensor([[10.0, 0, 0, 4], [20.0, 0, 0, 8]])[None, None]
    mixed, first = torch.tensor([17.5, 0, 0, 7]), torch.tensor([10.0, 0, 0, 4])
    torch.testing.assert_close(attend(q, k, v)[0, 0], torch.stack([mixed, mixed]))
    torch.testing.assert_close(attend(q, k, v, causal=True)[0, 0], torch.stack([first, mixed]))
    mask = torch.tensor([True, False])[None, None, None]
    torch.testing.assert_close(attend(q, k, v, mask=mask)[0, 0], torch.stack([first, first]))


def test_attention_dropout_drops_whole_weights_and_rescales_the_rest(route: str) -> None:
    torch.manual_seed(0)
    q, k = torch.zeros(1, 1, 500, 2), torch.zeros(1, 1, 2, 2)  # equal scores: both weights are 1/2
    weights = attend(q, k, torch.eye(2)[None, None], dropout=0.2)
    kept = weights > 0
    torch.testing.assert_close(weights[kept], torch.full_like(weights[kept], 0.5 / 0.8))
    assert 0.75 < kept.float().mean() < 0.85


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_drop_drops_at_its_rate_independently_and_rescales_the_rest(rate: float) -> None:
    """Rate, neighbours (four numbers share a random word) and the mean, each within five standard deviations."""
    torch.manual_seed(0)
    n = 2**18
    x = torch.ones(n - 3, requires_grad=True)
    y = drop(x, rate, True)
    zero = (y == 0).double()
    spread = math.sqrt(rate * (1 - rate) / n)
    assert zero.mean().item() == pytest.approx(rate, abs=5 * spread)
    torch.testing.assert_close(y[y != 0], torch.full_like(y[y != 0], 1 / (1 - rate)), rtol=2e-4, atol=0)
    for lag in (1, 2, 3, 4):
        both = (zero[lag:] * zero[:-lag]).mean().item()
        assert both == pytest.approx(rate**2, abs=5 * math.sqrt(rate**2 * (1 - rate**2) / n) + 2 * rate * 5 * spread)
    for part in range(4):
        assert zero[part::4].mean().item() == pytest.approx(rate, abs=10 * spread)
    assert y.mean().item() == pytest.approx(1, abs=5 * spread / (1 - rate))
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], y.detach()), "what is dropped gets no gradient"


def test_drop_leaves_everything_where_nothing_is_to_be_dropped() -> None:
    x = torch.randn(3, 5)
    before = torch.get_rng_state()
    assert torch.equal(drop(x, 0.3, False), x)
    assert torch.equal(drop(x, 0.0, True), x)
    assert torch.equal(before, torch.get_rng_state())
    assert drop(x.bfloat16(), 0.3, True).dtype == torch.bfloat16


def test_plain_attention_is_chosen_under_autocast_only(monkeypatch: pytest.MonkeyPatch) -> None:
    model, src = build(tie="none").float(), batch([5, 3])
    exact = model(src, src)

    def fail(*args: object, **kwargs: object) -> Tensor:
        raise RuntimeError("fused")

    monkeypatch.setattr(F, "scaled_dot_product_attention", fail)
    with pytest.raises(RuntimeError, match="fused"):
        model(src, src)
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(src, src)
    assert rough.dtype == torch.bfloat16
    torch.testing.assert_close(rough.float(), exact, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_under_autocast_no_sublayer_converts_the_residual_path(norm: str) -> None:
    model, src = build(norm=norm).float(), batch([5, 3])
    seen: list[torch.dtype] = []
    for layer in (*model.encoder, *model.decoder):
        layer.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        model(src, src)
    assert seen == [torch.bfloat16] * 4
    seen.clear()
    model(src, src)
    assert seen == [torch.float32] * 4


def test_initial_weights() -> None:
    torch.manual_seed(0)
    model = Transformer(2000, d_model=64, tie="none", pad=7)
    for table in (model.embedding, model.src_embedding, model.output):
        assert table is not None
        assert not table.weight[7].any()
        assert table.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
    # Xavier: uniform within sqrt(6 / (inputs + outputs)). Each packed block counts as its own 64 x 64 matrix, with half
    # the variance.
    decoder = model.decoder[0]
    for weight, bound in (
        (decoder.feed_forward.inner.weight, math.sqrt(6 / (64 + 256))),
        (decoder.self_attention.out.weight, math.sqrt(6 / 128)),
        *((block, math.sqrt(6 / 128) / math.sqrt(2)) for block in decoder.self_attention.qkv.weight.split(64)),
        *((block, math.sqrt(6 / 128) / math.sqrt(2)) for block in decoder.cross_attention.kv.weight.split(64)),
        (decoder.cross_attention.query.weight, math.sqrt(6 / 128) / math.sqrt(2)),
    ):
        assert 0.99 * bound < weight.abs().max().item() <= bound * (1 + 1e-6)


# ------------------------------------------------------------------------ the same computation in PyTorch's layers


def stack_of_torch_layers(model: Transformer, activation: object, norm: str) -> tuple[nn.ModuleList, nn.ModuleList]:
    """torch.nn encoder and decoder layers with the weights of `model`."""
    options = {"dropout": 0.0, "activation": activation, "batch_first": True, "norm_first": norm == "pre"}
    encoder, decoder = nn.ModuleList(), nn.ModuleList()
    for ours in [*model.encoder, *model.decoder]:
        is_decoder = hasattr(ours, "cross_attention")
        kind = nn.TransformerDecoderLayer if is_decoder else nn.TransformerEncoderLayer
        theirs = kind(16, 2, 24, **options).double()
        weights = {
            "self_attn.in_proj_": ours.self_attention.qkv, "self_attn.out_proj.": ours.self_attention.out,
            "linear1.": ours.feed_forward.inner, "linear2.": ours.feed_forward.outer,
            "norm1.": ours.self_residual.norm, ("norm3." if is_decoder else "norm2."): ours.ffn_residual.norm,
        }  # fmt: skip
        state = {key + part: getattr(module, part) for key, module in weights.items() for part in ("weight", "bias")}
        if is_decoder:
            cross = ours.cross_attention
            for part in ("weight", "bias"):
                packed = [getattr(cross.query, part), getattr(cross.kv, part)]
                state["multihead_attn.in_proj_" + part] = torch.cat(packed)
                state["multihead_attn.out_proj." + part] = getattr(cross.out, part)
                state["norm2." + part] = getattr(ours.cross_residual.norm, part)
        theirs.load_state_dict(state)
        (decoder if is_decoder else encoder).append(theirs)
    return encoder, decoder


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(("activation", "theirs"), [("relu", F.relu), ("gelu", F.gelu), ("swish", F.silu)])
@pytest.mark.parametrize("embedding_norm", [False, True])
def test_parity_with_torch_layers(norm: str, activation: str, theirs: object, embedding_norm: bool) -> None:
    model = build(norm=norm, activation=activation, embedding_norm=embedding_norm, tie="none", encoder_layers=3)
    encoder, decoder = stack_of_torch_layers(model, theirs, norm)
    src, trg_in = batch([6, 4, 2], seed=1), batch([5, 3, 5], seed=2)
    assert model.src_embedding is not None and model.output is not None

    def embed(table: nn.Embedding, ids: Tensor, norm_layer: nn.Module) -> Tensor:
        x = table.weight[ids] * 4.0 + positions_table(ids.shape[1], 16)  # 4 = sqrt(d_model)
        return F.layer_norm(x, (16,), norm_layer.weight, norm_layer.bias) if embedding_norm else x

    memory = embed(model.src_embedding, src, model.src_embedding_norm)
    for layer in encoder:
        memory = layer(memory, src_key_padding_mask=src.eq(PAD))
    hidden_states = embed(model.embedding, trg_in, model.trg_embedding_norm)
    if norm == "pre":
        memory = F.layer_norm(memory, (16,), model.encoder_norm.weight, model.encoder_norm.bias)
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    for layer in decoder:
        hidden_states = layer(hidden_states, memory, tgt_mask=future, memory_key_padding_mask=src.eq(PAD))
    if norm == "pre":
        hidden_states = F.layer_norm(hidden_states, (16,), model.decoder_norm.weight, model.decoder_norm.bias)
    expected = hidden_states @ model.output.weight.T

    real = trg_in.ne(PAD)
    torch.testing.assert_close(model(src, trg_in)[real], expected[real], atol=1e-10, rtol=1e-10)

    # Gradients too: PyTorch's layers hold copies of our weights, so compare what reaches the shared source table.
    probe = torch.randn(expected[real].shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    ours = torch.autograd.grad((model(src, trg_in)[real] * probe).sum(), model.src_embedding.weight)[0]
    other = torch.autograd.grad((expected[real] * probe).sum(), model.src_embedding.weight)[0]
    used = src[src.ne(PAD)].unique()
    torch.testing.assert_close(ours[used], other[used], atol=1e-9, rtol=1e-9)


# ------------------------------------------------------------------------------------- what must not make a difference


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_future_tokens_do_not_influence_the_past(norm: str) -> None:
    model = build(norm=norm)
    src, trg_in = batch([5, 7]), batch([6, 6], seed=1)
    changed = trg_in.clone()
    changed[:, 3] = torch.where(trg_in[:, 3] == 5, 6, 5)
    before, after = model(src, trg_in), model(src, changed)
    torch.testing.assert_close(after[:, :3], before[:, :3], atol=1e-12, rtol=0)
    assert (after[:, 3:] - before[:, 3:]).abs().amax(-1).min() > 1e-4  # and it does influence itself and the future


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_extra_padding_changes_nothing(norm: str, dtype: torch.dtype, tolerance: float) -> None:
    model = build(norm=norm).to(dtype)
    src, trg_in = batch([5, 3, 7]), batch([6, 4, 2], seed=1)
    logits = model(src, trg_in)
    wider = model(F.pad(src, (0, 4), value=PAD), F.pad(trg_in, (0, 5), value=PAD))[:, :6]
    real = trg_in.ne(PAD)
    torch.testing.assert_close(wider[real], logits[real], atol=tolerance, rtol=tolerance)


def test_sentences_of_a_batch_do_not_see_each_other() -> None:
    model = build()
    src, trg_in = batch([5, 3, 7]), batch([6, 6, 6], seed=1)
    order = torch.tensor([2, 0, 1])
    logits = model(src, trg_in)
    torch.testing.assert_close(model(src[order], trg_in[order]), logits[order], atol=1e-12, rtol=0)
    torch.testing.assert_close(model(src[1:2, :3], trg_in[1:2]), logits[1:2], atol=1e-12, rtol=0)


@pytest.mark.usefixtures("route")
def test_a_row_of_pads_is_finite_and_harmless() -> None:
    model = build()
    src, trg_in = batch([4, 6]), batch([5, 5], seed=1)
    alone = model(src, trg_in)
    src, trg_in = F.pad(src, (0, 0, 0, 1), value=PAD), F.pad(trg_in, (0, 0, 0, 1), value=PAD)
    logits = model(src, trg_in)
    torch.testing.assert_close(logits[:2], alone, atol=1e-12, rtol=0)
    assert logits.isfinite().all()
    logits.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    heads=st.integers(1, 4),
    d_head=st.sampled_from([2, 4]),
    src_lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    trg_len=st.integers(1, 6),
    norm=st.sampled_from(["pre", "post"]),
    tie=st.sampled_from(["all", "decoder", "none"]),
)
def test_any_shape(heads: int, d_head: int, src_lengths: list[int], trg_len: int, norm: str, tie: str) -> None:
    model = build(d_model=heads * d_head, heads=heads, norm=norm, tie=tie)
    src, trg_in = batch(src_lengths), batch([trg_len] * len(src_lengths), seed=1)
    logits = model(src, trg_in)
    assert logits.shape == (len(src_lengths), trg_len, VOCAB)
    for i, length in enumerate(src_lengths):
        alone = model(src[i : i + 1, :length], trg_in[i : i + 1])[0]
        torch.testing.assert_close(alone, logits[i], atol=1e-11, rtol=1e-11)


# ----------------------------------------------------------------------------------------------- step by step, tying


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_decoding_step_by_step_equals_decoding_at_once(norm: str) -> None:
    model = build(norm=norm, encoder_layers=1, decoder_layers=3)
    src = batch([5, 3])
    trg_in = batch([6] * 6, seed=1)  # rows 0-2 belong to sentence 0, rows 3-5 to sentence 1
    at_once = model.hidden(src.repeat_interleave(3, 0), trg_in)
    state = model.start(model.encode(src), src)
    pieces = [model.decode(trg_in[:, :2], state)]
    pieces += [model.decode(trg_in[:, i : i + 1], state) for i in range(2, 6)]
    torch.testing.assert_close(torch.cat(pieces, 1), at_once, atol=1e-12, rtol=0)


def test_selected_rows_and_sentences_go_on_as_if_they_had_been_alone() -> None:
    model = build()
    src, trg_in = batch([5, 3, 4]), batch([4] * 6, seed=1)  # two rows for each of three sentences
    state = model.start(model.encode(src), src)
    model.decode(trg_in[:, :3], state)
    rows, sentences = torch.tensor([5, 4, 0, 0]), torch.tensor([2, 0])
    state.select_rows(rows)
    state.select_sentences(sentences)
    last = model.decode(trg_in[rows, 3:], state)
    expected = model.hidden(src[[2, 2, 0, 0]], trg_in[rows])[:, 3:]
    torch.testing.assert_close(last, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("block", [1, 2, 32])
def test_rows_may_be_chosen_anew_after_every_token(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows, fewer, the same ones: when memory is reused, each row still continues from its own past."""
    monkeypatch.setattr(cache, "BLOCK", block)
    model, src = build(), batch([5, 4])
    rng = torch.Generator().manual_seed(5)
    state = model.start(model.encode(src), src)
    seen = torch.full((2, 1), BOS)  # what each row has read
    last = model.decode(seen, state)
    for count in (1, 3, 3, 2, 4, 1, 2):  # rows of each sentence
        here = len(seen) // 2
        rows = torch.cat([torch.randint(here, (count,), generator=rng) + here * sentence for sentence in (0, 1)])
        state.select_rows(rows)
        seen = torch.cat([seen[rows], torch.randint(EOS + 1, VOCAB, (2 * count, 1), generator=rng)], 1)
        last = model.decode(seen[:, -1:], state)
        at_once = model.hidden(src.repeat_interleave(count, 0), seen)[:, -1:]
        torch.testing.assert_close(last, at_once, atol=1e-12, rtol=0)


def test_a_second_call_takes_one_token() -> None:
    model, src = build(), batch([3])
    state = model.start(model.encode(src), src)
    model.decode(src, state)
    with pytest.raises(ValueError, match="one token per row, not 2"):
        model.decode(src[:, :2], state)


def test_project_picks_the_same_logits() -> None:
    model = build(tie="none")
    src, trg_in = batch([5, 3]), batch([4, 2], seed=1)
    real = trg_in.ne(PAD)
    torch.testing.assert_close(model.project(model.hidden(src, trg_in)[real]), model(src, trg_in)[real])


def gradients(model: Transformer, src: Tensor, trg_in: Tensor) -> dict[str, Tensor]:
    loss = model(src, trg_in).log_softmax(-1)[trg_in.ne(PAD)].square().mean()
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def test_a_tied_table_gets_the_sum_of_the_gradients_of_the_tables_it_stands_for() -> None:
    src, trg_in = batch([5, 3]), batch([4, 2], seed=1)
    tied, half, free = build(tie="all"), build(tie="decoder"), build(tie="none")
    shared = tied.state_dict()
    half.load_state_dict({**shared, "src_embedding.weight": shared["embedding.weight"]})
    tables = {name: shared["embedding.weight"] for name in ("src_embedding.weight", "output.weight")}
    free.load_state_dict({**shared, **tables})
    one, two, three = (gradients(model, src, trg_in) for model in (tied, half, free))
    source, target, output = (three[f"{name}.weight"] for name in ("src_embedding", "embedding", "output"))
    for part in (source, target, output):
        assert part.abs().max() > 1e-4
    close = {"atol": 1e-13, "rtol": 1e-10}
    torch.testing.assert_close(one["embedding.weight"], source + target + output, **close)
    torch.testing.assert_close(two["embedding.weight"], target + output, **close)
    torch.testing.assert_close(two["src_embedding.weight"], source, **close)


@pytest.mark.parametrize(("tie", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_parameter_count_and_storage(tie: str, tables: int) -> None:
    model = Transformer(100, d_model=8, heads=2, encoder_layers=1, decoder_layers=1, ffn=16, tie=tie)  # type: ignore[arg-type]
    attention, feed_forward, norm = 4 * (8 * 8 + 8), 8 * 16 + 16 + 16 * 8 + 8, 16
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    assert model.parameter_count() == tables * 800 + encoder + decoder + 2 * norm
    stored = model.state_dict()
    assert sum(t.numel() for t in stored.values()) == model.parameter_count()
    assert len({t.data_ptr() for t in stored.values()}) == len(stored)  # nothing is stored twice


# ---------------------------------------------------------------------------------- determinism, devices, errors


def test_eval_is_deterministic_and_training_depends_on_the_seed_only() -> None:
    model = build(dropout=0.3, attention_dropout=0.2).float()
    src, trg_in = batch([5, 3]), batch([4, 2], seed=1)

    def run(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return model(src, trg_in)

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))
    model.eval()
    assert torch.equal(run(1), run(2))


@pytest.mark.parametrize("option", ["dropout", "attention_dropout"])
def test_each_dropout_acts_in_training(option: str) -> None:
    model = build(**{option: 0.5})
    src = batch([5, 3])
    torch.manual_seed(0)
    noisy = model(src, src)
    assert not torch.allclose(noisy, model.eval()(src, src))


def test_forward_never_reads_a_value() -> None:
    # On the "meta" device tensors have no values: anything that asks for one, and would make a GPU wait, raises.
    model = build().to("meta")
    src = torch.zeros(2, 5, dtype=torch.long, device="meta")
    assert model(src, src).shape == (2, 5, VOCAB)


def test_longest_sequence() -> None:
    model = build(max_len=6)
    model(batch([6]), batch([6]))
    for src, trg_in in ((batch([7]), batch([2])), (batch([2]), batch([7])), (batch([2]), batch([2])[:, :0])):
        with pytest.raises(ValueError, match=r"must have 1 to 6 tokens .* not (7|0)"):
            model(src, trg_in)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d_model": 10, "heads": 4}, "divisible by heads, not 10 with 4"),
        ({"d_model": 9, "heads": 3}, "even"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"attention_dropout": -0.1}, "attention_dropout"),
        ({"norm": "middle"}, "norm must be one of pre, post, not 'middle'"),
        ({"tie": "some"}, "tie must be one of all, decoder, none"),
        ({"activation": "tanh"}, "activation must be one of relu, gelu, swish"),
        ({"encoder_layers": 0}, "encoder_layers must be at least 1, not 0"),
        ({"ffn": 0}, "ffn must be at least 1"),
        ({"max_len": 0}, "max_len must be at least 1"),
        ({"pad": VOCAB}, r"pad must be an id of the vocabulary \(0 to 22\), not 23"),
    ],
)
def test_arguments_that_do_not_fit(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Transformer(VOCAB, **options)  # type: ignore[arg-type]
