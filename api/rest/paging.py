"""Pages of lists whose order is the number of their rows, newest first: one query, one cursor, one form of answer."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import Field
from sqlalchemy import Select
from sqlalchemy.orm import InstrumentedAttribute, Session

from api.cursors import Cursor, decode
from api.rest.schemas import Strict


class PageQuery(Strict):
    """A page of a list, newest first."""

    cursor: Annotated[str | None, Field(max_length=600, description="`next` of the page before.")] = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class Page(NamedTuple):
    """Rows of a page, and the cursor of the following one; None on the last."""

    rows: list[Any]
    next: str | None


def page_of(
    session: Session, query: Select[Any], number: InstrumentedAttribute[int], asked: PageQuery, name: str
) -> Page:
    """The page `asked` for of the entities of `query`; `name` keeps cursors of other lists out. Raises `BadCursor`."""
    if asked.cursor:
        query = query.where(number < decode(asked.cursor, (name,), int).id)
    rows = list(session.scalars(query.order_by(number.desc()).limit(asked.limit + 1)))
    if len(rows) <= asked.limit:
        return Page(rows, None)
    return Page(rows[:-1], Cursor(name, 0, rows[-2].id).encode())
