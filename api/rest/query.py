"""Query fields of the lists that are asked most, read by their model alone.

FastAPI looks at every field of a parameter model anew for each request, a tenth of a millisecond
for the list of models. The document that it writes of them is taken from FastAPI itself, so that both say the same.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

Asked = TypeVar("Asked", bound=BaseModel)


def query_of(request: Request, model: type[Asked]) -> Asked:
    """The query of a request as `model`; of a name given twice the last. Raises `RequestValidationError`."""
    try:
        return model.model_validate(dict(request.query_params))
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise RequestValidationError([{**one, "loc": ("query", *one["loc"])} for one in found]) from error


def documented(model: type[BaseModel]) -> dict[str, Any]:
    """`openapi_extra` of a route that reads its query by `query_of`: the parameters as FastAPI describes them."""
    example = FastAPI()

    def route(query: Any) -> None: ...

    route.__annotations__["query"] = Annotated[model, Query()]
    example.get("/")(route)
    return {"parameters": example.openapi()["paths"]["/"]["get"]["parameters"]}
