"""The spine: a model that fails becomes a reviewed adapter that works in one line, with every part real.

Local Hub listing → failure → diagnosis, whose script fails alike by itself → draft (rules for one model, the coding
agent for another) → gate → review over REST → release → exactly the affected rows run again → coverage rises →
`encode()` agrees with stock. A model of known structure that is listed later has its verdict at once. What the agent
drafted is proposed as a rule, which is accepted. Afterwards the agent's conversation replays without the model, and the
database holds what it must.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.endpoint import serve
from pipeline.catalogue.local_hub import LocalHub, model_from_entry
from pipeline.catalogue.starter import find_starter
from pipeline.diagnosis.reproducer.signature import printed
from pipeline.execution.folders import packaged_folder

from .service import Service

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
ALBERT = "sentence-transformers/paraphrase-albert-small-v2"
LOOP_S = 1500.0


def hub_models() -> list[Any]:
    """MiniLM with its real files, ALBERT with its configuration only."""
    folder = packaged_folder(MINILM)
    assert folder is not None, "the real checkpoint's package is missing"
    files = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    minilm, albert = find_starter(MINILM), find_starter(ALBERT)
    assert minilm is not None
    assert albert is not None
    return [model_from_entry(minilm, files), model_from_entry(albert)]


def waiting(service: Service) -> list[dict[str, Any]]:
    return list(service.get("reviews", state="waiting")["reviews"])


def candidate_for(service: Service, model: str) -> dict[str, Any]:
    """The waiting candidate that would make `model` pass."""
    for item in waiting(service):
        whole = service.get(f"reviews/{item['id']}")
        if model in json.dumps(whole["would_then_pass"]):
            return dict(whole)
    raise AssertionError(f"no candidate for {model}")


def documents_behind(candidate: dict[str, Any]) -> list[dict[str, Any]]:
    """The documents that the stored evidence says the verdicts came from; every verdict must name some."""
    notes = [row["evidence"]["measurements"]["notes"] for row in candidate["evidence"]]
    assert notes
    assert all(note["captured_in"].startswith("a child of ours") and note["documents"] for note in notes), notes
    return [document for note in notes for document in note["documents"]]


def approve(service: Service, candidate: dict[str, Any]) -> dict[str, Any]:
    """Approve what was seen; a stale digest is refused first."""
    path = f"/api/v1/reviews/{candidate['id']}"
    seen = service.client.get(path).headers["ETag"]
    body = {"reason": "evidence read, same mathematics"}
    stale = service.client.post(f"{path}/approve", headers={"If-Match": f'"{"0" * 64}"'}, json=body)
    assert stale.status_code in (409, 412), stale.text
    answer = service.client.post(f"{path}/approve", headers={"If-Match": seen}, json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def accept_rule(service: Service) -> dict[str, Any]:
    """Accept the one rule that the released drafted patch is a use of; another digest than its own is refused."""
    (rule,) = service.get("rules")["rules"]
    path, body = f"/api/v1/rules/{rule['id']}/accept", {"reason": "the same function in its domain"}
    stale = service.client.post(path, headers={"If-Match": f'"{"0" * 64}"'}, json=body)
    assert stale.status_code == 412, stale.text
    answer = service.client.post(path, headers={"If-Match": f'"{rule["seen"]}"'}, json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def outcome(service: Service, model: str) -> str | None:
    return str(service.get(f"models/{model}")["outcome"])


def refused_in_fp32(service: Service, model: str) -> set[str]:
    """The device operations that the story of `model` says do not compute on fp32."""
    story = json.dumps(service.get(f"models/{model}")["failures"])
    return set(re.findall(r"does not support: (\w+) on DataFormats\.IEEE_FP32", story))


def fp32_operations_of_the_profile() -> set[str]:
    """What computes on fp32 in the default profile, as the command prints it."""
    command = [str(Path(sys.executable).with_name("spyre-factory")), "profile", "show", "profile-2026-08", "--json"]
    shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    return set(shown["fp32_ops"])


def last_run(service: Service, model: str) -> int:
    return max(int(run["id"]) for run in service.get(f"models/{model}")["runs"])


def script_fails_as_told(service: Service, model: str, folder: Path) -> None:
    """A stored script of the model's diagnoses, run by itself, ends with the kind and operation of its diagnosis."""
    listed = service.get("diagnoses", model=model)["diagnoses"]
    told = next(one for one in listed if one["reproducer"])
    script = folder / "reproducer.py"
    script.write_bytes(service.client.get(told["reproducer"]).content)
    done = subprocess.run([sys.executable, str(script)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr[-3000:]
    found = printed(done.stderr)
    assert found is not None, done.stderr[-3000:]
    assert (found.kind, found.op) == (told["kind"], told["op"])


def listed_later_passes_at_once(service: Service, folder: Path) -> None:
    """A model swept on synthetic weights passes with the released adapter; another of its structure needs no run."""
    minilm = find_starter(MINILM)
    assert minilm is not None
    (folder / "hub_configs.json").write_text(json.dumps({MINILM: {"config": minilm.config, "pooling": "mean"}}))
    row = {"model_type": "bert", "architectures": ["BertModel"], "config_ref": MINILM, "config_confidence": "exact"}
    names = ("twins/first", "twins/later")
    rows = [{**row, "model_id": name, "rank": n, "downloads": 10 - n} for n, name in enumerate(names, 1)]
    first, both = folder / "first.jsonl", folder / "both.jsonl"
    first.write_text(json.dumps(rows[0]))
    both.write_text("\n".join(map(json.dumps, rows)))
    service.command("sweep", "--catalog", str(first), "--weights", "synthetic", "--releases", "none")
    assert outcome(service, names[0]) == "passed"
    service.command("catalog", "import", str(both))
    later = service.get(f"models/{names[1]}")
    assert (later["outcome"], later["derived_from"]) == ("passed", names[0])
    assert later["runs"] == service.get(f"models/{names[0]}")["runs"], "no run is about it"


def withdrawn_passes_no_more(service: Service, adapter: int) -> None:
    """Without its adapter the model is run as stock again, fails, and no figure counts it; the rest stays."""
    service.command("adapters", "withdraw", str(adapter), "--reason", "a flaw was found")
    service.wait_for("MiniLM to fail", lambda: outcome(service, MINILM) == "failed", LOOP_S)
    assert outcome(service, ALBERT) == "passed"
    assert service.get("coverage")["passing_real"] == 0


def encode_agrees(manifest: Path) -> float:
    """The lowest cosine of 50 sentences, stock against `backend="spyre"`, in a process with `spyre_adapters` only."""
    folder = packaged_folder(MINILM)
    script = Path(__file__).with_name("encode_agrees.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder), str(manifest)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return float(done.stdout.splitlines()[-1])


def the_agent_s_conversation(service: Service) -> dict[str, Any]:
    """What the drafter's one conversation was, as the command lists it."""
    listed = json.loads(service.command("agents", "trajectories", "--json"))["trajectories"]
    (conversation,) = [one for one in listed if one["role"] == "drafter"]
    return dict(conversation)


@pytest.mark.sandbox
@pytest.mark.timeout(3600)
def test_a_failing_model_becomes_a_reviewed_adapter(tmp_path: Path) -> None:
    with LocalHub(hub_models()) as hub, serve() as endpoint:
        settings = {
            "HF_ENDPOINT": hub.url,
            "OPENAI_BASE_URL": endpoint.url,
            "OPENAI_API_KEY": "none",
            "SPYRE_FACTORY_LLM_MODEL": "scripted",
            "SPYRE_FACTORY_LLM_DAILY_BUDGET_USD": "1",
            "SPYRE_FACTORY_DRAFTERS": "llm",
            "SPYRE_FACTORY_RELEASES": "none",
        }
        with Service(tmp_path / "data", settings, "--sweep", "hub") as service:
            service.log_in()
            service.wait_for("two waiting candidates", lambda: len(waiting(service)) == 2, LOOP_S)
            assert outcome(service, MINILM) == outcome(service, ALBERT) == "failed"
            assert {"batchmatmul", "tanh"} <= (refused := refused_in_fp32(service, ALBERT))
            assert refused.isdisjoint(fp32_operations_of_the_profile())
            script_fails_as_told(service, ALBERT, tmp_path)
            before = service.get("coverage")
            assert before["passing_real"] == before["passing_synthetic"] == 0
            assert before["demo"]

            untouched = last_run(service, ALBERT)
            by_rules, by_agent = candidate_for(service, MINILM), candidate_for(service, ALBERT)
            assert {p["drafter"] for p in by_rules["patches"]} == {"rules"}
            assert not by_rules["scripted"]
            drafted = {p["pattern"]: p["drafter"] for p in by_agent["patches"]}
            assert drafted["P01"] == "llm"
            assert drafted["P56"] == "rules"
            assert by_agent["scripted"]
            for document in [*documents_behind(by_rules), *documents_behind(by_agent)]:
                assert len(document["digest"]) == 64
                assert document["nodes"] > document["calls"] > 0
                assert document["dtype"] == "float16"

            released = approve(service, by_rules)
            service.wait_for("MiniLM to pass", lambda: outcome(service, MINILM) == "passed", LOOP_S)
            assert released["runs"]
            assert outcome(service, ALBERT) == "failed"
            assert last_run(service, ALBERT) == untouched, "a release runs what it can affect, nothing else"
            after = service.get("coverage")
            assert after["passing_real"] == 1
            assert after["supported"] == before["supported"] + 1

            approve(service, by_agent)
            service.wait_for("ALBERT to pass", lambda: outcome(service, ALBERT) == "passed", LOOP_S)
            assert service.get("coverage")["passing_synthetic"] == 0, "a scripted adapter counts in no figure"

            rule = accept_rule(service)
            assert rule["scripted"]
            assert rule["state"] == "accepted"
            assert rule["tests"]["near_misses_refused"] >= 1

            listed_later_passes_at_once(service, tmp_path)

            manifest = tmp_path / "manifest.json"
            download = service.client.get(f"/api/v1/adapters/{released['adapter']['id']}/manifest")
            manifest.write_bytes(download.content)
            withdrawn_passes_no_more(service, released["adapter"]["id"])
        assert encode_agrees(manifest) >= 0.999
        conversation = the_agent_s_conversation(service)
        assert conversation["scripted"]
        assert conversation["outcome"] == "patch"
        service.command("agents", "export", conversation["id"], str(tmp_path / "conversation.json"))
    replayed = json.loads(service.command("agents", "replay", str(tmp_path / "conversation.json"), "--json"))
    assert replayed["identical"], replayed
    assert replayed["calls"] >= 2
    service.command("db", "check")
