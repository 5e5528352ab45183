"""Our network equals Marian (Hugging Face's MarianMTModel), an independent implementation. Nothing is downloaded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pmd_lite.exchange.huggingface import from_huggingface, to_huggingface
from pmd_lite.model.decoding import beam_search, translate_batch
from pmd_lite.model.transformer import Transformer

transformers = pytest.importorskip("transformers")

VOCAB, PAD, EOS = 37, 0, 3  # Marian starts the decoder with the pad token: BOS is PAD here


def build_marian(activation: str, share: bool) -> Any:
    """A small random Marian model: post-norm, scaled embeddings, sines and cosines side by side."""
    config = transformers.MarianConfig(
        vocab_size=VOCAB, decoder_vocab_size=VOCAB, d_model=24, max_position_embeddings=32,
        encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=40, decoder_ffn_dim=40, activation_function=activation, dropout=0.0, scale_embedding=True,
        share_encoder_decoder_embeddings=share, tie_word_embeddings=True,
        pad_token_id=PAD, eos_token_id=EOS, bos_token_id=PAD, decoder_start_token_id=PAD, forced_eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    marian = transformers.MarianMTModel(config).eval()
    for name, parameter in marian.named_parameters():
        if "embed_positions" not in name:  # positions are not weights; all else is random and large enough to matter
            torch.nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.4)
    torch.nn.init.normal_(marian.final_logits_bias, std=0.4)  # opus-mt's are of this kind
    return marian


def sentences() -> Tensor:
    """Four source sentences that end in EOS, padded on the right."""
    ids = torch.randint(EOS + 1, VOCAB, (4, 9), generator=torch.Generator().manual_seed(1))
    for row, length in enumerate((9, 4, 6, 2)):
        ids[row, length - 1] = EOS
        ids[row, length:] = PAD
    return ids


@pytest.mark.parametrize("activation", ["swish", "relu", "gelu"])
@pytest.mark.parametrize("share", [True, False])
def test_same_logits(activation: str, share: bool) -> None:
    marian = build_marian(activation, share)
    ours = from_huggingface(marian)
    src = sentences()
    trg_in = torch.randint(EOS + 1, VOCAB, (4, 7), generator=torch.Generator().manual_seed(2))
    trg_in[:, 0] = PAD
    with torch.no_grad():
        expected = marian(input_ids=src, attention_mask=src.ne(PAD), decoder_input_ids=trg_in).logits
        logits = ours(src, trg_in)
    assert expected.std(dim=(0, 1)).max() > 1  # logits that are alike everywhere would prove little
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


def test_same_greedy_translations() -> None:
    marian = build_marian("swish", share=True)
    ours = from_huggingface(marian)
    src = sentences()
    generated = marian.generate(
        input_ids=src, attention_mask=src.ne(PAD), num_beams=1, do_sample=False, max_new_tokens=12,
        bad_words_ids=[[PAD]],
    )  # fmt: skip
    expected = [[token for token in row.tolist() if token not in (PAD, EOS)] for row in generated]
    found = translate_batch(ours, src, beam=1, max_len=12, bos=PAD, eos=EOS, pad=PAD)
    assert [hypothesis.tokens for hypothesis in found] == expected
    assert len({tuple(tokens) for tokens in expected}) > 1


@pytest.mark.slow
def test_same_5_best_and_scores_as_generate() -> None:
    """generate(early_stopping=True) stops as stop="full" does. Random networks, in ours and in Marian."""
    compared: list[int] = []
    for seed in range(4):
        torch.manual_seed(seed)
        model = Transformer(VOCAB, d_model=24, heads=4, ffn=40, norm="post", dropout=0.0, max_len=64, pad=PAD).eval()
        for name, parameter in model.named_parameters():
            torch.nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.4)
        last_norm = [module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)][-1]
        last_norm.bias.data = 1.5 * model.embedding.weight.data[EOS]  # else hardly anything would end
        src = torch.cat([sentences(), sentences().flip(0).roll(1, 1).clamp_min(EOS + 1)])
        generated = to_huggingface(model, bos=PAD, eos=EOS).generate(
            input_ids=src, attention_mask=src.ne(PAD), num_beams=5, num_return_sequences=5, do_sample=False,
            max_new_tokens=41, length_penalty=1.0, early_stopping=True, bad_words_ids=[[PAD]],
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        found = beam_search(model, src, beam=5, n_best=5, max_len=40, stop="full", bos=PAD, eos=EOS, pad=PAD)
        rows, scores = generated.sequences.view(len(src), 5, -1), generated.sequences_scores.view(-1, 5)
        for hypotheses, theirs, their_scores in zip(found, rows.tolist(), scores.tolist(), strict=True):
            if all(EOS in row for row in theirs):  # what never ends is cut off in another way
                assert [h.tokens for h in hypotheses] == [[t for t in row if t not in (PAD, EOS)] for row in theirs]
                assert [h.score for h in hypotheses] == pytest.approx(their_scores, abs=1e-4)
                compared += [len(h.tokens) for h in hypotheses]
    assert len(compared) >= 100
    assert max(compared) > 10
