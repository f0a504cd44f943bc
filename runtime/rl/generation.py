"""Batched generation on a thread: what waits is generated together, weights change in between.

Requests that wait form a cohort: one padded prefill, then one token a step for all its rows.
Several cohorts take turns, so a long completion holds back nobody. Weights are replaced between
two steps, never within one; requests in flight go on with their cache, as prime-rl's pause mode
`keep` does.

Shapes: B rows of a cohort, T tokens so far, V vocabulary.
"""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import torch
from transformers import DynamicCache, PreTrainedModel

from runtime.rl.sampling import SamplingParams, draw, processed_logprobs

MAX_COHORTS = 4
MAX_COHORT_ROWS = 256
GATHER_S = 0.1
"""How long an idle engine waits for company: a batch costs little more than one of its rows."""
_MIN_LOGPROB = -9998.0  # verifiers refuses -9999.0, vLLM's mark for a missing one


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """What a request gets: token ids with the stop token, and a log-probability each."""

    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str


@dataclass(eq=False, kw_only=True, slots=True)
class Request:
    """A prompt on its way; `cancelled` drops it at the next step."""

    prompt_ids: list[int]
    params: SamplingParams
    future: Future[Completion] = field(default_factory=Future)
    cancelled: bool = False
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class _Cohort:
    """Rows that share a cache; `live` are the places in the cache of requests not yet done."""

    requests: list[Request]
    cache: DynamicCache
    attention_BT: torch.Tensor
    last_B: torch.Tensor
    positions_B: torch.Tensor


