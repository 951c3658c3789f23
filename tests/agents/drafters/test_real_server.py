"""A real server: `transformers serve` with a tiny model of random (synthetic) weights made here. It talks nonsense."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.drafters import DraftEnd, draft_with
from agents.drafters.llm import Limits, LlmDrafter, LlmSettings, MemoryLedger
from agents.drafters.llm.doctor import examine
from agents.types import Diagnosis, DraftContext

START_S = 240.0
LAUNCH = """
import sys, transformers.modeling_utils as m
m.check_and_set_device_map = lambda device_map: None
from transformers.cli.transformers import main
sys.argv[0] = "transformers"
main()
"""
"""The command, without placing weights by a device map: that needs `accelerate`, and here is only the CPU."""
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
LIMITS = Limits(turns=2, answer_tokens=24, call_seconds=200.0, unusable=2)


def tiny_model(folder: Path) -> None:
    """A Llama of two thin layers over single bytes, weights as they are drawn."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={**{c: i for i, c in enumerate(letters)}, "<e>": 256}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<e>", pad_token="<e>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
    config = LlamaConfig(
        vocab_size=257, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=65_536,
        eos_token_id=256, pad_token_id=256, bos_token_id=256, **sizes,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(7)
        LlamaForCausalLM(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Base URL and model name of the running server."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_model(folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [
        sys.executable,
        "-c",
        LAUNCH,
        "serve",
        str(folder),
        "--port",
        str(port),
        "--host",
        "127.0.0.1",
        "--device",
        "cpu",
    ]
    log = folder / "server.log"
    with log.open("wb") as out:
        child = subprocess.Popen(argv, stdout=out, stderr=out, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    try:
        wait_for(f"http://127.0.0.1:{port}/v1/models", child, log)
        yield f"http://127.0.0.1:{port}/v1", str(folder)
    finally:
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(30)


def wait_for(url: str, child: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        assert child.poll() is None, log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.5)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_draft_of_a_model_that_talks_nonsense_ends_in_budget_without_a_candidate(
    server: tuple[str, str], pow_cause: Diagnosis, context: DraftContext, trajectory: Any
) -> None:
    url, name = server
    ledger = MemoryLedger(5.0)
    settings = LlmSettings(base_url=url, model=name, daily_budget_usd=5.0, limits=LIMITS, retries=0)
    outcome = draft_with("llm", [pow_cause], replace(context, budget=ledger), LlmDrafter(settings))
    assert outcome.candidates == ()
    [report] = outcome.reports
    assert report.end is DraftEnd.LIMIT, report.reason
    assert report.cost_usd is None, "no price is set: the cost is unknown, not 0"
    assert 0 < ledger.charged_usd <= 5.0
    assert [step["kind"] for step in trajectory.steps] == ["start", *["answer", "malformed"] * 2, "end"]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_doctor_says_that_its_tool_calls_cannot_be_used(server: tuple[str, str]) -> None:
    url, name = server
    settings = LlmSettings(base_url=url, model=name, daily_budget_usd=5.0, limits=LIMITS, retries=0)
    found = examine(settings, lambda: None)
    checks = {check.name: check for check in found.checks}
    assert checks["endpoint answers"].passed
    assert checks["protocol"].passed is False
    assert found.protocol is None
