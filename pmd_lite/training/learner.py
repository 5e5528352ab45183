"""One model with its optimiser: the part of a student that a trial copies.

The three methods `begin`, `accumulate`, `finish` make one update. Dropout is a function of (seed, update, micro-batch)
alone, because the generator is seeded before every forward pass. So a student's path does not depend on the students
beside it, the three trials of a search see the same dropout, and a resumed run continues to the same bits.
"""

import copy
import functools
import math
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any, Self

import torch
from torch import Tensor, nn

from pmd_lite.config import Config
from pmd_lite.data.batching import Batch
from pmd_lite.data.tokenizer import PAD
from pmd_lite.distillation.fused import Mix, projected_loss
from pmd_lite.distillation.projection import output_of, token_states
from pmd_lite.errors import UserError, reason
from pmd_lite.interfaces import Distiller, Target
from pmd_lite.model.optimizer import AdamW
from pmd_lite.model.transformer import Transformer
from pmd_lite.training.distributed import ALONE, Group, current
from pmd_lite.training.gradients import SummedGradients
from pmd_lite.training.precision import Precision, choose
from pmd_lite.training.seeds import Stream, derive_seed, seed_torch

_RULE = ("betas", "eps", "weight_decay", "decoupled_weight_decay", "amsgrad")
"""Settings that decide an optimiser's step besides its moments. A state saved by torch's Adam has others."""
_SENT_AS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def pick_device(name: str, precision: str) -> torch.device:
    """The device to train on. Raises UserError when the machine lacks it or it cannot compute in the precision."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available[name]:
        raise UserError(f"device={name}: this machine or this torch build has none; use device=auto")
    if precision == "fp16" and name != "cuda":
        raise UserError(f"precision=fp16 needs a CUDA device and this is {name}: use precision=fp32 or bf16")
    return torch.device("cuda", current().local_rank) if name == "cuda" and current().size > 1 else torch.device(name)


@functools.cache
def check_compiler(device: torch.device) -> None:
    """Raises UserError when torch.compile cannot make code for a device."""
    try:
        torch.compile(torch.sin)(torch.zeros(2, device=device))
    except Exception as error:  # many kinds: no compiler, no Triton, no backend for this device
        what = f"compile=True: PyTorch cannot compile for {device.type} here ({reason(error)})"
        raise UserError(f"{what}. A CPU needs a C++ compiler, CUDA needs Triton. Or set compile=False") from None


def learning_rate(update: int, peak: float, warmup: int) -> float:
    """Linear warm-up to `peak`, then inverse square root (Vaswani et al. 2017). `update` counts from 1."""
    return peak * min(update / warmup, math.sqrt(warmup / update))


class Learner:
    """A model, its AdamW state, its gradient scaler (CUDA fp16 only) and its update counter."""

    def __init__(self, vocab_size: int, config: Config, device: torch.device, seed: int):
        self.config, self.device, self.seed, self.updates = config, device, seed, 0
        seed_torch(derive_seed(seed, Stream.INIT))
        self.model = Transformer(vocab_size, **asdict(config.model), pad=PAD).to(device)
        self.optimizer = self._new_optimizer()
        self.begin()
        self.use(choose(config.train.precision, device, config.model.d_model))
        if config.train.compile:
            check_compiler(device)
            self._compile()

    def _new_optimizer(self) -> AdamW:
        """fairseq's `adam`, which decouples weight decay from the gradient (Loshchilov and Hutter 2019).

        With L2 in the gradient instead, Adam would divide the decay by the gradient's size. Losses are means over
        thousands of tokens, so gradients are small, and the model would learn from little but the decay.
        """
        o, fused = self.config.optim, self.device.type in ("cpu", "cuda")
        return AdamW(self.model.parameters(), o.lr, o.betas, o.eps, o.weight_decay, fused=fused)

    def use(self, precision: Precision) -> None:
        """Compute in this precision from now on."""
        self.precision = precision
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision.scaled)

    def _compile(self) -> None:
        """Let PyTorch compile a layer's forward and backward pass; all layers and students share the code."""
        for layer in (*self.model.encoder, *self.model.decoder):
            layer.compile(dynamic=True)  # one code for all lengths

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision of forward passes. Losses stay in fp32."""
        dtype = self.precision.dtype
        return torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None)

    def begin(self, group: Group = ALONE) -> None:
        """Be ready for an update, without gradients yet; the ranks of `group` share its micro-batches."""
        if not self.model.training:  # setting a mode visits every module
            self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        self.gradients = SummedGradients(self.model, group, _SENT_AS[self.config.train.gradients])

    def accumulate(
        self, batch: Batch, alpha: float, target: Target | None, distiller: Distiller | None, tokens: int, micro: int,
        salt: int = 0, last: bool = True,
    ) -> Tensor:  # fmt: skip
        """Add one micro-batch's gradient.

        Args:
            alpha: distillation weight of the batch's pair; at 0 the loss is L_ce itself, to the bit.
            target: what the teachers predict, or None when alpha is 0.
            distiller: says how L_ce and L_kd are mixed (Eq. 4); may be None when alpha is 0.
            tokens: real target tokens of the whole update, which normalise the loss.
            micro, salt: number of this micro-batch in the update, and of the search in which this is a trial (0: none).
            last: whether it is this rank's last one in this update.
        Returns: [3] sums of L_ce, L_kd and plain NLL over this batch, in nats, on the device, without gradient.
        """
        mix, smoothing = Mix(), self.config.optim.label_smoothing  # at first L_ce alone
        if alpha != 0:
            if target is None or distiller is None:
                raise ValueError(f"alpha={alpha} needs a target and a distiller")
            ce, kd = distiller.factors(alpha)  # Eq. 4: 1 - alpha and alpha
            mix = Mix(ce, kd, target, functools.partial(distiller.trust, batch=batch) if distiller.gated else None)
        seed_torch(derive_seed(self.seed, Stream.DROPOUT, self.updates, micro, salt))
        with self.autocast():
            hidden = token_states(self.model, batch.src, batch.trg_in, batch.keep)
            loss, sums = projected_loss(hidden, output_of(self.model), batch.gold, smoothing, mix)
        with self.gradients.last_pass(last):
            self.scaler.scale(loss / tokens).backward()
        return sums

    def finish(self, sums: Tensor | None = None) -> None:
        """Clip, step, advance the schedule. Order: sum over ranks, unscale, clip, step, update the scaler.

        It frees the gradients, so that those of one student take no memory while another student trains.
        sums: any numbers to be summed over the ranks too, in place.
        """
        o = self.config.optim
        self.gradients.finish(torch.zeros(0) if sums is None else sums)
        self.scaler.scale(torch.zeros((), device=self.device))  # a rank without a micro-batch has scaled no loss yet
        self.updates += 1
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = learning_rate(self.updates, o.lr, o.warmup)
        if o.clip:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), o.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.begin()

    @property
    def lr(self) -> float:
        """Learning rate of the last update."""
        return learning_rate(max(1, self.updates), self.config.optim.lr, self.config.optim.warmup)

    def overflow_skips(self) -> int:
        """Updates that the scaler skipped because fp16 overflowed. Reads the device: for evaluations only.

        Trials that are not rolled back (fidelity "released") add steps of their own; then this is a lower bound.
        """
        if not self.scaler.is_enabled() or not self.updates:
            return 0
        done = next((int(s["step"].item()) for s in self.optimizer.state.values()), 0)
        return max(0, self.updates - done)

    def copy(self) -> Self:
        """An independent twin: Alg. 2's theta' <- theta, with its Adam moments, scaler and counter."""
        twin = copy.copy(self)
        twin.model = copy.deepcopy(self.model)  # a copy has no compiled code
        if self.config.train.compile:
            twin._compile()
        twin.optimizer = twin._new_optimizer()
        twin.optimizer.load_state_dict(copy.deepcopy(self.optimizer.state_dict()))
        twin.use(self.precision)
        twin.scaler.load_state_dict(self.scaler.state_dict())
        return twin

    def state_dict(self) -> dict[str, Any]:
        """Everything but the weights, which have a file of their own."""
        optimizer, scaler = self.optimizer.state_dict(), self.scaler.state_dict()
        return {"optimizer": optimizer, "scaler": scaler, "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`. Moments come from the state; settings such as betas come from the configuration."""
        rule = dict(self.optimizer.defaults)
        self.optimizer.load_state_dict(state["optimizer"])
        for group in self.optimizer.param_groups:
            group.update({name: rule[name] for name in _RULE if name in rule})
        if self.scaler.is_enabled() and state["scaler"]:  # a run begun on another kind of device may have saved none
            self.scaler.load_state_dict(state["scaler"])
        self.updates = state["updates"]
