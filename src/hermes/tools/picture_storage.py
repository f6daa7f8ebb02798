"""Keeps pictures as artifacts: checked, without metadata, small enough for a model."""

from anyio import to_thread

from hermes.core.errors import ToolError
from hermes.core.foreign_text import visible_line
from hermes.core.messages import MAX_PICTURE_BYTES, MAX_PICTURE_SIDE_PX, Picture
from hermes.core.protocols import ArtifactStore, StoresBytes, ToolContext
from hermes.plumbing.picture_format import PictureFile, PictureRefused, prepare_picture

MAX_ALT_CHARS = 300
MAX_RESULT_PICTURES = 10


async def store_picture(
    artifacts: ArtifactStore, run: str, name: str, data: bytes, alt: str
) -> Picture:
    """The picture, kept under a reference. Raises `ToolError` in plain words, and `StoreError`."""
    if not isinstance(artifacts, StoresBytes):
        raise ToolError("pictures cannot be kept here")
    found = await check_picture(data)
    return Picture(
        artifact=await artifacts.save_bytes(run, name, found.data),
        media=found.media,
        width=found.width,
        height=found.height,
        bytes=len(found.data),
        alt=visible_line(alt, MAX_ALT_CHARS),
    )


async def add_result_picture(
    context: ToolContext, call_id: str, pictures: list[Picture], data: bytes, alt: str
) -> None:
    """Adds a picture to those of the result of this call. Raises as `store_picture`."""
    if len(pictures) >= MAX_RESULT_PICTURES:
        raise ToolError(f"one result holds at most {MAX_RESULT_PICTURES} pictures")
    name = f"{call_id}-{len(pictures) + 1}"
    alt = context.redact(alt)
    pictures.append(await store_picture(context.artifacts, context.run, name, data, alt))


async def check_picture(data: bytes) -> PictureFile:
    """The picture without metadata and, with Pillow, within the limits. Raises `ToolError`."""
    try:
        return await to_thread.run_sync(
            lambda: prepare_picture(
                data, max_side_px=MAX_PICTURE_SIDE_PX, max_bytes=MAX_PICTURE_BYTES
            )
        )
    except PictureRefused as error:
        raise ToolError(str(error)) from error
