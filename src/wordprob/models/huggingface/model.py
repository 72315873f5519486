"""A Hugging Face causal language model behind the seam: batches, shared beginnings, what is asked of each state."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wordprob.core.arrays import Floats, Ints, concat_ranges, cumulative_offsets
from wordprob.core.atoms import Atoms
from wordprob.errors import ModelError
from wordprob.kernels import HeadScorer, head_scorer, reference
from wordprob.models.batching import group_by_prefix, pack, padded_batches
from wordprob.models.huggingface.tokenizer import HFTokenizer
from wordprob.models.huggingface.varlen_attention import EndToEnd
from wordprob.models.protocol import PrefixStates, Request, Scores

if TYPE_CHECKING:
    import torch

BUDGET = 512
"""Tokens in a batch on a CPU, padding included: more at a time takes memory and is no faster."""
MOST = 32768
"""Tokens in a batch on a GPU, if there is memory for so many."""
IN_FLIGHT = 8
"""Batches that a GPU is given ahead of the one whose answers are read."""
PACK = 512
"""Tokens of rests that go behind one trunk at a time."""
AT_ONCE = 64
"""Tails whose states go through the head together."""
NOTHING = np.zeros(0)
UNLIMITED = 4096
"""Window for models that declare no limit."""

T = TypeVar("T")


class HFModel:
    """A causal model and its tokeniser.

    Parameters
    ----------
    model
        A transformers model with a language-modelling head.
    tokenizer
        Its tokeniser.
    metadata
        Where it came from.
    compile
        Compile what runs whole batches.
    """

    def __init__(
        self, model: Any, tokenizer: HFTokenizer, metadata: Mapping[str, str], *, compile: bool = False
    ) -> None:
        self._model = model.eval()
        self._model.config.use_cache = False
        self._budget = budget(model)
        self.tokenizer = tokenizer
        head = model.get_output_embeddings()
        self.vocab_size = int(head.weight.shape[0]) if head is not None else int(model.config.vocab_size)
        self.max_tokens = _max_tokens(model.config)
        self.metadata = dict(metadata)
        self._last: tuple[Atoms, HeadScorer] | None = None
        self._turn = threading.Lock()
        self._end_to_end: EndToEnd | None = None
        self._head = head if self._head_is_plain(head) else None
        self._masked = not self._padding_is_unseen()
        self._cached = self._cache_is_right()
        self._whole = self._compiled() if compile else self._run
        self._end_to_end = self._unpadded() if self._on_gpu else None

    # --- the observed path ---

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Return log p of every next id and the log-mass of every atom, as they come.

        Requests for all their rows go in batches of like length; those for their last rows only share the run of what
        comes before. The first batches are under way when this returns. Several threads may ask at a time.
        """
        launched = self._stepwise(self._launched(requests, atoms))
        waiting = deque(islice(launched, IN_FLIGHT if self._on_gpu else 0))
        return _answers(waiting, launched)

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Do as :meth:`score`."""
        return self.score(requests, atoms)

    def _launched(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[Answer]:
        masses = self._masses(atoms)
        groups = self._shared(requests)
        late = {n for group in groups.values() for n, _ in group}
        yield from self._launch_whole([n for n in range(len(requests)) if n not in late], requests, masses)
        for trunk, group in groups.items():
            yield from self._launch_late(requests[trunk].ids.tolist(), group, requests, masses)

    def _stepwise(self, steps: Iterator[T]) -> Iterator[T]:
        """Take one step after another without gradients, while no other thread does."""
        import torch

        end = object()
        while True:
            with self._turn, torch.inference_mode(), self._attention():
                found = next(steps, end)
            if found is end:
                return
            yield found  # type: ignore[misc]

    def _attention(self) -> AbstractContextManager[None]:
        """Leave out a kind of attention that is prepared for every shape anew: batches come in all shapes."""
        from torch.nn.attention import SDPBackend, sdpa_kernel

        if not self._on_gpu:
            return nullcontext()
        return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])

    def _launch_whole(self, chosen: Sequence[int], requests: Sequence[Request], masses: HeadScorer) -> Iterator[Answer]:
        """Run requests in batches of like length; where memory is short, in smaller ones from then on."""
        import torch

        left = deque([chosen[k] for k in batch] for batch in self._batches([len(requests[n].ids) for n in chosen]))
        while left:
            batch = left.popleft()
            answer = None
            try:
                asked = [requests[n] for n in batch]
                answer = self._launch(asked, batch, self._batch(asked), masses)
            except torch.OutOfMemoryError as error:
                lengths = [len(requests[n].ids) for n in batch]
                if len(batch) == 1:
                    raise ModelError(
                        f"the device has too little memory for one text of {lengths[0]} tokens; try --device cpu, or a "
                        "smaller model."
                    ) from error
            if answer is not None:
                yield answer
                continue
            torch.cuda.empty_cache()
            rest = [*batch, *chain.from_iterable(left)]
            self._budget = max(*lengths, sum(lengths) // 2)
            left = deque([rest[k] for k in part] for part in self._batches([len(requests[n].ids) for n in rest]))

    def _batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Cut into batches: of any lengths where they stand end to end, else of like ones.

        On a GPU even a small one takes as long as half a full one.
        """
        fits = [self._fits_a_row(length) for length in lengths]
        packed, padded = ([n for n, fit in enumerate(fits) if fit is wanted] for wanted in (True, False))
        least = self._budget // 2 if self._on_gpu else 0
        alike = padded_batches([lengths[n] for n in padded], self._budget, least=least)
        any_length = pack([lengths[n] for n in packed], self._budget)
        return [[padded[k] for k in batch] for batch in alike] + [[packed[k] for k in batch] for batch in any_length]

    def _fits_a_row(self, length: int) -> bool:
        return self._end_to_end is not None and length <= self._end_to_end.reach

    @property
    def _on_gpu(self) -> bool:
        on_gpu: bool = self._model.device.type == "cuda"
        return on_gpu

    @property
    def batch_tokens(self) -> int:
        """How many tokens run at a time."""
        return self._budget

    def _shared(self, requests: Sequence[Request]) -> dict[int, list[tuple[int, int]]]:
        """Return, by its longest member, each group of requests for late rows that begin alike."""
        late = [n for n, r in enumerate(requests) if r.first and self._cached and self._fits(len(r.ids))]
        groups = group_by_prefix([requests[n].ids.tolist() for n in late])
        return {late[trunk]: [(late[k], shared) for k, shared in group] for trunk, group in groups if len(group) > 1}

    def _launch_late(
        self,
        trunk: Sequence[int],
        group: Sequence[tuple[int, int]],
        requests: Sequence[Request],
        masses: HeadScorer,
    ) -> Iterator[Answer]:
        """Answer requests for late rows from one run of the trunk; ``group`` says how much each shares with it."""
        import torch

        tails = [(requests[n].ids.tolist(), min(requests[n].first, shared)) for n, shared in group]
        answers = self._tails(trunk, tails)
        while part := list(islice(answers, AT_ONCE)):
            chosen = [group[k][0] for k, _ in part]
            rows = [s[requests[n].first - tails[k][1] :] for n, (k, s) in zip(chosen, part, strict=True)]
            yield self._launch([requests[n] for n in chosen], chosen, torch.cat(rows), masses)

    def _batch(self, requests: Sequence[Request]) -> torch.Tensor:
        """Run requests together; return the states of the rows that they ask for, one request after another."""
        lengths, firsts = (np.array(values) for values in zip(*((len(r.ids), r.first) for r in requests), strict=True))
        if self._end_to_end is not None and self._fits_a_row(int(lengths.max())):
            states, begins = (
                self._in_a_row(self._end_to_end, [r.ids for r in requests]),
                cumulative_offsets(lengths)[:-1],
            )
        else:
            ids, mask = self._padded([r.ids for r in requests])
            states = self._whole(input_ids=ids, attention_mask=mask)[0].flatten(0, 1)
            begins = ids.shape[1] * np.arange(len(requests))
        rows = concat_ranges(begins + firsts, lengths - firsts)
        return states if len(rows) == len(states) else states[self._moved(rows)]

    def _in_a_row(self, runner: EndToEnd, rows: Sequence[Ints]) -> torch.Tensor:
        """Return the states of rows that stand end to end."""
        lengths = [len(row) for row in rows]
        places = concat_ranges(np.zeros(len(rows), dtype=np.int64), lengths)
        edges = self._moved(cumulative_offsets(lengths).astype(np.int32))
        return runner.run(self._whole, self._moved(np.concatenate(rows)), self._moved(places), edges, max(lengths))

    def _unpadded(self) -> EndToEnd | None:
        """Return what runs texts end to end, if it gives what running them side by side gives."""
        import torch

        rows = [np.array(row) for row in ([3, 4, 5, 6, 7], [3, 4, 7], [5, 3, 4, 7])]
        ids, mask = self._padded(rows)
        with torch.inference_mode(), self._attention():
            try:
                runner = EndToEnd(self._model)
                mine = self._in_a_row(runner, rows)
                plain = self._run(input_ids=ids, attention_mask=mask)[0]
            except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
                return None
        together = torch.cat([plain[n, : len(row)] for n, row in enumerate(rows)])
        return runner if all(_alike(*pair) for pair in zip(mine, together, strict=True)) else None

    def _launch(
        self, asked: Sequence[Request], chosen: Sequence[int], picked: torch.Tensor, masses: HeadScorer
    ) -> Answer:
        """Set everything going that these requests need of their states; nothing waits for the device here."""
        lengths, firsts = np.array([len(r.ids) for r in asked]), np.array([r.first for r in asked])
        edges = cumulative_offsets(lengths - firsts)
        ids, ends = np.concatenate([*(r.ids for r in asked), [0]]), np.cumsum(lengths)
        following = ids[1 + concat_ranges(ends - lengths + firsts, lengths - firsts)]
        following[edges[1:] - 1] = 0
        target, mass, normaliser = masses(picked, self._moved(following))
        found = {"target": target, "mass": mass}
        wanted = np.concatenate([low + r.gather - r.first for r, low in _from(asked, edges)])
        if len(wanted):
            chosen_lists = np.concatenate([r.gather_lists for r in asked])
            found["gathered"] = self._gather(picked, normaliser, wanted, chosen_lists, asked[0].id_lists)
        places = [low + r.statistics_rows - r.first for r, low in _from(asked, edges) if r.statistics]
        if places:
            rows = self._moved(np.concatenate(places))
            found["entropy"], found["rank"] = self._look(picked, rows, target + normaliser, normaliser)
        return Answer(chosen, asked, edges, found)

    def _look(
        self, picked: torch.Tensor, rows: torch.Tensor, target: torch.Tensor, normaliser: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the entropy at some rows and the rank of the id that came, a few rows at a time."""
        import torch

        entropy, rank = [], []
        for part in torch.split(rows, max(1, reference.ELEMENTS // self.vocab_size)):
            logits = self._logits(picked[part]).float()
            logs = logits - normaliser[part, None]
            entropy.append(-(logs.exp() * logs.clamp(min=-1e9)).sum(-1))
            rank.append(1 + (logits > target[part, None] + 1e-5).sum(-1))
        return torch.cat(entropy), torch.cat(rank)

    def _run(self, **inputs: Any) -> Any:
        """Run the model; the first output is hidden states where the head is a plain linear map, logits where not."""
        return self._trunk(**inputs)

    @property
    def _trunk(self) -> Any:
        return self._model if self._head is None else self._model.base_model

    def _compiled(self) -> Callable[..., Any]:
        """Return :meth:`_run` compiled for batches of any shape, once it was seen to agree with the readable one."""
        import torch

        fast: Callable[..., Any] = torch.compile(self._trunk.forward, dynamic=True)
        ids, mask = self._padded([[3, 4, 5, 6, 7], [3, 4, 7]])
        try:
            with torch.inference_mode(), self._attention():
                mine, plain = (
                    fast(input_ids=ids, attention_mask=mask)[0],
                    self._run(input_ids=ids, attention_mask=mask)[0],
                )
        except Exception as error:  # what a compiler says may be anything
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ModelError(f"the model could not be compiled: {reason}. Leave --compile out.") from error
        if not (_alike(mine[0], plain[0]) and _alike(mine[1, :3], plain[1, :3])):
            raise ModelError("the compiled model does not agree with the model itself. Leave --compile out.")
        return fast

    def _masses(self, atoms: Atoms) -> HeadScorer:
        """Return what turns states and targets into numbers, for this partition of the vocabulary."""
        import torch

        if self._last is None or self._last[0] is not atoms:
            of, count = torch.from_numpy(atoms.atom_of_token).to(self._model.device), len(atoms.labels)
            if self._head is None:
                members = reference.membership(of, count)
                self._last = atoms, lambda logits, targets: reference.score_logits(logits, targets, members)
            else:
                self._last = atoms, head_scorer(self._head.weight, self._head.bias, of, count)
        return self._last[1]

    def _logits(self, state: torch.Tensor) -> torch.Tensor:
        """Return the logits of a state."""
        if self._head is None:
            return state
        logits: torch.Tensor = state.float() @ self._head.weight.float().T
        return logits if self._head.bias is None else logits + self._head.bias.float()

    def _gather(
        self, picked: torch.Tensor, normaliser: torch.Tensor, rows: Ints, chosen: Ints, lists: Sequence[Ints]
    ) -> torch.Tensor:
        """Return the log-mass of a list of ids at each row: the logits of all listed ids once, then sums."""
        import torch

        used, which = np.unique(chosen, return_inverse=True)
        ids, place = np.unique(np.concatenate([lists[k] for k in used]), return_inverse=True)
        sizes = [len(lists[k]) for k in used]
        members = np.zeros((len(ids), len(used)))
        members[place, np.repeat(np.arange(len(used)), sizes)] = 1.0
        device, wide = picked.device, torch.float32 if picked.device.type == "mps" else torch.float64
        listed, held = self._moved(ids), torch.from_numpy(members).to(device, wide)
        found = []
        step = max(1, reference.ELEMENTS // max(len(ids), len(used)))
        for low in range(0, len(rows), step):
            here, column = self._moved(rows[low : low + step]), self._moved(which[low : low + step])
            logs = (self._logits_of(picked[here], listed) - normaliser[here, None]).to(wide)
            found.append((logs.exp() @ held).gather(1, column[:, None])[:, 0].log())
        return torch.cat(found)

    def _logits_of(self, states: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of some ids."""
        if self._head is None:
            return states[:, ids].float()
        logits: torch.Tensor = states.float() @ self._head.weight[ids].float().T
        return logits if self._head.bias is None else logits + self._head.bias[ids].float()

    def _padded(self, rows: Sequence[Sequence[int] | Ints]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return rows side by side, and which of it is no padding, for models that must be told."""
        lengths = np.array([len(row) for row in rows])
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.zeros(mask.shape, dtype=np.int64)
        ids[mask] = np.concatenate(rows)
        return self._moved(ids), self._moved(mask.astype(np.int64)) if self._masked else None

    def _moved(self, values: NDArray[Any]) -> torch.Tensor:
        """Return numbers on the device; from memory that it can read by itself, so that nobody waits."""
        import torch

        found = torch.from_numpy(values)
        return (found.pin_memory() if self._on_gpu else found).to(self._model.device, non_blocking=True)

    def _padding_is_unseen(self) -> bool:
        """Check on a few ids that what stands after a text changes nothing in it, as in every causal model."""
        import torch

        self._masked = True
        ids, mask = self._padded([[3, 4, 5, 6, 7], [3, 4, 7]])
        with torch.inference_mode():
            try:
                plain = self._run(input_ids=ids)[0]
                told = self._run(input_ids=ids, attention_mask=mask)[0]
            except (AttributeError, RuntimeError, TypeError, ValueError):
                return False
        return _alike(plain[1, :3], told[1, :3]) and _alike(plain[0], told[0])

    def _head_is_plain(self, head: Any) -> bool:
        """Check on a few ids that the logits are the head applied to the last hidden state, and nothing else.

        What the head gives is made much larger on its way, so that a cap or a scale after it shows.
        """
        import torch

        if head is None or not isinstance(head, torch.nn.Linear):
            return False
        ids = torch.arange(3, 8, device=self._model.device)[None]
        seen: list[torch.Tensor] = []

        def enlarge(_: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            seen.extend((inputs[0], output * 100))
            return output * 100

        hook = head.register_forward_hook(enlarge)
        try:
            with torch.inference_mode():
                logits = self._model(input_ids=ids).logits
                hidden = self._model.base_model(input_ids=ids)[0]
        except (RuntimeError, TypeError, ValueError):
            return False
        finally:
            hook.remove()
        pairs = ((seen[0], hidden), (seen[1], logits)) if len(seen) == 2 else ()
        return bool(pairs) and all(a.shape == b.shape and torch.allclose(a, b.to(a.dtype), rtol=1e-2) for a, b in pairs)

    # --- off the observed path ---

    def next_logprobs(self, prefixes: Sequence[Sequence[int]]) -> Iterator[tuple[int, Floats]]:
        """Yield the log-distribution after each prefix: what :meth:`score` sums up, in full.

        What prefixes share is run once if the model has a cache.
        """
        yield from self._stepwise(self._next_logprobs(prefixes))

    def _next_logprobs(self, prefixes: Sequence[Sequence[int]]) -> Iterator[tuple[int, Floats]]:
        if not self._cached:
            yield from self._each(range(len(prefixes)), prefixes)
            return
        for trunk, members in group_by_prefix(prefixes):
            if self._fits(len(prefixes[trunk])):
                tails = [(prefixes[n], min(shared, len(prefixes[n]) - 1)) for n, shared in members]
                yield from ((members[k][0], row) for k, row in self._after(prefixes[trunk], tails))
            else:
                yield from self._each([n for n, _ in members], prefixes)

    def _after(self, trunk: Sequence[int], tails: Sequence[tuple[Sequence[int], int]]) -> Iterator[tuple[int, Floats]]:
        """Yield the log-distribution after each of the tails."""
        import torch

        last = ((k, states[-1]) for k, states in self._tails(trunk, tails))
        while part := list(islice(last, AT_ONCE)):
            found = _log_softmax(self._logits(torch.stack([state for _, state in part])))
            yield from ((k, row) for (k, _), row in zip(part, found, strict=True))

    def _each(self, chosen: Sequence[int], prefixes: Sequence[Sequence[int]]) -> Iterator[tuple[int, Floats]]:
        """Run every prefix in full: the readable twin of :meth:`_tails`."""
        for batch in self._batches([len(prefixes[n]) for n in chosen]):
            rows = [chosen[k] for k in batch]
            ids, mask = self._padded([prefixes[n] for n in rows])
            logits = self._model(input_ids=ids, attention_mask=mask).logits
            for k, n in enumerate(rows):
                yield n, _log_softmax(logits[k, len(prefixes[n]) - 1])

    def _tails(
        self, trunk: Sequence[int], tails: Sequence[tuple[Sequence[int], int]]
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the states of sequences from the place where each leaves the trunk.

        ``tails`` pairs whole sequences with the number of ids taken from the trunk. The trunk is run once; then the
        rests stand one after another in a row, each seeing its part of the trunk and itself.
        """
        import torch

        ids, _ = self._padded([trunk])
        cache = self._run(input_ids=ids, use_cache=True).past_key_values
        for members in pack([len(row) - shared for row, shared in tails], PACK):
            part = [(tails[k][0][tails[k][1] :], tails[k][1]) for k in members]
            mask = _visible(len(trunk), part).to(ids.device)
            states = self._run(
                input_ids=torch.tensor([[i for rest, _ in part for i in rest]], device=ids.device),
                position_ids=torch.tensor([[s + k for rest, s in part for k in range(len(rest))]], device=ids.device),
                attention_mask=mask.to(self._model.dtype) * torch.finfo(self._model.dtype).min,
                past_key_values=cache,
                use_cache=True,
            )[0][0]
            cache.crop(-len(states))
            yield from zip(members, states.split([len(rest) for rest, _ in part]), strict=True)

    def _fits(self, trunk: int) -> bool:
        """A sliding window counts places in the cache, so a trunk longer than it would be seen wrongly."""
        slides = getattr(self._model.config, "sliding_window", None)
        return slides is None or trunk + PACK < slides

    def _cache_is_right(self) -> bool:
        """Check on a few ids that running from a shared prefix gives what running in full gives."""
        import torch

        prefixes = [[3, 4, 5, 6, 7], [3, 4, 7], [3, 4, 5, 7, 6]]
        with torch.inference_mode():
            try:
                found = dict(self._tails(prefixes[0], [(prefixes[1], 2), (prefixes[2], 3)]))
            except (AttributeError, RuntimeError, TypeError, ValueError, IndexError):
                return False
            whole = dict(self._each([1, 2], prefixes))
            mine = [_log_softmax(self._logits(found[k][-1])) for k in (0, 1)]
        return all(np.allclose(mine[k], whole[k + 1], rtol=1e-2, atol=1e-2) for k in (0, 1))


class Answer:
    """What was set going for a batch of requests; the device may still be at work on it.

    Everything is copied to the host as soon as it is there, and waited for only when it is asked for.
    """

    def __init__(
        self, chosen: Sequence[int], asked: Sequence[Request], edges: Ints, found: Mapping[str, torch.Tensor]
    ) -> None:
        self._chosen, self._asked, self._edges = chosen, asked, edges
        self._found = {name: values.to("cpu", non_blocking=True) for name, values in found.items()}
        self._done = _event(next(iter(found.values())).device)

    def scores(self) -> Iterator[tuple[int, Scores]]:
        """Yield the scores of each request."""
        if self._done is not None:
            self._done.synchronize()
        found = {name: self._own(values) for name, values in self._found.items()}
        low, high = self._edges[:-1].tolist(), self._edges[1:].tolist()
        pair = row = 0
        for n, request, a, b in zip(self._chosen, self._asked, low, high, strict=True):
            gathered = found["gathered"][pair : pair + len(request.gather)] if len(request.gather) else NOTHING
            pair += len(request.gather)
            looked = slice(row, row + (len(request.statistics_rows) if request.statistics else 0))
            row = looked.stop
            extra = {name: found[name][looked] for name in request.statistics}
            yield n, Scores(found["target"][a : b - 1], found["mass"][a:b], gathered, extra)

    def _own(self, values: torch.Tensor) -> Floats:
        """Return numbers in memory of their own: what the device writes to is scarce."""
        found: Floats = values.numpy() if self._done is None else values.numpy().copy()
        return found


def _answers(waiting: deque[Answer], launched: Iterator[Answer]) -> Iterator[tuple[int, Scores]]:
    """Yield the scores of what is under way, oldest first, and set one more going for each that is read."""
    for answer in launched:
        waiting.append(answer)
        yield from waiting.popleft().scores()
    while waiting:
        yield from waiting.popleft().scores()


def _alike(mine: torch.Tensor, plain: torch.Tensor) -> bool:
    """Say whether two ways to the same states agree, but for rounding."""
    return bool((mine.float() - plain.float()).norm() <= 0.05 * plain.float().norm())


def _event(device: torch.device) -> torch.cuda.Event | None:
    import torch

    if device.type != "cuda":
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event


def _from(asked: Sequence[Request], edges: Ints) -> Iterator[tuple[Request, int]]:
    """Pair requests with where their rows begin."""
    return zip(asked, edges[:-1].tolist(), strict=True)


def budget(model: Any) -> int:
    """Return how many tokens to run at a time: on a GPU as many as fit into half of its free memory."""
    import torch

    if model.device.type != "cuda":
        return BUDGET
    free, _ = torch.cuda.mem_get_info(model.device)
    config = model.config
    hidden = int(getattr(config, "hidden_size", 4096))
    inner = int(getattr(config, "intermediate_size", None) or 4 * hidden)
    size = 2 * torch.finfo(model.dtype).bits // 8 * (8 * hidden + 3 * inner)
    return int(min(max(free // 2 // size, 1024), MOST))


def _visible(trunk: int, part: Sequence[tuple[Sequence[int], int]]) -> torch.Tensor:
    """Return ``[1, 1, Q, trunk + Q]``: one where a position must not look."""
    import torch

    owner = torch.tensor([n for n, (rest, _) in enumerate(part) for _ in rest])
    shared = torch.tensor([s for rest, s in part for _ in rest])
    place = torch.arange(len(owner))
    before = torch.arange(trunk)[None] < shared[:, None]
    own = (owner[:, None] == owner[None]) & (place[:, None] >= place[None])
    return ~torch.cat([before, own], dim=1)[None, None]


def _array(values: torch.Tensor) -> Floats:
    return values.double().cpu().numpy()


def _log_softmax(logits: torch.Tensor) -> Floats:
    import torch

    return _array(torch.log_softmax(logits.float(), dim=-1))


def _max_tokens(config: Any) -> int:
    for name in ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"):
        limit = getattr(config, name, None)
        if isinstance(limit, int) and limit > 0:
            return limit
    return UNLIMITED
