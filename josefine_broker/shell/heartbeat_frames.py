"""Heartbeats and their answers as frame bodies: JSON objects of a few fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from josefine_broker.core.controller import Heartbeat, HeartbeatAnswer
from josefine_broker.shell.raft_frames import Frame, FrameError, encode_body

T = TypeVar("T")


def encode_beat(beat: Heartbeat) -> bytes:
    """The body of a HEARTBEAT frame."""
    return encode_body(
        {
            "broker": beat.broker_id,
            "epoch": beat.broker_epoch,
            "applied": beat.applied_height,
            "stops": beat.wants_shutdown,
        }
    )


def decode_beat(frame: Frame) -> Heartbeat:
    """Raises FrameError."""
    return _read(
        frame,
        lambda plain: Heartbeat(
            broker_id=int(plain["broker"]),
            broker_epoch=int(plain["epoch"]),
            applied_height=int(plain["applied"]),
            wants_shutdown=bool(plain["stops"]),
        ),
    )


def encode_answer(answer: HeartbeatAnswer) -> bytes:
    """The body of a HEARTBEAT_ANSWER frame."""
    return encode_body(
        {"known": answer.known_epoch, "fenced": answer.fenced, "may_stop": answer.may_stop}
    )


def decode_answer(frame: Frame) -> HeartbeatAnswer:
    """Raises FrameError."""
    return _read(
        frame,
        lambda plain: HeartbeatAnswer(
            known_epoch=bool(plain["known"]),
            fenced=bool(plain["fenced"]),
            may_stop=bool(plain["may_stop"]),
        ),
    )


def _read(frame: Frame, build: Callable[[dict[str, Any]], T]) -> T:
    plain = frame.fields()
    try:
        return build(plain)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FrameError(f"a {frame.kind.name} frame without its fields: {error!r}") from error
