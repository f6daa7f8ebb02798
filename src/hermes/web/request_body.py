"""Bodies of requests, and errors of Hermes as refusals."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TypeVar

import msgspec

from hermes.core.errors import HermesError, SchedulePhraseError, StoreError
from hermes.plumbing.http_service import HttpRefusal, HttpRequest

T = TypeVar("T")


def decode_body(request: HttpRequest, kind: type[T]) -> T:
    """Raises `HttpRefusal`."""
    try:
        return msgspec.json.decode(request.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, f"the body is not understood: {error}") from error


@contextmanager
def refuse_errors() -> Iterator[None]:
    """Answer the request with the error that a person would read in the terminal."""
    try:
        yield
    except StoreError as error:
        message = "the journal cannot be used now; try again"
        raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message, retry_after="5") from error
    except SchedulePhraseError as error:
        raise HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
    except HermesError as error:
        raise HttpRefusal(HTTPStatus.CONFLICT, str(error)) from error
