"""A thin client of the REST API for commands with `--server URL`: a problem document becomes its sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.errors import EnvironmentProblem, FactoryError
from pipeline.settings import get_settings

if TYPE_CHECKING:
    import httpx

PREFIX = "/api/v1"
LARGEST_PAGE = 200
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
        return self._call("GET", path, params={name: value for name, value in query.items() if value not in (None, "")})

    def post(self, path: str, body: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        """The JSON of a POST. Raises `Refused`, `EnvironmentProblem`."""
        return self._call("POST", path, json=body, headers=headers)

    def models(self, profile: str | None, outcome: str | None, search: str, limit: int) -> list[dict[str, Any]]:
        """The first `limit` models, most downloaded first."""
        found: list[dict[str, Any]] = []
        query = {"profile": profile, "outcome": outcome, "search": search, "cursor": None}
        while len(found) < limit:
            page = self.get("/models", **query, limit=min(limit - len(found), LARGEST_PAGE))
            found += page["models"]
            query["cursor"] = page["next"]
            if page["next"] is None:
                break
        return found

    def coverage(self, profile: str | None, by: str | None) -> dict[str, Any]:
        """How many models are supported and passing."""
        return self.get("/coverage", profile=profile, by=by)

    def ops(self, profile: str | None) -> dict[str, Any]:
        """Causes by the downloads that would then pass."""
        return self.get("/ops", profile=profile)

    def capabilities(self, profile: str | None) -> dict[str, Any]:
        """What a scheduler needs to know."""
        return self.get("/capabilities", profile=profile)

    def reviews(self, every: bool) -> list[dict[str, Any]]:
        """The candidates that wait, or all."""
        return list(self.get("/reviews", state="all" if every else "waiting")["reviews"])

    def review(self, number: int) -> dict[str, Any]:
        """A candidate with everything there is to see."""
        return self.get(f"/reviews/{number}")

    def decide(self, number: int, verb: str, seen: str | None = None, **body: Any) -> dict[str, Any]:
        """Take a decision on a candidate; `seen` names what was seen, by default what is there now."""
        if seen is None and body:
            seen = self.review(number)["seen"]
        return self.post(f"/reviews/{number}/{verb}", body or None, **({"If-Match": f'"{seen}"'} if seen else {}))

    def rules(self, every: bool) -> list[dict[str, Any]]:
        """The proposed rules that wait, or all."""
        return list(self.get("/rules", state="all" if every else "waiting")["rules"])

    def decide_rule(self, number: int, verb: str, seen: str, reason: str) -> dict[str, Any]:
        """Accept or reject a proposed rule."""
        return self.post(f"/rules/{number}/{verb}", {"reason": reason}, **{"If-Match": f'"{seen}"'})

    def adapters(self) -> list[dict[str, Any]]:
        """Every adapter, newest first."""
        return list(self.get("/adapters")["adapters"])

    def adapter(self, number: int) -> dict[str, Any]:
        """An adapter with its manifest."""
        return self.get(f"/adapters/{number}")

    def bundle(self, number: int) -> bytes:
        """The signed bundle of an adapter."""
        return self._answer("GET", f"/adapters/{number}/bundle").content

    def evidence(self) -> list[dict[str, Any]]:
        """The newest evidence."""
        return list(self.get("/evidence", limit=LARGEST_PAGE)["evidence"])

    def replay(self, number: int, **how: Any) -> dict[str, Any]:
        """Asks for a replay; what stands of it so far."""
        return self.post(f"/evidence/{number}/replay", how)

    def _call(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        try:
            return dict(self._answer(method, path, **how).json())
        except ValueError as error:
            raise EnvironmentProblem(f"{self._server} does not answer as the factory's API does.") from error

    def _answer(self, method: str, path: str, **how: Any) -> httpx.Response:
        import httpx

        try:
            answer = self._http.request(method, path, **how)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EnvironmentProblem(f"{self._server} cannot be asked: {error}.") from error
        if answer.is_success:
            return answer
        try:
            detail = answer.json().get("detail")
        except (ValueError, AttributeError) as error:
            raise EnvironmentProblem(f"{self._server} does not answer as the factory's API does.") from error
        raise Refused(str(detail or f"{self._server} answered {answer.status_code}."))