class Generator:
    """Owns the model; every touch of it happens on the generator's thread."""

    def __init__(self, model: PreTrainedModel, *, max_length: int, seed: int = 0) -> None:
        """Take the model over; `start` begins to serve."""
        self.max_length = max_length
        self._model = model.eval()
        self._device = next(model.parameters()).device
        self._random = torch.Generator(device=self._device).manual_seed(seed)
        self._waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._commands: queue.SimpleQueue[tuple[Callable[[PreTrainedModel], None], Future[None]]]
        self._commands = queue.SimpleQueue()
        self._cohorts: list[_Cohort] = []
        self._running = threading.Event()
        self._running.set()
        self._thread = threading.Thread(target=self._loop, name="generator", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, prompt_ids: list[int], params: SamplingParams) -> Request:
        """Queue a prompt; its future holds the completion."""
        room = self.max_length - len(prompt_ids)
        wanted = params.max_tokens if params.max_tokens is not None else room
        if room < 1:
            raise ValueError(
                f"the prompt has {len(prompt_ids)} tokens, the context {self.max_length}"
            )
        request = Request(
            prompt_ids=prompt_ids, params=replace(params, max_tokens=min(room, wanted))
        )
        request.future.set_running_or_notify_cancel()  # only the generator's thread ends it
        self._waiting.put(request)
        return request

    def run(self, command: Callable[[PreTrainedModel], None]) -> Future[None]:
        """Run a command on the model between two steps, also while paused."""
        future: Future[None] = Future()
        self._commands.put((command, future))
        self._waiting.put(None)  # wakes the loop
        return future

    def pause(self) -> None:
        """Stop before the next step; requests are kept."""
        self._running.clear()

    def resume(self) -> None:
        """Go on."""
        self._running.set()
        self._waiting.put(None)

    def _loop(self) -> None:
        backlog: list[Request] = []
        with torch.inference_mode():
            while True:
                idle = not (self._running.is_set() and (self._cohorts or backlog))
                backlog += self._take(block=idle)
                if idle and backlog and self._running.is_set():
                    backlog += self._gather(len(backlog))
                self._run_commands()
                if self._running.is_set():
                    backlog = self._advance(backlog)

    def _take(self, *, block: bool) -> list[Request]:
        taken: list[Request] = []
        while True:
            try:
                item = self._waiting.get(block=block)
            except queue.Empty:
                return taken
            block = False
            if item is not None:
                taken.append(item)

    def _gather(self, num_rows: int) -> list[Request]:
        """Wait for company; a command in between (a None) ends the waiting."""
        taken: list[Request] = []
        deadline = time.monotonic() + GATHER_S
        while num_rows + len(taken) < MAX_COHORT_ROWS:
            try:
                item = self._waiting.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if item is None:
                break
            taken.append(item)
        return taken

    def _run_commands(self) -> None:
        while not self._commands.empty():
            command, future = self._commands.get()
            try:
                command(self._model)
                future.set_result(None)
            except Exception as error:  # the caller answers for it over HTTP
                future.set_exception(error)

    def _advance(self, backlog: list[Request]) -> list[Request]:
        if backlog and len(self._cohorts) < MAX_COHORTS:
            taken, backlog = backlog[:MAX_COHORT_ROWS], backlog[MAX_COHORT_ROWS:]
            self._guarded(taken, lambda: self._cohorts.append(self._prefill(taken)))
        for cohort in list(self._cohorts):
            self._guarded(cohort.requests, lambda cohort=cohort: self._step(cohort))
        self._cohorts = [cohort for cohort in self._cohorts if _live(cohort.requests)]
        return backlog

    def _guarded(self, requests: list[Request], work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # one of the two loops: a bad batch must not end the server
            for request in _live(requests):
                request.future.set_exception(error)

    def _prefill(self, requests: list[Request]) -> _Cohort:
        width = max(len(request.prompt_ids) for request in requests)
        ids_BT = torch.zeros(len(requests), width, dtype=torch.long)
        attention_BT = torch.zeros(len(requests), width, dtype=torch.long)
        for row, request in enumerate(requests):
            start = width - len(request.prompt_ids)
            ids_BT[row, start:] = torch.tensor(request.prompt_ids)
            attention_BT[row, start:] = 1
        ids_BT, attention_BT = ids_BT.to(self._device), attention_BT.to(self._device)
        cache = DynamicCache(config=self._model.config)
        output = self._model(
            input_ids=ids_BT,
            attention_mask=attention_BT,
            position_ids=(attention_BT.cumsum(-1) - 1).clamp(min=0),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cohort = _Cohort(
            requests=requests,
            cache=cache,
            attention_BT=attention_BT,
            last_B=ids_BT[:, -1],
            positions_B=attention_BT.sum(-1),
        )
        self._pick(cohort, output.logits[:, -1])
        return cohort

    def _step(self, cohort: _Cohort) -> None:
        _drop_finished(cohort)
        if not cohort.requests:
            return
        ones_B1 = cohort.attention_BT.new_ones(len(cohort.requests), 1)
        cohort.attention_BT = torch.cat([cohort.attention_BT, ones_B1], dim=1)
        output = self._model(
            input_ids=cohort.last_B[:, None],
            attention_mask=cohort.attention_BT,
            position_ids=cohort.positions_B[:, None],
            past_key_values=cohort.cache,
            use_cache=True,
        )
        cohort.positions_B = cohort.positions_B + 1
        self._pick(cohort, output.logits[:, -1])

    def _pick(self, cohort: _Cohort, logits_BV: torch.Tensor) -> None:
        params = [request.params for request in cohort.requests]
        for row, request in enumerate(cohort.requests):
            if len(request.token_ids) < request.params.min_tokens:
                logits_BV[row, list(request.params.stop_token_ids)] = -torch.inf
        logprobs_BV = processed_logprobs(logits_BV, params)
        cohort.last_B = draw(logprobs_BV, params, self._random)
        picked_B = logprobs_BV.gather(-1, cohort.last_B[:, None]).squeeze(-1)
        for request, token, logprob in zip(
            cohort.requests, cohort.last_B.tolist(), picked_B.tolist(), strict=True
        ):
            _append(request, token, logprob)


def _append(request: Request, token: int, logprob: float) -> None:
    if request.future.done():
        return
    request.token_ids.append(token)
    request.logprobs.append(max(logprob, _MIN_LOGPROB))
    reason = _finish_reason(request, token)
    if reason is not None:
        request.future.set_result(
            Completion(token_ids=request.token_ids, logprobs=request.logprobs, finish_reason=reason)
        )


def _finish_reason(request: Request, token: int) -> str | None:
    if request.cancelled:
        return "abort"
    if token in request.params.stop_token_ids:
        return "stop"
    limit = request.params.max_tokens
    return "length" if limit is not None and len(request.token_ids) >= limit else None


def _live(requests: list[Request]) -> list[Request]:
    return [request for request in requests if not request.future.done()]


def _drop_finished(cohort: _Cohort) -> None:
    """Remove finished rows once they are half of the cohort: compacting copies the whole cache."""
    rows = [row for row, item in enumerate(cohort.requests) if not item.future.done()]
    if len(rows) * 2 > len(cohort.requests):
        return
    kept = torch.tensor(rows, dtype=torch.long, device=cohort.last_B.device)
    cohort.requests = [cohort.requests[row] for row in rows]
    if not rows:
        return
    cohort.cache.batch_select_indices(kept)
    cohort.attention_BT = cohort.attention_BT[kept]
    cohort.last_B = cohort.last_B[kept]
    cohort.positions_B = cohort.positions_B[kept]
