"""The scripted OpenAI-compatible endpoint: product code for the demonstration and the tests."""

from agents.endpoint.faults import Fault
from agents.endpoint.script import Script, ScriptError, Step, load_scripts
from agents.endpoint.server import Running, make_server, serve

__all__ = ["Fault", "Running", "Script", "ScriptError", "Step", "load_scripts", "make_server", "serve"]
