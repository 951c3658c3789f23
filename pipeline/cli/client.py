"""A thin client of the REST API for commands with `--server URL`: a problem document becomes its sentence."""

from __future__ import annotations

from typing import Any

from pipeline.errors import EnvironmentProblem, FactoryError
from pipeline.settings import get_settings

PREFIX = "/api/v1"
TIMEOUT_S = 60.0


class Refused(FactoryError):
    """The service refused; the message is its own."""

    code, status = "refused", 400


class Client:
    """The service at `server`, asked with the token of `SPYRE_FACTORY_TOKEN`, if there is one."""

    def __init__(self, server: str, transport: Any = None) -> None:
        import httpx

        token = get_settings().token
        self._server = server.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(
            base_url=self._server + PREFIX, headers=headers, timeout=TIMEOUT_S, transport=transport
        )

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """The JSON of a GET. Raises `Refused`, `EnvironmentProblem`."""
        return self._call("GET", path, params=query)

    def post(self, path: str, body: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        """The JSON of a POST. Raises `Refused`, `EnvironmentProblem`."""
        return self._call("POST", path, json=body, headers=headers)

    def _call(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        import httpx

        try:
            answer = self._http.request(method, path, **how)
            document = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EnvironmentProblem(f"{self._server} cannot be asked: {error}.") from error
        except ValueError as error:
            raise EnvironmentProblem(f"{self._server} does not answer as the factory's API does.") from error
        if answer.is_success:
            return dict(document)
        raise Refused(str(document.get("detail") or f"{self._server} answered {answer.status_code}."))
